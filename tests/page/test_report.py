"""The report of a job as HTML prints on paper."""

import re

import numpy as np
from PIL import Image

from worker.export.card.page import render_page

ROW = "| a class with a long name | " + " | ".join(f"{n / 7:.4f}" for n in range(8)) + " |"
HEAD = ["# flowers", "", "| class " + "| score " * 8 + "|", "|---" * 9 + "|"]
CODE = ["", "```python", f"print({'x' * 300!r})", "```", ""]
CARD = "\n".join([*HEAD, *([ROW] * 60), *CODE])
A4 = {"width": 794, "height": 1123}
"""Pixels of a page of A4 at 96 dots an inch."""


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
