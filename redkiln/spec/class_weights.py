"""Class weights: how much each class counts in a classifier's loss.

All classification tasks share the field and its rules. A spec's `training` inherits
`ClassifierTraining`, code that knows the data set's classes calls `find_weight_problems`, and the
trainer calls `compute_class_weights`.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from redkiln.nearest import suggest
from redkiln.spec.job_spec import Training

POINTER = "/training/class_weights"
Weight = Annotated[float, Field(ge=0, le=1e6)]
ClassWeights = Literal["balanced"] | dict[str, Weight] | list[Weight]


class ClassifierTraining(Training):
    """Training of a classifier of any kind of data."""

    label_smoothing: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of each label that is spread evenly over all classes.",
    )
    class_weights: ClassWeights | None = Field(
        None,
        description="Weight of each class in the loss. `balanced` makes every class count the same "
        "regardless of its number of samples. Otherwise give weights by class name (1 for classes "
        "not listed) or a list in the order of the classes. Only their ratios matter: weights are "
        "scaled to a mean of 1 over the training samples. With several labels a sample, a weight "
        "multiplies the loss of the samples that have the label, and `balanced` is the number of "
        "samples without it divided by the number with it.",
    )


def find_weight_problems(
    weights: ClassWeights | None, classes: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the JSON pointer and message of each mistake in a spec's class weights.

    Args:
        weights: Class weights of the spec.
        classes: Names of the data set's classes, by label.
    """
    if weights is None or weights == "balanced":
        return []
    if isinstance(weights, list):
        if len(weights) == len(classes):
            return _find_nothing_left(weights)
        message = (
            f"there are {len(weights)} weights but {len(classes)} classes ({_few(classes)}); give "
            "one weight a class"
        )
        return [(POINTER, message)]
    assert isinstance(weights, dict)
    unknown = [name for name in weights if name not in classes]
    if unknown:
        return [
            (f"{POINTER}/{_escape(name)}", f"there is no class {name!r}{suggest(name, classes)}")
            for name in unknown
        ]
    return _find_nothing_left([weights.get(name, 1.0) for name in classes])


def compute_class_weights(
    weights: ClassWeights | None, *, classes: Sequence[str], counts: Sequence[int]
) -> list[float] | None:
    """Return the weight of each class, by label, with a mean of 1 over the training samples.

    Args:
        weights: Class weights of the spec, without problems (`find_weight_problems`).
        classes: Class names by label.
        counts: Training samples of each class.

    Returns:
        The weights, or None if every sample counts the same.
    """
    if weights is None:
        return None
    if isinstance(weights, dict):
        raw = [weights.get(name, 1.0) for name in classes]
    elif isinstance(weights, list):
        raw = list(weights)
    else:
        # A class without training samples is in no batch, so its weight does not matter.
        raw = [1 / count if count else 0.0 for count in counts]
    total = sum(weight * count for weight, count in zip(raw, counts, strict=True))
    scale = sum(counts) / total if total > 0 else 1.0
    return [weight * scale for weight in raw]


def compute_label_weights(
    weights: ClassWeights | None, *, classes: Sequence[str], counts: Sequence[int], num: int
) -> list[float] | None:
    """Return how much more a sample with each label counts than one without it, by label.

    Args:
        weights: Class weights of the spec, without problems (`find_weight_problems`).
        classes: Class names by label.
        counts: Training samples with each label.
        num: Training samples.

    Returns:
        The weights, or None if all are 1.
    """
    if weights is None:
        return None
    if isinstance(weights, dict):
        return [weights.get(name, 1.0) for name in classes]
    if isinstance(weights, list):
        return list(weights)
    return [(num - count) / count if 0 < count < num else 1.0 for count in counts]


def _find_nothing_left(weights: Sequence[float]) -> list[tuple[str, str]]:
    if any(weight > 0 for weight in weights):
        return []
    return [(POINTER, "every class has weight 0; give at least one class a positive weight")]


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown}, ..." if len(names) > 5 else shown


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
