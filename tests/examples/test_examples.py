from pathlib import Path

import pytest

from redkiln.cli.specfile import load_spec_file
from redkiln.tasks import needs_dataset, parse_spec

EXAMPLES = Path(__file__).parents[2] / "examples"
SPECS = sorted(EXAMPLES.glob("*.yaml"))


def test_there_are_examples():
    assert len(SPECS) >= 3


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_every_example_spec_is_one(path):
    spec = parse_spec(load_spec_file(path).value, default_task="image-classification")
    assert (spec.dataset_reference is not None) == needs_dataset(spec.task)
