"""Accessibility of what a page shows, in both themes and on a phone."""

from functools import cache

from native.page import PAGE

DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 800}


@cache
def _source():
    return (PAGE / "node_modules" / "axe-core" / "axe.min.js").read_text()


def find_violations(page, name):
    """What axe finds in the present state, and whether it fits a phone; each names the state."""
    page.set_viewport_size(DESKTOP)
    # axe is started through the debugger, so the page's own policy stays as it is.
    page.evaluate(_source())
    found = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        violations = page.evaluate("axe.run(document).then((result) => result.violations)")
        found += [
            f"{name}, {theme}: {rule['id']}: {node['target']}: {node['failureSummary']}"
            for rule in violations
            for node in rule["nodes"][:3]
        ]
    page.set_viewport_size(PHONE)
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append(f"{name}: is wider than a phone")
    page.set_viewport_size(DESKTOP)
    return found
