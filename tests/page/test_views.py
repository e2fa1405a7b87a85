"""Every view is accessible in both themes, fits a phone, and shows hostile names as text."""

import re

import pytest
from playwright.sync_api import expect

from service.page.endpoints import VIEWS
from tests.page.axe import find_violations

TABS = ("curves", "results", "samples", "logs", "events", "spec", "files")


@pytest.fixture(scope="module")
def paths(site, made_job):
    """Addresses of all views, with jobs that run, wait, succeeded and failed behind them."""
    done = made_job
    failed = site.submit(name="bad", epochs=1, metadata={"die_at": "2", "how": '"say:no"'},
                         retry={"failures": 0})  # fmt: skip
    site.wait_for_end(failed)
    site.submit(name="running", epochs=500, metadata={"step_seconds": "0.05"})
    site.submit(name="waiting", epochs=1)
    dataset = next(one.id for one in site.client.datasets() if one.name == "builtin:iris")
    site.client.register_model("made", done, aliases=("production",))
    known = {"job_id": done, "dataset_id": dataset, "name": "made"}
    views = [path.format(**known) for path in VIEWS if path != "/login"]
    tabs = [f"/jobs/{done}?tab={tab}" for tab in TABS]
    digits = site.client.job(done).dataset_id
    more = [f"/jobs/{failed}", "/new?dataset=builtin%3Airis", f"/compare?job={done}&job={failed}",
            f"/data/{digits}?job={done}"]  # fmt: skip
    yield [*views, *tabs, *more]
    site.cancel_all()


def test_every_view_is_accessible_in_both_themes_and_fits_a_phone(paths, open_page):
    """Class names, logs, messages and names of machines are hostile; they are shown as text."""
    page = open_page("/", color_scheme="light")
    found = []
    for path in paths:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        found += find_violations(page, path)
        if page.locator("main img[src=x]").count() or "owned" in page.title():
            found.append(f"{path}: shows a hostile name as markup")
    assert not found, "\n".join(found)


def test_dialogs_errors_and_opened_parts_are_accessible(made_job, job_of_many, open_page):
    page = open_page("/", color_scheme="light")
    expect(page.get_by_role("heading", name="Home")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    found = find_violations(page, "shortcuts")
    page.goto(f"/jobs/{made_job}")
    page.get_by_role("button", name="Delete the job").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found += find_violations(page, "question")
    page.goto("/new?dataset=builtin%3Airis")
    page.get_by_label("epochs", exact=True).fill("many")
    page.keyboard.press("Tab")
    expect(page.get_by_text(re.compile(r"^Line \d: "))).to_be_visible()
    page.get_by_text("All fields").click()
    found += find_violations(page, "errors in New")
    page.goto(f"/jobs/{job_of_many}?tab=results&true=class+1&predicted=class+2")
    page.get_by_text("Matrix of 30 classes").click()
    expect(page.get_by_role("group", name="Confusion matrix")).to_be_visible()
    found += find_violations(page, "matrix")
    page.goto("/settings")
    page.get_by_text("Packages in this page").click()
    expect(page.get_by_role("list", name="Licences")).to_be_visible()
    found += find_violations(page, "licences")
    assert not found, "\n".join(found)


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
