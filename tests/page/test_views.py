"""Every view is accessible in both themes, and fits a phone."""

import json

import pytest
from playwright.sync_api import expect

from native.page import PAGE
from service.page.endpoints import VIEWS

AXE = PAGE / "node_modules" / "axe-core" / "axe.min.js"
TABS = ("curves", "results", "samples", "logs", "events", "spec", "files")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


@pytest.fixture(scope="module")
def paths(site):
    """Addresses of all views, with jobs that run, wait, succeeded and failed behind them."""
    done = site.submit(name="done", epochs=2)
    site.wait_for_end(done)
    failed = site.submit(name="bad", epochs=1, metadata={"die_at": "2", "how": '"say:no"'},
                         retry={"failures": 0})  # fmt: skip
    site.wait_for_end(failed)
    site.submit(name="running", epochs=500, metadata={"step_seconds": "0.05"})
    site.submit(name="waiting", epochs=1)
    dataset = next(one.id for one in site.client.datasets() if one.name == "builtin:iris")
    known = {"job_id": done, "dataset_id": dataset}
    views = [path.format(**known) for path in VIEWS if path != "/login"]
    tabs = [f"/jobs/{done}?tab={tab}" for tab in TABS]
    more = [f"/jobs/{failed}", "/new?dataset=builtin%3Airis", f"/compare?job={done}&job={failed}"]
    yield [*views, *tabs, *more]
    site.cancel_all()


@pytest.mark.parametrize(
    ("theme", "rules"),
    [("light", RULES), ("dark", ["color-contrast"])],  # the themes differ in colours only
)
def test_no_view_violates_the_rules_of_accessibility(paths, open_page, theme, rules):
    # axe is started through the debugger, so the page's own policy stays as it is.
    page = open_page("/", color_scheme=theme)
    source = AXE.read_text()
    options = json.dumps({"runOnly": rules})
    found = []
    for path in paths:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.evaluate(source)
        result = page.evaluate(f"axe.run(document, {options})")
        found += [
            f"{path}: {rule['id']}: {node['target']}: {node['failureSummary']}"
            for rule in result["violations"]
            for node in rule["nodes"][:3]
        ]
    assert not found, "\n".join(found)


def test_every_view_fits_a_phone(paths, open_page):
    page = open_page("/", viewport={"width": 390, "height": 800}, is_mobile=True)
    wide = []
    for path in paths:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(path)
    assert not wide


def test_the_keyboard_reaches_help_search_and_views(site, open_page):
    page = open_page("/machines")
    expect(page.get_by_role("heading", name="Machines")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Search jobs")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="New job")).to_be_visible()
