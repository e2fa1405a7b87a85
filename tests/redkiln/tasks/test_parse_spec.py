import json
import re

import pytest

from redkiln.spec.problems import SpecError
from redkiln.tasks import TASKS, parse_spec, task_schema

TASK = "image-classification"


def problems(spec, **options):
    with pytest.raises(SpecError) as caught:
        parse_spec(spec, default_task=TASK, **options)
    return caught.value.problems


def flowers(**fields):
    return {"dataset": "flowers", **fields}


def test_the_shortest_spec_names_a_data_set():
    spec = parse_spec({"dataset": "flowers"}, default_task=TASK)
    assert spec.task == TASK
    assert spec.training.epochs == 10
    assert spec.training.batch_size == "auto"
    assert spec.model.name == "auto"


def test_filling_in_defaults_twice_changes_nothing():
    once = parse_spec(flowers(model="resnet18"), default_task=TASK).model_dump(mode="json")
    assert parse_spec(once).model_dump(mode="json") == once


@pytest.mark.parametrize("model", ["resnet18", {"name": "resnet18"}])
def test_a_part_can_be_written_as_its_name(model):
    assert parse_spec(flowers(model=model), default_task=TASK).model.name == "resnet18"


def test_steps_replace_epochs():
    spec = parse_spec(flowers(training={"steps": 500}), default_task=TASK)
    assert (spec.training.steps, spec.training.epochs) == (500, None)


@pytest.mark.parametrize("optimizer", ["sgd", {"name": "sgd", "momentum": 0.5}])
def test_an_optimizer_has_its_own_fields(optimizer):
    assert parse_spec(flowers(training={"optimizer": optimizer}), default_task=TASK)


@pytest.mark.parametrize(
    ("fields", "pointer", "code", "words"),
    [
        ({"epoch": 3}, "/epoch", "unknown_field", "did you mean 'training.epochs'"),
        ({"trainin": {}}, "/trainin", "unknown_field", "did you mean 'training'"),
        (
            {"training": {"epoch": 3}},
            "/training/epoch",
            "unknown_field",
            "did you mean 'epochs'",
        ),
        (
            {"training": {"augment": {"flipp": True}}},
            "/training/augment/flipp",
            "unknown_field",
            "did you mean 'flip'",
        ),
        (
            {"model": {"options": {"dropuot": 0.1}}},
            "/model/options/dropuot",
            "unknown_field",
            "did you mean 'dropout'",
        ),
        (
            {"training": {"freeze_backbone_epochs": 1}},
            "",
            "value_error",
            "name them in model.pretrained",
        ),
        ({"model": "resnet-18"}, "/model/name", "unknown_name", "did you mean 'resnet18'"),
        (
            {"training": {"optimizer": "adamww"}},
            "/training/optimizer/name",
            "unknown_name",
            "did you mean 'adamw'",
        ),
        (
            {"training": {"optimizer": {"name": "adamw", "momentum": 0.9}}},
            "/training/optimizer/momentum",
            "unknown_field",
            "unknown field 'momentum'",
        ),
        (
            {"training": {"optimizer": {"name": "sgd", "lr": 0}}},
            "/training/optimizer/lr",
            "greater_than",
            "greater than 0",
        ),
        ({"training": {"epochs": 0}}, "/training/epochs", "greater_than_equal", "1"),
        ({"training": {"epochs": "3"}}, "/training/epochs", "int_type", "must be a whole number"),
        ({"training": {"epochs": True}}, "/training/epochs", "int_type", "must be a whole number"),
        ({"training": {"epochs": 1.5}}, "/training/epochs", "int_type", "must be a whole number"),
        ({"training": 3}, "/training", "model_type", "must be a group of fields"),
        (
            {"training": {"epochs": 1, "steps": 1}},
            "/training",
            "value_error",
            "epochs and steps exclude each other",
        ),
        (
            {"training": {"early_stopping": {"metric": "val/los"}}},
            "/training",
            "value_error",
            "early_stopping.metric must be one of val/loss, val/accuracy",
        ),
        (
            {"training": {"early_stopping": {}, "validation_fraction": 0}},
            "/training",
            "value_error",
            "early_stopping needs a validation split",
        ),
        ({"training": {"ema": 1.0}}, "/training/ema", "less_than", "1"),
        ({"training": {"seed": -1}}, "/training/seed", "greater_than_equal", "0"),
        ({"export": {"opset": 99}}, "/export/opset", "less_than_equal", "23"),
        ({"resources": {"device": "tpu"}}, "/resources/device", "literal_error", "gpu"),
        (
            {"resources": {"arch": ["gfx1100", "GFX!"]}},
            "/resources/arch/1",
            "string_pattern_mismatch",
            "",
        ),
        ({"metadata": {"team": 3}}, "/metadata/team", "string_type", "must be a text"),
        (
            {"name": "a/b"},
            "/name",
            "string_pattern_mismatch",
            "1 to 100 letters and digits of any script, spaces",
        ),
        ({"name": "flowers\n"}, "/name", "string_pattern_mismatch", "starting with a letter"),
        (
            {"training": {"optimizer": {"lr": float("nan")}}},
            "/training/optimizer/lr",
            "finite_number",
            "finite number",
        ),
        ({"dataset": ""}, "/dataset", "string_too_short", ""),
        ({"dataset": None}, "/dataset", "string_type", ""),
        ({"priority": 1000}, "/priority", "less_than_equal", "100"),
    ],
)
def test_each_mistake_is_reported_with_its_place_and_a_message(fields, pointer, code, words):
    found = problems(flowers(**fields))
    assert [(item.pointer, item.code) for item in found] == [(pointer, code)]
    assert words in found[0].message


