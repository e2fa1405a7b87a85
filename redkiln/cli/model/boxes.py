"""Boxes of a detector as rows of a table, and boxes or masks drawn into pictures."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from redkiln.cli.problems import UsageError
from redkiln.cli.view import words
from redkiln.cli.view.render import Column

if TYPE_CHECKING:
    from redkiln.predict.model import Model, Prediction

HEAD = ("class", "score", "left", "top", "right", "bottom")
"""Columns of a box in CSV."""


def check_draw(model: "Model", draw: Path | None) -> None:
    """Refuse to draw for models that find neither boxes nor masks.

    Raises:
        UsageError: The model finds nothing that could be drawn.
    """
    known = model.description
    if draw is not None and known.detection is None and known.segmentation is None:
        raise UsageError("--draw is for models that find boxes or masks; this one does not.")


def draw_each(
    found: Iterable["Prediction"], model: "Model", folder: Path | None
) -> Iterator["Prediction"]:
    """Pass predictions on, and write each image with its boxes or its mask into a folder.

    Raises:
        ModelError: An input is not a file.
    """
    if folder is None:
        yield from found
        return
    from redkiln.predict.boxes.drawing import draw_found, name_drawn
    from redkiln.predict.masks.drawing import draw_mask

    classes = model.description.classes
    folder.mkdir(parents=True, exist_ok=True)
    taken: set[str] = set()
    for one in found:
        target = name_drawn(folder, one.name, taken)
        if one.mask is not None:
            draw_mask(Path(one.name), one.mask, target, classes)
        else:
            draw_found(Path(one.name), one.boxes or (), target, classes)
        yield one


def list_csv_rows(one: "Prediction") -> Iterator[list[str]]:
    """Return a row for each box, or one without a box."""
    if not one.boxes:
        yield [one.name, *("" for _ in HEAD)]
    for box in one.boxes or ():
        yield [one.name, box.class_name, f"{box.score:.6f}", *(f"{end:.2f}" for end in box.box)]


def list_columns() -> list[Column]:
    """Return the columns of the table."""
    return [
        Column("input", when_narrow="cut"),
        Column("class", when_narrow="cut"),
        Column("score", is_right=True),
        Column("left, top, right, bottom", is_right=True),
    ]


def list_rows(found: Iterable["Prediction"]) -> Iterator[list[str]]:
    """Return the rows of the table, a line for each box."""
    for one in found:
        if not one.boxes:
            yield [one.name, "nothing found", "", ""]
        for place, box in enumerate(one.boxes or ()):
            ends = ", ".join(f"{end:.0f}" for end in box.box)
            yield [one.name if not place else "", box.class_name, words.percent(box.score), ends]
