from pathlib import Path

import pytest

from redkiln.cli.arguments.specfile import load_spec_file
from redkiln.datasets import BUILTINS
from redkiln.tasks import needs_dataset, parse_spec

EXAMPLES = Path(__file__).parents[2] / "examples"
SPECS = sorted(EXAMPLES.rglob("*.yaml"))


def test_there_are_examples():
    assert len(SPECS) >= 3


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_every_example_is_a_valid_spec(path):
    value = load_spec_file(path).value
    if "class" in (model := value.get("model", {})):
        model["bundle"] = "0" * 64  # `redkiln submit` sends the folder
    spec = parse_spec(value, default_task=task_of(value.get("dataset", "")))
    assert (spec.dataset_reference is not None) == needs_dataset(spec.task)


def task_of(dataset):
    """What the service reads a spec without a task as: that of its data set."""
    builtin = BUILTINS.get(dataset.removeprefix("builtin:"))
    return builtin.task if builtin else "image-classification"
