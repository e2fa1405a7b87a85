"""The worst mistakes of `evaluation.json` in the card: a table, and a picture with its answers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from redkiln.views.evaluation import Evaluation, EvaluationFile, Mistake, Tiles
from worker.export.card.markdown import escape
from worker.trainer.insight.preview_picture import draw_grid
from worker.trainer.insight.shown import Shown

PICTURE_NAME = "worst-mistakes.png"
MOST_SHOWN = 12


def draw_mistakes(content: EvaluationFile, sheet: Path, path: Path) -> bool:
    """Draw the worst images, each with the model's answer and the true one.

    Args:
        content: The evaluation.
        sheet: The picture of all listed mistakes.
        path: File to write.

    Returns:
        Whether there is one to draw.
    """
    shown = content.mistakes[:MOST_SHOWN]
    if content.tiles is None or not shown:
        return False
    with Image.open(sheet) as picture:
        tiles = [_cut(picture, content.tiles, one.tile) for one in shown if one.tile is not None]
    path.write_bytes(
        draw_grid(
            [
                Shown(
                    truth=one.true,
                    predicted=_name_answer(one),
                    confidence=one.confidence if _has_one_class(content) else None,
                    is_right=False,
                    image=tile,
                )
                for one, tile in zip(shown, tiles, strict=True)
            ]
        )
    )
    return True


def _name_answer(one: Mistake) -> str:
    if one.label is None:
        return one.predicted
    return f"{one.predicted} ({one.label}: {one.label_probability:.0%})"


def _has_one_class(content: Evaluation) -> bool:
    """Return whether the confidence of a mistake is the probability of its whole answer."""
    return not (content.has_boxes or content.has_masks or content.has_labels)


def _cut(picture: Image.Image, tiles: Tiles, number: int) -> NDArray[np.uint8]:
    left, top = number % tiles.columns * tiles.side, number // tiles.columns * tiles.side
    pixels = np.asarray(picture.crop((left, top, left + tiles.side, top + tiles.side)))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def render_mistakes(content: EvaluationFile, *, has_picture: bool) -> str:
    """Render the worst mistakes as Markdown; an empty text without mistakes."""
    shown = content.mistakes[:MOST_SHOWN]
    if not shown:
        return ""
    title, *columns = _name_columns(content)
    total = f"{content.num_mistakes:,} of {content.num_samples:,} test {content.noun}"
    hint = (
        "" if content.has_boxes or content.has_masks else " Some may be wrong labels in the data."
    )
    parts = [
        f"## {title}",
        f"{total} have a wrong answer.{hint}",
        *([f"![The worst, with answer and truth]({PICTURE_NAME})"] if has_picture else []),
        _render_table([content.noun.removesuffix("s"), *columns], shown),
    ]
    return "\n\n".join(parts)


def _name_columns(content: Evaluation) -> tuple[str, str, str, str, str]:
    """Return the section's title, and names of the answers and of the two numbers."""
    if content.has_boxes:
        return "Worst images", "true objects", "found", "best wrong score", "objects found"
    if content.has_masks:
        return "Worst images", "true pixels", "found", "wrong pixels", "mean IoU"
    title = "Most confident mistakes"
    if content.has_labels:
        return title, "true labels", "predicted labels", "label most wrong", "its probability"
    return title, "true class", "predicted class", "its probability", "that of the true one"


def _render_table(columns: Sequence[str], shown: Sequence[Mistake]) -> str:
    rows = "\n".join(
        f"| {number} | {escape(one.text or f'test sample {one.sample}')} | {escape(one.true)} "
        f"| {escape(one.predicted)} | {' | '.join(_name_numbers(one))} |"
        for number, one in enumerate(shown, start=1)
    )
    return f"| | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}\n{rows}"


def _name_numbers(one: Mistake) -> tuple[str, str]:
    """Return the last two cells of a row."""
    if one.label is not None:
        return escape(one.label), f"{one.label_probability:.1%}"
    return f"{one.confidence:.1%}", f"{one.true_confidence:.1%}"
