import pytest

from redkiln.spec.problems import SpecError
from redkiln.spec.quality import lengthen
from redkiln.tasks import parse_spec

IMAGES, TEXTS, TABLES = "image-classification", "text-classification", "tabular-classification"


def parse(task, **fields):
    return parse_spec({"task": task, "dataset": "d", **fields})


@pytest.mark.parametrize(
    ("task", "quality", "fields", "epochs"),
    [
        (IMAGES, "fast", {}, 4),
        (IMAGES, "best", {}, 30),
        (IMAGES, "fast", {"model": "cifar-fast"}, 4),
        (TEXTS, "fast", {}, 4),
        (TEXTS, "best", {}, 20),
        (TEXTS, "fast", {"model": {"pretrained": "org/name"}}, 2),
        (TEXTS, "best", {"model": {"pretrained": "org/name"}}, 5),
        (TABLES, "fast", {}, 12),
        (TABLES, "best", {"model": "linear"}, 120),
        (TABLES, "best", {"training": {"epochs": 7}}, 7),
        (TABLES, "best", {"model": "gradient-boosting"}, None),
        (IMAGES, "best", {"training": {"steps": 100}}, None),
    ],
)
def test_quality_decides_the_length_unless_the_spec_does(task, quality, fields, epochs):
    assert parse(task, quality=quality, **fields).training.epochs == epochs


@pytest.mark.parametrize("task", [IMAGES, TEXTS, TABLES])
def test_a_balanced_spec_is_the_default_one(task):
    assert parse(task, quality="balanced") == parse(task)


def test_the_quality_of_a_table_sizes_the_ensemble():
    fast, best = parse(TABLES, quality="fast"), parse(TABLES, quality="best")
    assert (fast.model.options.members, best.model.options.members) == (8, 32)
    assert fast.training.early_stopping is None
    assert best.training.early_stopping.patience == 32
    own = parse(TABLES, quality="best", model={"options": {"members": 3}})
    assert own.model.options.members == 3
    unmeasured = parse(TABLES, quality="best", training={"validation_fraction": 0})
    assert unmeasured.training.early_stopping is None


@pytest.mark.parametrize("task", [IMAGES, TEXTS, TABLES])
@pytest.mark.parametrize("quality", ["fast", "best"])
def test_a_resolved_spec_keeps_its_quality_and_its_values(task, quality):
    resolved = parse(task, quality=quality)
    assert resolved.quality == quality
    assert parse_spec(resolved.model_dump(mode="json")) == resolved


def test_an_unknown_quality_is_refused():
    with pytest.raises(SpecError, match="quality"):
        parse(IMAGES, quality="ultra")


@pytest.mark.parametrize(
    ("num_train", "epochs"), [(400, 10), (9000, 10), (399, 11), (72, 56), (40, 100), (2, 100)]
)
def test_few_samples_get_the_updates_of_400_but_at_most_ten_times_the_epochs(num_train, epochs):
    assert lengthen(10, num_train=num_train) == epochs
