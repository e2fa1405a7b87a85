"""Accessibility of what a page shows, in both themes and on a phone."""

from functools import cache

from native.page import PAGE

DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 800}
ALL = {}
WIDER = """
  document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('*')]
    .filter((one) => one.getBoundingClientRect().right > innerWidth)
    .map((one) => `${one.tagName}.${one.className}`)
"""
"""What reaches beyond the right edge, if the view does."""
OF_COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
"""The rules whose result depends on the theme; the others would find the same again."""


@cache
def _source():
    return (PAGE / "node_modules" / "axe-core" / "axe.min.js").read_text()


def find_violations(page, name):
    """What axe finds in the present state, and whether it fits a phone; each names the state."""
    page.set_viewport_size(DESKTOP)
    # axe is started through the debugger, so the page's own policy stays as it is.
    page.evaluate(_source())
    found = []
    for theme, rules in (("light", ALL), ("dark", OF_COLOURS)):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        violations = page.evaluate(
            "(rules) => axe.run(document, rules).then((result) => result.violations)", rules
        )
        found += [
            f"{name}, {theme}: {rule['id']}: {node['target']}: {node['failureSummary']}"
            for rule in violations
            for node in rule["nodes"][:3]
        ]
    page.set_viewport_size(PHONE)
    if wider := page.evaluate(WIDER):
        found.append(f"{name}: is wider than a phone: {wider[:9]}")
    page.set_viewport_size(DESKTOP)
    if page.locator("main img[src=x]").count() or "owned" in page.title():
        found.append(f"{name}: shows a hostile name as markup")
    return found
