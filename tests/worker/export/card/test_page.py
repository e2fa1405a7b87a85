from html.parser import HTMLParser

from PIL import Image

from worker.export.card.page import render_page

CARD = """# flowers <b>

| metric | value |
|---|---|
| accuracy | 0.9 |

![variants](variants.png)

- class `<script>alert(1)</script>`
"""


class Sources(HTMLParser):
    """Collects the tags of a page and everything that it would load."""

    def __init__(self):
        super().__init__()
        self.tags, self.loaded = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href")]


def test_the_page_contains_its_pictures_and_loads_nothing(tmp_path):
    pictures = {}
    for caption in ("Curves & more", "Variants"):
        path = tmp_path / f"{caption.split()[0].lower()}.png"
        Image.new("L", (4, 4)).save(path)
        pictures[caption] = path
    page = render_page(CARD, title="flowers <b>", pictures=pictures)
    parser = Sources()
    parser.feed(page)
    assert {"table", "th", "td", "figcaption"} <= set(parser.tags)
    assert parser.tags.count("img") == 2  # the one that the card shows is not repeated
    assert all(source.startswith("data:image/png;base64,") for source in parser.loaded)
    assert "script" not in parser.tags
    assert "<title>flowers &lt;b&gt;</title>" in page
    assert "Curves &amp; more" in page
    assert "@media print" in page
    assert "\nimg { max-width: 100%" in page  # also those inside the card
