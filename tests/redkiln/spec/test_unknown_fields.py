import pytest

from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec


def message(**fields):
    with pytest.raises(SpecError) as refused:
        parse_spec({"dataset": "houses", **fields}, default_task="tabular-classification")
    (problem,) = refused.value.problems
    return problem.message


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"training": {"lr": 0.1}}, "training.optimizer.lr"),
        ({"epochs": 3}, "training.epochs"),
        ({"epoch": 3}, "training.epochs"),
        ({"training": {"epoch": 3}}, "epochs"),
        ({"gpus": 2}, "resources.gpus"),
        ({"model": {"hidden": [8]}}, "model.options.hidden"),
        ({"resources": {"max_duration": 5}}, "max_duration_seconds"),
        ({"batch": 32}, "training.batch_size"),
    ],
)
def test_a_field_in_the_wrong_place_is_answered_with_the_right_one(fields, place):
    assert f"did you mean {place!r}?" in message(**fields)


def test_a_field_of_another_variant_lists_those_of_this_one():
    found = message(training={"optimizer": {"name": "adamw", "momentum": 0.9}})
    assert found == "unknown field 'momentum'; known: name, lr, betas, weight_decay"


@pytest.mark.parametrize(
    ("field", "parameter"),
    [
        ("target", "target=NAME"),
        ("columns", "column=NAME=TYPE"),
        ("labels_separator", "labels_separator=CHAR"),
        ("skip_bad", "skip_bad=N"),
    ],
)
def test_an_option_of_the_data_is_sent_to_the_push(field, parameter):
    found = message(**{field: "price"})
    assert f"give it when pushing: POST /v1/datasets?{parameter}" in found


@pytest.mark.parametrize(
    "task", ["object-detection", "instance-segmentation", "semantic-segmentation"]
)
def test_files_of_boxes_and_masks_have_no_other_interface(task):
    found = message(task=task, model={"interface": "embedded"})
    assert "take images of the model's size; remove it" in found


def test_folds_of_images_are_refused_with_the_reason():
    found = message(task="image-classification", training={"folds": 5})
    assert found == "unknown field 'folds'; only tables can be cross-validated; remove it"


def test_a_field_of_other_tasks_names_them():
    hidden = message(task="image-classification", model={"options": {"hidden": 8}})
    tables = "tabular-classification and tabular-regression"
    assert hidden == f"unknown field 'hidden'; only jobs of {tables} have it; remove it"
    near = message(task="image-classification", training={"class_weight": "balanced"})
    assert near == "unknown field 'class_weight'; did you mean 'class_weights'?"


def test_a_number_with_a_comma_is_to_be_written_with_a_point():
    found = message(training={"optimizer": {"lr": "0,05"}})
    assert found == "must be a number; write it with a point: 0.05"


def test_a_value_in_place_of_a_group_lists_the_groups_fields():
    found = message(training={"early_stopping": "five"})
    assert found == "must be a group of fields: metric, min_delta, patience"
