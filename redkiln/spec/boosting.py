"""Gradient boosting: the fields of a spec that apply to it, and those that do not.

It grows trees on the CPU, one iteration after the other, so settings of a network, its optimiser
and its batches mean nothing. A spec that sets one of them is refused, because ignoring it would
hide a mistake. Stored specs contain every default, so only other values count as set.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from redkiln.spec.exports import Export
from redkiln.spec.problems import SpecProblem

BOOSTING = "gradient-boosting"
ITERATIONS = 500
"""Most iterations by default; early stopping usually ends training before."""
RECOMMENDED: dict[str, Any] = {"early_stopping": {"patience": 20}}
TREE_OPTIONS = ("learning_rate", "leaves", "min_samples_leaf", "l2")
"""Fields of `model.options` that only gradient boosting reads; it reads no others."""
_TRAINING = {
    "epochs": "counts iterations, not epochs; set training.steps",
    "batch_size": "reads all rows in every iteration; remove this field",
    "accumulation": "reads all rows in every iteration; remove this field",
    "optimizer": "has no optimiser; set model.options.learning_rate instead",
    "schedule": "has a constant learning rate, model.options.learning_rate; remove this field",
    "clip_norm": "has no weights whose gradients can be clipped; remove this field",
    "ema": "has no weights to average; remove this field",
    "on_divergence": "cannot diverge; remove this field",
    "profile": "has no torch steps to profile; remove this field",
    "label_smoothing": "trains on the labels as they are; remove this field",
}
"""Fields of `training` that have no meaning, and why, as predicates of the model."""
_ALLOWED: dict[str, tuple[object, ...]] = {
    "precision": ("auto", "fp32"),
    "compile": ("auto", "off"),
    "gradient_checkpointing": ("auto", "off"),
    "loss": ("mse", "mae"),
}
"""Values of other fields that describe what it does anyway."""
_UNREAD = frozenset({*_TRAINING, *_ALLOWED} - {"loss"})
"""Fields of `training` that change nothing; a stored spec has them all with their defaults."""


def leave_unread(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored spec without the fields that its model does not read."""
    training = spec.get("training")
    if not isinstance(training, Mapping) or spec.get("model", {}).get("name") != BOOSTING:
        return dict(spec)
    read = {name: value for name, value in training.items() if name not in _UNREAD}
    return {**spec, "training": read}


def find_boosting_problems(
    *, model: BaseModel, training: BaseModel, resources: BaseModel
) -> Iterator[SpecProblem]:
    """Yield the fields of a parsed spec that gradient boosting cannot follow.

    Args:
        model: The spec's model, named `gradient-boosting`.
        training: The spec's training.
        resources: The spec's resources.
    """
    chosen = _list_chosen(training)
    for name, value in chosen.items():
        if name in _ALLOWED:
            if value not in _ALLOWED[name]:
                known = " or ".join(map(str, _ALLOWED[name]))
                yield _refuse(f"/training/{name}", f"accepts only {known} for {name}")
        elif name in _TRAINING:
            yield _refuse(f"/training/{name}", _TRAINING[name])
    options = _list_chosen(model).get("options")
    for name in _list_chosen(options) if isinstance(options, BaseModel) else ():
        if name not in TREE_OPTIONS:
            known = ", ".join(TREE_OPTIONS)
            yield _refuse(
                f"/model/options/{name}", f"has no option {name}; its options are {known}"
            )
    if getattr(model, "pretrained", None) is not None:
        yield _refuse(
            "/model/pretrained", "cannot start from another job's model; remove this field"
        )
    if getattr(resources, "device", "cpu") == "gpu":
        yield _refuse("/resources/device", "trains on the CPU; set cpu, or remove this field")
    if getattr(resources, "gpus", 1) > 1:
        yield _refuse("/resources/gpus", "trains on the CPU; remove this field")


def find_tree_options(model: BaseModel) -> Iterator[SpecProblem]:
    """Yield the options of trees that a spec sets for a network."""
    options = getattr(model, "options", None)
    chosen: Mapping[str, Any] = _list_chosen(options) if isinstance(options, BaseModel) else {}
    for name in TREE_OPTIONS:
        if name in chosen:
            message = f"{name} is for `model: {BOOSTING}`; remove it, or choose that model"
            if name == "learning_rate":
                message += "; the rate of a network is training.optimizer.lr"
            yield SpecProblem(f"/model/options/{name}", "not_for_model", message)


def _refuse(pointer: str, why: str) -> SpecProblem:
    return SpecProblem(pointer, "not_for_model", f"{BOOSTING} {why}")


def _list_chosen(part: BaseModel) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    fields = type(part).model_fields
    return {
        name: getattr(part, name)
        for name, field in fields.items()
        if getattr(part, name) != field.get_default(call_default_factory=True)
    }


def find_variant_problems(export: Export) -> Iterator[SpecProblem]:
    """Yield the files in lower precision that trees cannot have."""
    for place, variant in enumerate(export.variants):
        if variant.name != "fp32":
            message = f"trees have no weights to store as {variant.name}; remove this variant"
            yield SpecProblem(f"/export/variants/{place}", "not_for_trees", message)
