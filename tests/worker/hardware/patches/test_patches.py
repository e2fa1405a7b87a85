"""The rules that every file of the package keeps."""

import re
from pathlib import Path

import pytest

import worker.hardware.patches as package
from worker.hardware.patches import PATCHES, name_of

HEADERS = ("Problem", "Applies to", "Effect", "Evidence", "Remove when")
NOT_PATCHES = {"__init__", "decision", "facts", "trials"}


@pytest.mark.parametrize("patch", PATCHES, ids=name_of)
def test_a_patch_has_all_parts_of_its_docstring(patch):
    assert re.findall(r"^([A-Z][a-z ]+): \S", patch.__doc__, re.M) == list(HEADERS)


def test_every_file_is_in_the_registry_once():
    files = {path.stem for path in Path(package.__file__).parent.glob("*.py")}
    names = [name_of(patch) for patch in PATCHES]
    assert len(names) == len(set(names))
    assert set(names) == files - NOT_PATCHES
