"""Training of a classifier: how much each class counts in its loss.

The field and its rules are those of every classification task: a spec's `training` inherits
`ClassifierTraining`, whoever knows the data set's classes asks `find_weight_problems`, and the
trainer asks `compute_class_weights`.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from redkiln.nearest import suggest
from redkiln.spec import Training

POINTER = "/training/class_weights"
Weight = Annotated[float, Field(ge=0, le=1e6)]
ClassWeights = Literal["balanced"] | dict[str, Weight] | list[Weight]


class ClassifierTraining(Training):
    """Training of a classifier, whatever it classifies."""

    label_smoothing: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of each label that is spread evenly over all classes.",
    )
    class_weights: ClassWeights | None = Field(
        None,
        description="How much each class counts in the loss: `balanced` (all classes count the "
        "same, however many samples each has), weights by class name (1 for a class without one), "
        "or a list in the order of the classes. Only ratios matter: weights are scaled to a mean "
        "of 1 over the training samples.",
    )


def find_weight_problems(
    weights: ClassWeights | None, classes: Sequence[str]
) -> list[tuple[str, str]]:
    """What is wrong with a spec's class weights for a data set: JSON pointer and message of each.

    Args:
        weights: of the spec.
        classes: names of the data set's classes, by label.
    """
    if weights is None or weights == "balanced":
        return []
    if isinstance(weights, list):
        if len(weights) == len(classes):
            return _find_nothing_left(weights)
        message = f"{len(weights)} weights for {len(classes)} classes ({_few(classes)})"
        return [(POINTER, message)]
    assert isinstance(weights, dict)
    unknown = [name for name in weights if name not in classes]
    if unknown:
        return [
            (f"{POINTER}/{_escape(name)}", f"no class {name!r}{suggest(name, classes)}")
            for name in unknown
        ]
    return _find_nothing_left([weights.get(name, 1.0) for name in classes])


def compute_class_weights(
    weights: ClassWeights | None, *, classes: Sequence[str], counts: Sequence[int]
) -> list[float] | None:
    """The weight of each class, by label; their mean over the training samples is 1.

    Args:
        weights: of the spec, without problems (`find_weight_problems`).
        classes: names by label.
        counts: training samples of each class.

    Returns:
        None where every sample counts the same.
    """
    if weights is None:
        return None
    if isinstance(weights, dict):
        raw = [weights.get(name, 1.0) for name in classes]
    elif isinstance(weights, list):
        raw = list(weights)
    else:
        # A class without training samples is in no batch, so its weight is of no matter.
        raw = [1 / count if count else 0.0 for count in counts]
    total = sum(weight * count for weight, count in zip(raw, counts, strict=True))
    scale = sum(counts) / total if total > 0 else 1.0
    return [weight * scale for weight in raw]


def _find_nothing_left(weights: Sequence[float]) -> list[tuple[str, str]]:
    if any(weight > 0 for weight in weights):
        return []
    return [(POINTER, "every class has a weight of 0, so there is nothing to learn")]


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown}, ..." if len(names) > 5 else shown


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
