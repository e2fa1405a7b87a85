"""Writes a commented spec for a data set: what is set, and what is worth trying next."""

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

import yaml

from redkiln.advice.wording import as_options
from redkiln.cli.view import words
from redkiln.spec.written import make_name
from redkiln.views.dataset import DatasetView

SHOWN_COLUMNS = 12
RARE = 5.0
"""From this ratio of the largest to the smallest class on, the spec suggests class weights."""
FEW_SAMPLES = 5
"""Samples of a class below which weights do not help: its name may be misspelt."""
_COMMENT_AT = 36
"""Column at which the comment of a line starts, unless the setting is longer."""
_WIDTH = 80
"""Characters of a line, above which a comment is broken or precedes its setting."""


def write_first_spec(
    dataset: DatasetView, defaults: dict[str, Any], *, models: list[str], path: str
) -> str:
    """Return the text of a commented spec that trains on a data set with defaults.

    Args:
        dataset: A data set that is ready.
        defaults: The spec with its defaults, as a dry run returns it.
        models: Names of the task's own models, if it has a fixed list.
        path: Name of the file that the text is written to.
    """
    head = map(_wrap, _head(dataset, task=defaults["task"], path=path))
    return "\n".join([*head, *_settings(dataset, defaults, models), ""])


def _wrap(line: str) -> str:
    """Break a long comment between words."""
    return "\n".join(
        wrap(line, _WIDTH, subsequent_indent="#   ", break_long_words=False, break_on_hyphens=False)
    )


def _head(dataset: DatasetView, *, task: str, path: str) -> Iterator[str]:
    yield f"# Queue it: redkiln submit {path} --watch"
    yield f"# Check it: redkiln submit {path} --dry-run"
    yield f"# All fields: redkiln tasks show {task}"
    yield "#"
    yield f"# Data set {dataset.name}: {_count_words(dataset)}."
    if dataset.target is not None:
        yield f"# Target: {dataset.target!r}; to change it, push the file again with --target."
    if dataset.columns:
        yield from _column_lines(dataset)
    if dataset.objects is not None:
        num = sum(sum(of_split.values()) for of_split in dataset.objects.boxes.values())
        form = dataset.objects.annotation_format
        yield f"# Boxes: {words.count(num)}, read as {form}; redkiln datasets samples shows them."
    if dataset.masks is not None:
        form = dataset.masks.mask_format
        yield f"# Masks: read as {form}; redkiln datasets samples shows them."
    for note in dataset.notes:
        yield f"# Note: {as_options(note)}"
    for warning in dataset.warnings:
        yield f"# Warning: {as_options(warning.message, dataset=dataset.name)}"
    yield ""


def _count_words(dataset: DatasetView) -> str:
    noun = "row" if dataset.columns else "image"
    splits = [f"{words.plural(sum(counts.values()), noun)} to {_USES.get(split, split)}"
              for split, counts in dataset.counts.items()]  # fmt: skip
    if dataset.classes:
        splits.append(words.plural(len(dataset.classes), "class"))
    return ", ".join(splits)


_USES = {"train": "train on", "test": "test on", "validation": "validate on"}


def _column_lines(dataset: DatasetView) -> Iterator[str]:
    yield "# Columns; to read one differently, push the file again with --column NAME=TYPE:"
    features = [column for column in dataset.columns if column.type != "target"]
    for column in features[:SHOWN_COLUMNS]:
        missing = f", {words.count(column.num_missing)} missing" if column.num_missing else ""
        note = f"; {column.note}" if column.note else ""
        yield f"#   {column.name}: {column.type}{missing}{note}"
    if len(features) > SHOWN_COLUMNS:
        yield f"#   and {len(features) - SHOWN_COLUMNS} more: redkiln datasets show {dataset.name}"


