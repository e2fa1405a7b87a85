"""docs/patches.md says of each patch what its file says."""

import re
from pathlib import Path

import pytest

from worker.hardware.patches import PATCHES, name_of

PAGE = Path(__file__).parents[4] / "docs" / "patches.md"


def section(patch):
    """Return the Markdown that documents the patch."""
    title, *rest = patch.__doc__.strip().split("\n\n")
    facts = re.split(r"\n(?=[A-Z][a-z ]+: )", "\n".join(rest))
    lines = [re.sub(r"^([A-Z][a-z ]+):", r"- **\1:**", " ".join(f.split())) for f in facts]
    return "\n".join([f"### {name_of(patch)}", "", " ".join(title.split()), "", *lines])


def unwrap(markdown):
    """Put each list item and each paragraph on one line, without backslash escapes."""
    return re.sub(r"(?<!\n)\n(?![\n#-]) *", " ", re.sub(r"\\([_*<\[])", r"\1", markdown))


@pytest.mark.parametrize("patch", PATCHES, ids=name_of)
def test_the_page_says_what_the_patch_says(patch):
    missing = f"docs/patches.md lacks this; paste it and run `make format`:\n\n{section(patch)}\n"
    assert section(patch) in unwrap(PAGE.read_text()), missing


def test_the_page_lists_no_other_patch():
    listed = PAGE.read_text().partition("## The patches")[2].partition("\n## ")[0]
    assert re.findall(r"^### (\w+)$", listed, re.M) == [name_of(patch) for patch in PATCHES]
