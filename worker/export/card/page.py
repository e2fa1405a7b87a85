"""`report.html`: the model card with its pictures in one file, for reading and printing."""

import base64
import html
from collections.abc import Mapping
from pathlib import Path

from markdown_it import MarkdownIt

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c1c1c; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: break-word }
h1, h2, h3 { line-height: 1.25; break-after: avoid }
h2 { border-bottom: 1px solid #ccc; padding-bottom: .2rem; margin-top: 2rem }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { border: 1px solid #ccc; padding: .25rem .6rem; text-align: left; vertical-align: top }
th { background: #f3f3f3 }
tr, figure, pre, img { break-inside: avoid }
img { max-width: 100%; height: auto }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; background: #f3f3f3 }
pre { padding: .8rem; white-space: pre-wrap }
figure { margin: 1.5rem 0 }
figcaption { color: #555 }
@media print { body { max-width: none; margin: 0; padding: 0; font-size: 10pt }
  table { display: table } img { max-height: 22cm } @page { margin: 18mm } }
"""


def render_page(card: str, *, title: str, pictures: Mapping[str, Path]) -> str:
    """Render the card as a page that needs no other file.

    Args:
        card: The card, Markdown. Links to the pictures become the pictures themselves.
        title: Title of the page.
        pictures: Pictures (PNG) by their captions; they follow the card.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    body = parser.render(card)
    for path in pictures.values():
        body = body.replace(f'src="{path.name}"', f'src="{_embed(path)}"')
    figures = "\n".join(
        f'<figure><img src="{_embed(path)}" alt="{html.escape(caption)}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, path in pictures.items()
        if f"]({path.name})" not in card
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n<h2>Pictures</h2>\n{figures}\n</body>\n</html>\n"
    )


def _embed(path: Path) -> str:
    content = base64.b64encode(path.read_bytes()).decode()
    return f"data:image/png;base64,{content}"