def _settings(dataset: DatasetView, defaults: dict[str, Any], models: list[str]) -> Iterator[str]:
    training = defaults["training"]
    model = defaults["model"]["name"]
    others = ", ".join(name for name in models if name not in (model, "auto"))
    yield f"name: {_scalar(_job_name(dataset))}"
    yield f"dataset: {_scalar(dataset.name)}"
    yield _line(
        f"model: {_scalar(model)}", f"or {others}" if others else "see the fields of the task"
    )
    if "quality" in defaults:
        yield _line("# quality: best", "or fast: time to spend on a better model")
    yield "training:"
    yield _line(f"  seed: {training['seed']}", "repeats a run on the same machine")
    yield from _length_lines(training)
    if "folds" in training:
        yield _line("  # folds: 5", "cross-validate with this many more models")
    if "class_weights" in training:
        yield from _weight_lines(dataset)
    if "flip" in (training.get("augment") or {}):
        yield _augment_line(is_flipped=training["augment"]["flip"])
    yield _line(f"  # optimizer: {{lr: {training['optimizer']['lr']:g}}}", "highest learning rate")
    yield _line("# resources:", "where to train, and for how long")
    yield _line("#   device: gpu", "fail rather than train on a CPU")
    yield _line("#   max_duration_seconds: 2h", "stop a job that takes longer")
    yield _line("# export:", "")
    yield _line("#   require_verified: true", "fail if the ONNX file is not verified")


def _augment_line(*, is_flipped: bool) -> str:
    """Return the random changes of images, as a comment; the other ones stay as they are."""
    if is_flipped:
        return _line("  # augment: {flip: false}", "if mirrored images mean something else")
    return _line(
        "  # augment: {flip: true, rotate_degrees: 180, scale: 0.2}",
        "if objects appear mirrored, in any direction and size; not for text",
    )


def _length_lines(training: dict[str, Any]) -> Iterator[str]:
    """Yield what a training's length is, as comments: set, it would replace what `quality` sets."""
    stopping = training["early_stopping"]
    passes = "passes over the data"
    if stopping is not None:
        passes += "; needs the next line"
    yield _line(f"  # epochs: {training['epochs']}", passes)
    default = f" (default {stopping['patience']})" if stopping is not None else ""
    yield _line("  # early_stopping: 5", f"epochs without a better loss{default}")


def _weight_lines(dataset: DatasetView) -> Iterator[str]:
    """Yield what to do about classes of different sizes; weights cannot help a tiny class."""
    of_pixels = dataset.masks and dataset.masks.pixels
    counts = (of_pixels or dataset.label_counts or dataset.counts).get("train", {})
    if len(dataset.classes) < 2 or not counts:
        return
    rare, common = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
    if counts[common] < RARE * max(1, counts[rare]):
        yield _line("  # class_weights: balanced", "makes every class count the same")
        return
    if not of_pixels and counts[rare] < FEW_SAMPLES:
        has = f"only {words.plural(counts[rare], 'sample')}" if counts[rare] else "no sample"
        yield f"  # Class {rare} has {has} to train on: correct its name, or add samples"
        return
    advice = "try this"
    if len(counts) == 2 and dataset.task == "tabular-classification":
        advice = "try the report's threshold before this"
    num_rare = words.plural(counts[rare], "pixel" if of_pixels else "sample")
    comment = f"{rare} has {num_rare}, {common} {words.count(counts[common])}: {advice}"
    yield _line("  # class_weights: balanced", comment)


def _job_name(dataset: DatasetView) -> str:
    stem = dataset.name.rpartition(":")[2]
    return make_name(stem)[:80].rstrip("-._") or "job"


def _line(setting: str, comment: str) -> str:
    line = f"{setting:<{_COMMENT_AT - 1}} # {comment}" if comment else setting
    if len(line) <= _WIDTH:
        return line
    indent = " " * (len(setting) - len(setting.lstrip(" ")))
    return f"{indent}# {comment}:\n{setting}"


def _scalar(value: str) -> str:
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip()
