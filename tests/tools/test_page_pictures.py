"""The pictures of the web page are small, and docs/page.md shows them."""

from pathlib import Path

import pytest
from PIL import Image

from tools.page_pictures import HEIGHT, NAMES, WIDTH, picture_path

DOCS = Path(__file__).parents[2] / "docs"
MOST_BYTES = 150_000


@pytest.mark.parametrize("name", NAMES)
def test_each_picture_is_small_and_on_the_page(name):
    path = picture_path(name)
    assert path.stat().st_size <= MOST_BYTES
    with Image.open(path) as picture:
        assert picture.size == (WIDTH, HEIGHT)
    assert f"{path.relative_to(DOCS)}" in (DOCS / "page.md").read_text()
