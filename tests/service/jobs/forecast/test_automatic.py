import pytest

from redkiln.tasks import parse_spec
from service.datasets.models import Dataset
from service.jobs.forecast.automatic import foresee_model


def foresee(
    *, size="96x96", mode="RGB", num=100, task="image-classification", sizes=None, **fields
):
    report = {
        "counts": {"train": {"no": num, "yes": num}},
        "image_sizes": sizes or {size: 2 * num, "7x7": 1},
        "image_modes": {mode: 2 * num},
    }
    dataset = Dataset(id="ds_1", name="d", status="ready", kind="archive", task=task, report=report)
    found = foresee_model(parse_spec({"task": task, "dataset": "d", **fields}), dataset)
    return None if found is None else found.name


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "small-cnn"),
        ({"size": "28x28", "mode": "L"}, "mnist-cnn"),
        ({"size": "28x28", "mode": "L", "quality": "best"}, "resnet18"),
        ({"quality": "fast", "num": 5000}, "small-cnn"),
        ({"num": 5000}, None),
        ({"sizes": {"96x80": 1, "97x80": 1, "other": 198}}, "small-cnn"),
        ({"sizes": {"other": 200}}, None),
        ({"model": "resnet18"}, None),
        ({"task": "text-classification"}, None),
    ],
)
def test_the_data_and_the_quality_decide_what_they_can(fields, name):
    assert foresee(**fields) == name


def test_without_a_counted_data_set_nothing_is_foreseen():
    spec = parse_spec({"task": "image-classification", "dataset": "d"})
    waiting = Dataset(id="ds_1", name="d", status="validating", kind="archive", report={})
    assert foresee_model(spec, waiting) is foresee_model(spec, None) is None
