import pytest

from redkiln.cli.tasks import schema_fields
from redkiln.tasks import task_schema

FIELDS = {}
for _field in schema_fields(task_schema("image-classification")):
    FIELDS.setdefault(_field.path, []).append(_field)


@pytest.mark.parametrize(
    ("path", "kind", "default"),
    [
        ("dataset", "string", "required"),
        ("name", "string", ""),
        ("training.epochs", "integer 1..100000", ""),
        ("training.batch_size", "auto | integer 1..65536", "auto"),
        ("training.augment.flip", "boolean", "false"),
        ("training.schedule.every", "auto | integer 1..100000 (step)", "auto"),
        ("training.schedule.warmup_fraction", "auto | number 0..0.9", "auto"),
        ("model.name", "string", "auto"),
        ("export.tolerance", "number > 0, <= 1", "0.001"),
        ("resources.max_duration_seconds", "number > 0", ""),
        ("resources.arch", "list of strings", "[]"),
        ("priority", "integer -100..100", "0"),
        ("training.early_stopping", "object", ""),
    ],
)
def test_each_field_lists_its_allowed_values(path, kind, default):
    (field,) = FIELDS[path]
    assert (field.kind, field.default) == (kind, default)


@pytest.mark.parametrize(
    ("path", "default", "some"),
    [("training.optimizer", "adamw", "sgd"), ("training.schedule", "cosine", "plateau")],
)
def test_a_part_with_alternatives_lists_their_names(path, default, some):
    (field,) = FIELDS[path]
    assert field.default == default
    assert {default, some} < set(field.kind.split(" | "))


def test_fields_of_alternatives_are_listed_once_for_each_default():
    rates = {field.default: field.kind for field in FIELDS["training.optimizer.lr"]}
    assert len(rates) == len(FIELDS["training.optimizer.lr"])
    assert rates["0.002"] == "number > 0, <= 100 (adamw, muon)"
    assert rates["1.0"] == "number > 0, <= 100 (adadelta)"


def test_a_list_of_names_shows_the_allowed_ones():
    fields = {field.path: field for field in schema_fields(task_schema("benchmark"))}
    assert fields["measure.precisions"].kind == "list of fp32, fp16, bf16"
