import re

import pytest

from redkiln.cli.arguments.specfile import parse_spec_text
from redkiln.cli.init import list_models
from redkiln.cli.view.first_spec import write_first_spec
from redkiln.tasks import parse_spec
from redkiln.views.dataset import DatasetView

COLUMNS = [
    {"name": "rooms", "type": "numeric", "num_missing": 3},
    {"name": "zip", "type": "ignored", "note": "every value is different"},
    {"name": "price", "type": "target"},
]
TASKS = {
    "image-classification": {"classes": ["a", "b"], "counts": {"train": {"a": 90, "b": 10}}},
    "text-classification": {"classes": ["a", "b"], "counts": {"train": {"a": 9, "b": 10}}},
    "tabular-classification": {
        "classes": ["a", "b"],
        "counts": {"train": {"a": 9, "b": 10}, "test": {"a": 1, "b": 1}},
        "columns": COLUMNS,
        "target": "price",
    },
    "object-detection": {
        "classes": ["a", "b"],
        "counts": {"train": {"images": 9}, "test": {"images": 1}},
        "objects": {
            "annotation_format": "coco",
            "boxes": {"train": {"a": 30}, "test": {"b": 2}},
            "sizes": {"a": {"small": 30}, "b": {"large": 2}},
        },
    },
    "tabular-regression": {
        "counts": {"train": {"rows": 20}},
        "columns": COLUMNS,
        "target": "price",
    },
}


def dataset(task, **facts):
    return DatasetView(
        id="ds_1", name="my: data", status="ready", kind="archive", task=task, **facts
    )


def written(task, **facts):
    view = dataset(task, **{**TASKS[task], **facts})
    defaults = parse_spec({"dataset": "x"}, default_task=task).model_dump(mode="json")
    return write_first_spec(view, defaults, models=list_models(defaults), path="data.yaml")


def parsed(text, task):
    return parse_spec(parse_spec_text(text, name="data.yaml").value, default_task=task)


@pytest.mark.parametrize("task", TASKS)
def test_the_spec_can_be_submitted_and_so_can_all_that_it_suggests(task):
    text = written(task)
    assert parsed(text, task).dataset == "my: data"
    suggested = re.sub(r"^(\s*)# (?=(  )?[a-z_]+:)", r"\1", text.partition("name:")[2], flags=re.M)
    assert suggested.count("# ") < text.count("# ")
    tried = parsed("name:" + suggested, task)
    assert tried.export.require_verified
    assert tried.resources.max_duration_seconds == 7200
    assert tried.training.early_stopping.patience == 5


@pytest.mark.parametrize("task", TASKS)
def test_the_spec_trains_as_an_empty_one_until_a_line_is_changed(task):
    empty = parse_spec({"dataset": "my: data", "name": "data"}, default_task=task)
    assert parsed(written(task), task) == empty


@pytest.mark.parametrize("task", ["tabular-classification", "tabular-regression"])
def test_every_suggested_model_can_be_put_into_the_spec(task):
    text = written(task)
    (others,) = re.findall(r"model: tabm +# or (.*)", text)
    assert "gradient-boosting" in others
    for name in others.split(", "):
        assert parsed(text.replace("model: tabm", f"model: {name}"), task).model.name == name


@pytest.mark.parametrize("task", TASKS)
def test_the_suggested_quality_takes_effect(task):
    best = parsed(written(task).replace("# quality", "quality"), task).training
    assert best.epochs > parsed(written(task), task).training.epochs


def test_columns_are_listed_with_how_they_are_read():
    text = written("tabular-regression")
    assert "#   rooms: numeric, 3 missing" in text
    assert "#   zip: ignored; every value is different" in text
    assert "Target: 'price'" in text
    assert "class_weights" not in text


def test_other_models_are_named():
    assert re.search(r"model: \w+ +# or .*linear", written("tabular-classification"))


def test_rare_classes_are_named_with_what_to_try():
    assert "b has 10 samples, a 90: try this" in written("image-classification")
    words = "b has 10 samples, a 90: try the report's threshold before this"
    rare = {"train": {"a": 90, "b": 10}, "test": {"a": 1, "b": 1}}
    assert words in written("tabular-classification", counts=rare)


def test_a_class_with_a_few_samples_is_named_instead_of_weights():
    for num, has in ((1, "only 1 sample"), (4, "only 4 samples"), (0, "no sample")):
        text = written("text-classification", counts={"train": {"a": 85, "b": num}})
        assert f"Class b has {has} to train on: correct its name, or add samples\n" in text
        assert "class_weights" not in text
    assert "b has 5 samples, a 85" in written(
        "text-classification", counts={"train": {"a": 85, "b": 5}}
    )


def test_every_split_says_what_it_is_for():
    counts = {"train": {"rows": 20}, "validation": {"rows": 3}, "test": {"rows": 4}}
    text = written("tabular-regression", counts=counts)
    assert "20 rows to train on, 3 rows to validate on, 4 rows to test on" in text.replace(
        "\n#  ", ""
    )


def test_a_set_with_boxes_counts_them_and_has_no_class_weights():
    text = written("object-detection")
    assert "# Boxes: 32, read as coco" in text
    assert "9 images to train on" in text
    assert "class_weights" not in text


def test_the_file_repeats_the_warnings_of_the_data_set():
    warning = {"code": "leaking_columns", "message": "column tons predicts the target"}
    text = written("tabular-regression", warnings=[warning])
    assert "# Warning: column tons predicts the target\n" in text


@pytest.mark.parametrize("task", TASKS)
def test_no_line_is_wider_than_a_terminal(task):
    warning = {"code": "copies", "message": "rows are equal " * 20}
    text = written(task, warnings=[warning])
    assert max(map(len, text.splitlines())) <= 80
    assert " ".join(text.replace("\n#  ", "").split()).count("rows are equal") == 20
