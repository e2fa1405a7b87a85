"""The reference of every task's job spec, from the schemas that the service validates with."""

from collections.abc import Iterator

from redkiln.cli.tasks import REQUIRED, SchemaField, schema_fields
from redkiln.spec.job_spec import TrainingSpec
from redkiln.tasks import TASKS, task_schema
from tools.site.markdown import code, table

Fields = list[SchemaField]

MORE = {
    "resources.gpus": "multi-gpu.md",
    "training.batch_size": "training.md#batch-size",
    "training.precision": "training.md#precision",
    "training.compile": "training.md#compiling",
    "training.gradient_checkpointing": "training.md#when-memory-runs-out",
    "training.accumulation": "training.md#when-memory-runs-out",
    "training.memory_format": "training.md#layout-and-reading-ahead",
    "training.on_divergence": "training.md#when-training-diverges",
    "training.checkpoint_seconds": "training.md#checkpoints",
    "training.profile": "monitoring.md#a-profile",
    "training.augment.flip": "images.md#augmentation",
    "training.class_weights": "images.md#class-weights",
    "training.freeze_backbone_epochs": "models.md#training-the-head-first",
    "model.name": "models.md",
    "model.pretrained": "models.md#pretrained",
    "dataset": "datasets.md",
    "script.command": "scripts.md",
    "script.metrics_pattern": "scripts.md#metrics",
}
"""Where the guide says more about a field; each link is checked when the site is built."""

TASK_FIELD = SchemaField(
    "task", " | ".join(TASKS), "", "The task. Without it, the task that the data set is made for."
)
"""The schemas have it as a constant each."""

_INTRODUCTION = """\
# Job spec fields

Every field of a job spec: its type or allowed values, its default and what it does.
[Job spec](../job-spec.md) is the guide, and `redkiln tasks show TASK` prints the same fields of a
running service. `make reference` generates this page from the schemas with which the service
validates specs, and a test compares the two.

A field without a default may be left out unless it is marked as required.
"""


def build_page() -> str:
    """Return the page as Markdown: first the shared fields, then those of each task."""
    fields = {task: _fields(task) for task in TASKS}
    trained = [task for task, spec in TASKS.items() if issubclass(spec, TrainingSpec)]
    training = {task: fields[task] for task in trained}
    shared = _common(list(fields.values()))
    common = _without(_common(list(training.values())), shared)
    parts = [
        _INTRODUCTION,
        _section("Every task", [TASK_FIELD, *shared]),
        _section("Every task that trains a model", common),
    ]
    parts += [
        _section(task, _without(own, [*shared, *common]), extra=_includes(task in training))
        for task, own in fields.items()
    ]
    return "\n".join(parts)


def _fields(task: str) -> Fields:
    return [field for field in schema_fields(task_schema(task)) if field.path != "task"]


def _common(lists: list[Fields]) -> Fields:
    """Return the fields that every task has and that most tasks have with the same default."""
    paths = [{field.path for field in fields} for fields in lists]
    return [
        field
        for field in lists[0]
        if all(field.path in have for have in paths)
        and sum(field in fields for fields in lists) > len(lists) / 2
    ]


def _without(fields: Fields, removed: Fields) -> Fields:
    return [field for field in fields if field not in removed]


def _includes(trains: bool) -> str:
    more = " and of\n[every task that trains a model](#every-task-that-trains-a-model)"
    again = "; a field that is listed again here\ndiffers for this task" if trains else ""
    return f"Also takes the fields of [every task](#every-task){more if trains else ''}{again}.\n\n"


def _section(title: str, fields: Fields, *, extra: str = "") -> str:
    return f"## {title}\n\n{extra}{table(('field', 'type', 'default', 'what'), _rows(fields))}"


def _rows(fields: Fields) -> Iterator[tuple[str, str, str, str]]:
    for field in fields:
        default = field.default if field.default == REQUIRED else code(field.default)
        more = f" [More](../{MORE[field.path]})" if field.path in MORE else ""
        yield code(field.path), _type(field.kind), default, f"{field.description}{more}"


def _type(kind: str) -> str:
    allowed, _, variant = kind.removesuffix(")").partition(" (")
    words = ", ".join(code(option) for option in allowed.split(" | "))
    variants = ", ".join(code(name) for name in variant.split(", ")) if variant else ""
    return f"{words} with {variants}" if variants else words
