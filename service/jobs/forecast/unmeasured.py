"""Says which model no job has measured: one of this name, or one of this size."""

from collections.abc import Iterable, Mapping
from typing import Any

SIZES = ("dim", "layers", "vocabulary_size", "hidden", "image_size", "channels")
"""Options that change the architecture of a network of the same name, where it has them."""

Model = Mapping[str, Any]


def find_other_sizes(wanted: Model, others: Iterable[Model]) -> list[str]:
    """Return the options of a model's size that a measured one had otherwise.

    Args:
        wanted: The model to estimate.
        others: The measured one as asked and as resolved: `auto` matches another `auto`, but no
            explicit value.
    """
    found = [other.get("options", {}) for other in others]
    asked = wanted.get("options", {})
    return [name for name in SIZES if asked.get(name) not in [one.get(name) for one in found]]


def say_unmeasured(wanted: Model, name: str | None, measured: Iterable[tuple[Model, Model]]) -> str:
    """Return that no job has measured the model, with the sizes that only others had.

    Args:
        wanted: The model to estimate.
        name: Its name, with `auto` as what it will be.
        measured: The measured models, each as asked and as resolved.
    """
    same = [find_other_sizes(wanted, pair) for pair in measured if pair[1].get("name") == name]
    sizes = [size.replace("_", " ") for size in min(same, key=len, default=[])]
    with_size = f" and {', '.join(sizes)}" if sizes else ""
    return (
        f"time and memory: no job with this model{with_size} has succeeded here yet; a running job "
        "shows the time that is left"
    )
