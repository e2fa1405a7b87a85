"""Writes the API's OpenAPI document to `docs/openapi.json`: `python -m tools.openapi`.

A test compares the file with the service and names what differs, so that no change of the API goes
unnoticed.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from service.app import create_app
from service.settings import Settings

FILE = Path(__file__).parents[1] / "docs" / "openapi.json"
Json = dict[str, Any]


def build_document() -> Json:
    """Return the service's document; its version is not part of the API."""
    with tempfile.TemporaryDirectory() as folder:
        document = create_app(Settings(state_dir=Path(folder))).openapi()
    return {**document, "info": {**document["info"], "version": "0"}}


def render(document: Json) -> str:
    """Return the text of the file."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def find_differences(old: Any, new: Any, place: str = "") -> list[str]:
    """Return what differs between two documents, one line for each place."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines = []
        for key in sorted(old.keys() | new.keys()):
            below = f"{place}/{key}"
            if key not in new:
                lines.append(f"- {below}")
            elif key not in old:
                lines.append(f"+ {below}")
            else:
                lines += find_differences(old[key], new[key], below)
        return lines
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [line for i, pair in pairs for line in find_differences(*pair, f"{place}/{i}")]
    return [] if old == new else [f"~ {place}: {_short(old)} -> {_short(new)}"]


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 80 else f"{text[:77]}..."


if __name__ == "__main__":
    FILE.write_text(render(build_document()))
