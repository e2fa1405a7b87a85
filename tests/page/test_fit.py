"""Nothing is cut at the right: of a view on a desktop or a phone, of a report on paper."""

import random
import re

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.page.axe import DESKTOP, PHONE
from worker.export.card.page import render_page

ROW = "| a class with a long name | " + " | ".join(f"{n / 7:.4f}" for n in range(8)) + " |"
HEAD = ["# flowers", "", "| class " + "| score " * 8 + "|", "|---" * 9 + "|"]
CODE = ["", "```python", f"print({'x' * 300!r})", "```", ""]
CARD = "\n".join([*HEAD, *([ROW] * 60), *CODE])
A4 = {"width": 794, "height": 1123}
"""Pixels of a page of A4 at 96 dots an inch."""
CUT = """
() => {
  const all = [...document.querySelectorAll('body *')]
  const name = (one) => `${one.tagName}.${one.className} of ${one.parentElement.className}`
  const isWider = (one) => one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1
  const flow = (one) => getComputedStyle(one).overflowX
  const isScroller = (one) => ['auto', 'scroll'].includes(flow(one))
  const hasHint = ({ backgroundImage, maskImage }) =>
    backgroundImage.includes('gradient') || maskImage.includes('gradient')
  const within = (one) => one !== null && (isScroller(one) || within(one.parentElement))
  const beyond = (one) => one.getBoundingClientRect().right > innerWidth + 1 && !within(one)
  const isHidden = (one) => ['hidden', 'clip'].includes(flow(one))
    && getComputedStyle(one).textOverflow !== 'ellipsis' && !one.matches('.visually-hidden')
  const cut = (one) => isWider(one)
    && (isHidden(one) || (isScroller(one) && !hasHint(getComputedStyle(one))))
  return all.filter((one) => beyond(one) || cut(one)).map(name)
}
"""
"""What is cut: beyond the window, hidden by its box, or in a box that scrolls without a hint."""


@pytest.fixture(scope="module")
def houses(site):
    """The id of a table with long names of columns and values."""
    rng = random.Random(0)
    lines = ["street_and_number,type_of_the_building,heating_system,rooms,price"]
    for number in range(80):
        kind = ("terraced house", "semi-detached house", "flat")[number % 3]
        heating = ("underfloor heating", "radiators")[number % 2]
        numbers = f"{rng.randrange(9)},{rng.randrange(99999)}"
        lines.append(f"{number} Long Avenue,{kind},{heating},{numbers}")
    with httpx.Client(base_url=site.stack.url, timeout=60) as client:
        made = client.post("/v1/datasets", params={"name": "houses"}, content="\n".join(lines),
                           headers={"Content-Type": "application/octet-stream"})  # fmt: skip
        path = f"/v1/datasets/{made.raise_for_status().json()['id']}"
        site.wait_for(lambda: client.get(path).json()["status"] == "ready")
    return path.rpartition("/")[2]


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_new_job_on_a_table_is_not_cut(houses, open_page, size):
    page = open_page(f"/new?dataset={houses}", viewport=size)
    button = page.get_by_role("button", name="Start the job")
    expect(button).to_be_enabled()
    columns = page.get_by_role("group", name="Columns of the table")
    expect(columns).to_be_visible()
    assert columns.evaluate("box => box.scrollWidth <= box.clientWidth")
    assert page.evaluate(CUT) == []
    expect(button).to_be_in_viewport(ratio=1)
    navigation = page.get_by_role("navigation").bounding_box()
    bar = button.bounding_box()
    assert size is DESKTOP or bar["y"] + bar["height"] <= navigation["y"]


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_results_by_class_are_not_cut(made_job, open_page, size):
    page = open_page(f"/jobs/{made_job}?tab=results", viewport=size)
    classes = page.get_by_role("group", name="Results by class")
    expect(classes.get_by_role("row")).not_to_have_count(0)
    assert page.evaluate(CUT) == []


def test_a_table_that_is_too_wide_scrolls_and_shows_it(houses, open_page):
    page = open_page(f"/data/{houses}", viewport=PHONE)
    rows = page.get_by_role("group", name="Rows")
    expect(rows).to_contain_text("terraced house")
    assert rows.evaluate("box => box.scrollWidth > box.clientWidth")
    assert page.evaluate(CUT) == []


def test_the_report_prints_on_several_pages_and_nothing_is_cut_off(browser, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (600, 2400), np.uint8)
    Image.fromarray(noise).save(tmp_path / "wide.png")
    page = browser.new_page(viewport=A4)
    page.set_content(
        render_page(CARD, title="flowers", pictures={"A wide picture": tmp_path / "wide.png"})
    )
    page.emulate_media(media="print")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= A4["width"]
    bottom, height = page.locator("img").evaluate("i => [i.naturalHeight, i.height]")
    assert 0 < height < bottom  # it was made narrower
    printed = page.pdf(format="A4")
    page.close()
    assert printed.startswith(b"%PDF")
    counts = [int(found) for found in re.findall(rb"/Count (\d+)", printed)]
    assert max(counts) >= 3
