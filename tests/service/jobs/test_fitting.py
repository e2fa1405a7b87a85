"""Whether a data set fits a spec."""

import pytest

from redkiln.tasks import parse_spec
from service.datasets.models import Dataset
from service.jobs.fitting import count_train, find_misfits


def dataset(*, task="tabular-classification", counts=None, status="ready", **report):
    return Dataset(
        id="ds_1",
        name="loans",
        status=status,
        kind="archive",
        task=task,
        report={
            "classes": ["no", "yes"],
            "counts": counts or {"train": {"no": 60, "yes": 40}, "test": {"no": 6, "yes": 4}},
            **report,
        },
    )


def look(spec, found):
    misfits = find_misfits(parse_spec({"dataset": "loans", **spec}), found)
    return [(misfit.pointer, misfit.code) for misfit in misfits]


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ({}, []),
        ({"batch_size": 90}, []),
        ({"batch_size": 91}, [("/training/batch_size", "batch_too_large")]),
        ({"batch_size": 100, "validation_fraction": 0.0}, []),
        (
            {"batch_size": 8, "accumulation": 9},
            [("/training/accumulation", "too_many_micro_steps")],
        ),
        ({"class_weights": {"yes": 2.0}}, []),
        (
            {"class_weights": {"Yes": 2.0}},
            [("/training/class_weights/Yes", "invalid_class_weights")],
        ),
        ({"class_weights": [1.0]}, [("/training/class_weights", "invalid_class_weights")]),
    ],
)
def test_a_spec_must_fit_its_data_set(training, expected):
    spec = {"task": "tabular-classification", "training": training}
    assert look(spec, dataset()) == expected


def test_a_data_set_for_another_task_is_refused_with_what_would_fit():
    spec = parse_spec({"dataset": "loans", "task": "image-classification"})
    (misfit,) = find_misfits(spec, dataset())
    assert (misfit.pointer, misfit.code) == ("/task", "task_mismatch")
    assert "builtin:digits" in misfit.message
    spec = parse_spec({"dataset": "loans", "task": "tabular-regression"})
    (misfit,) = find_misfits(spec, dataset())
    assert "register it again with task=tabular-regression" in misfit.message


def test_early_stopping_needs_a_sample_to_validate_on():
    lone = dataset(counts={"train": {"no": 1, "yes": 1}})
    spec = {"task": "tabular-classification", "training": {"early_stopping": {}}}
    assert look(spec, lone) == [("/training/early_stopping", "no_validation_split")]


@pytest.mark.parametrize(("minimum", "is_refused"), [(0.5, False), (0.0, True), (-3.0, True)])
def test_the_logarithm_needs_a_target_above_zero(minimum, is_refused):
    column = {"name": "price", "type": "target", "minimum": minimum, "minimum_at": "line 7"}
    prices = dataset(task="tabular-regression", columns=[column])
    spec = {"task": "tabular-regression", "training": {"target_transform": "log"}}
    misfits = find_misfits(parse_spec({"dataset": "loans", **spec}), prices)
    assert [misfit.code for misfit in misfits] == ["no_logarithm"] * is_refused
    assert all(f"price has {minimum:g} (line 7)" in misfit.message for misfit in misfits)
    spec["training"]["target_transform"] = "none"
    assert look(spec, prices) == []


def test_a_data_set_that_is_not_validated_yet_is_not_checked():
    assert look({"task": "image-classification"}, dataset(task=None, status="validating")) == []


def test_training_samples_are_counted_without_the_validation_split():
    assert count_train(dataset(), validation_fraction=0.1) == 54 + 36
    rows = dataset(task="tabular-regression", counts={"train": {"rows": 398}})
    assert count_train(rows, validation_fraction=0.1) == 358


def test_an_own_validation_split_leaves_all_training_samples():
    own = dataset(counts={"train": {"no": 60, "yes": 1}, "validation": {"no": 9}})
    assert count_train(own, validation_fraction=0.5) == 61
    training = {"batch_size": 61, "early_stopping": {"patience": 2}}
    assert look({"task": "tabular-classification", "training": training}, own) == []
