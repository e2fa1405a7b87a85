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
        ("training.optimizer", "adamw | sgd | muon", "adamw"),
        ("training.augment.flip", "boolean", "false"),
        ("training.schedule.name", "constant | cosine | linear | one-cycle", "cosine"),
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


def test_the_fields_of_each_optimizer_are_listed_separately():
    assert {field.kind.rpartition(" ")[2] for field in FIELDS["training.optimizer.lr"]} == {
        "(adamw)",
        "(muon)",
        "(sgd)",
    }


def test_a_list_of_names_shows_the_allowed_ones():
    fields = {field.path: field for field in schema_fields(task_schema("benchmark"))}
    assert fields["measure.precisions"].kind == "list of fp32, fp16, bf16"