def test_all_mistakes_are_reported_at_once():
    found = problems({"epoch": 3, "training": {"epochs": 0}, "export": {"opset": 1}})
    pointers = {item.pointer for item in found}
    assert pointers == {"/dataset", "/epoch", "/training/epochs", "/export/opset"}


def test_a_union_reports_all_its_branches_in_one_problem():
    (found,) = problems(flowers(training={"batch_size": "big"}))
    assert found.pointer == "/training/batch_size"
    assert "'auto'" in found.message
    assert "whole number" in found.message


def test_a_choice_lists_the_allowed_values_once():
    (found,) = problems(flowers(model={"options": {"image_size": 100_000}}))
    assert found.message == "must be 'auto', or: must be at most 512"


def test_an_unknown_task_suggests_the_nearest_one():
    (found,) = problems(flowers(task="image-clasification"))
    assert (found.pointer, found.code) == ("/task", "unknown_task")
    assert "did you mean 'image-classification'" in found.message


@pytest.mark.parametrize("spec", [None, [], "flowers", 3])
def test_a_spec_must_be_an_object(spec):
    (found,) = problems(spec)
    assert (found.pointer, found.code) == ("", "not_an_object")


def test_a_spec_without_a_task_lists_the_known_tasks():
    with pytest.raises(SpecError, match=TASK):
        parse_spec({"dataset": "flowers"})


def test_a_key_with_a_slash_is_escaped_in_its_pointer():
    (found,) = problems(flowers(**{"a/b~c": 1}))
    assert found.pointer == "/a~1b~0c"


@pytest.mark.parametrize("task", TASKS)
def test_a_tasks_schema_has_every_default(task):
    schema = task_schema(task)
    json.dumps(schema)
    assert set(schema.get("required", ())) == set(TASKS[task].required)
    definitions = schema["$defs"].values()
    for part in (schema, *definitions):
        for name, field in part["properties"].items():
            assert "default" in field or name in part.get("required", ()), name


@pytest.mark.parametrize(
    ("resources", "words"),
    [({"gpus": 2, "device": "cpu"}, "cannot use 2 GPUs")],
)
def test_more_gpus_than_the_task_can_use_are_refused(resources, words):
    (problem,) = problems(flowers(resources=resources))
    assert (problem.pointer, problem.code) == ("/resources/gpus", "too_many_gpus")
    assert re.search(words, problem.message)


def test_more_gpus_than_any_job_can_have_are_refused():
    (problem,) = problems(flowers(resources={"gpus": 65}))
    assert problem.pointer == "/resources/gpus"


def test_a_batch_must_have_a_sample_for_each_gpu():
    resources = {"gpus": 4}
    (problem,) = problems(flowers(resources=resources, training={"batch_size": 3}))
    assert (problem.pointer, problem.code) == ("/training/batch_size", "too_small_batch")
    for batch_size in (4, "auto"):
        training = {"batch_size": batch_size}
        parse_spec(flowers(resources=resources, training=training, task="image-classification"))


@pytest.mark.parametrize(
    "task", ["image-classification", "text-classification", "tabular-classification"]
)
def test_initial_weights_need_pretrained(task):
    model = {"initial_weights": "sha256 12ab"}
    (problem,) = problems(flowers(task=task, model=model))
    assert problem.pointer == "/model/initial_weights"
    assert "set it, or remove initial_weights" in problem.message
    started = parse_spec(flowers(task=task, model={"pretrained": "job:job_1", **model}))
    assert started.model.initial_weights == "sha256 12ab"
