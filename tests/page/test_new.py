"""Writing a spec: presets, completion, and errors at their lines."""

import re

from playwright.sync_api import expect


def open_editor(open_page):
    page = open_page("/new?dataset=builtin%3Adigits")
    editor = page.get_by_label("Spec as YAML")
    expect(editor).to_contain_text("builtin:digits")
    return page, editor


def test_presets_write_settings_and_own_ones_are_kept_in_the_browser(open_page):
    page, editor = open_editor(open_page)
    presets = page.get_by_role("group", name="Presets")
    presets.get_by_role("button", name="Try out").click()
    expect(page.get_by_label("epochs", exact=True)).to_have_value("1")
    presets.get_by_role("button", name="Small files").click()
    both = re.compile("quality: fast.*variants:.*- int8-dynamic", re.DOTALL)
    expect(editor).to_contain_text(both)
    presets.get_by_role("button", name="Save as preset").click()
    page.get_by_label("Name", exact=True).fill("my own")
    page.get_by_role("button", name="Save", exact=True).click()

    page.goto("/new?dataset=builtin%3Airis")
    page.get_by_role("button", name="my own", exact=True).click()
    expect(editor).to_contain_text(re.compile("builtin:iris.*epochs: 1", re.DOTALL))
    page.get_by_role("button", name="Remove the preset my own").click()
    page.reload()
    expect(presets.get_by_role("button", name="Fast")).to_be_visible()
    expect(page.get_by_role("button", name="my own", exact=True)).not_to_be_attached()


def test_keys_and_values_of_a_spec_are_completed_from_its_schema(open_page):
    page, editor = open_editor(open_page)
    expect(page.get_by_role("group", name="Presets")).to_be_visible()
    editor.press("Control+End")
    page.keyboard.type("train")
    accept(page, "training")
    page.keyboard.type("optim")
    accept(page, "optimizer")
    page.keyboard.type("name: mu")
    accept(page, "muon")
    expect(editor).to_contain_text(re.compile(r"training:\s+optimizer:\s+name: muon"))


def accept(page, option):
    """Take a suggestion as a person would, who sees it first.

    The editor takes Enter as a line break for 75 ms after its list has changed.
    """
    expect(page.get_by_role("option", name=option)).to_be_visible()
    page.wait_for_timeout(300)
    page.keyboard.press("Enter")
    expect(page.get_by_role("option", name=option)).not_to_be_attached()


def test_an_error_is_marked_at_its_line(open_page):
    page, editor = open_editor(open_page)
    editor.press("Control+End")
    page.keyboard.type("name: x\ntraining: {epochs: -1}")
    expect(page.get_by_text(re.compile(r"^Line 3: "))).to_be_visible()
    marked = page.locator(".cm-lintRange-error")
    expect(marked).to_have_count(1)
    expect(marked).to_contain_text("epochs: -1")
