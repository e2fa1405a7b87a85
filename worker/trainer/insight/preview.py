"""Sample predictions, shown from time to time while a job trains, at a limited cost.

A task provides its samples and the model's predictions. This module decides when to show them, and
writes a small picture, or a table if samples are not images. This happens only after evaluations,
never within a step.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from redkiln.views.job import PreviewNote
from worker.trainer.insight.preview_picture import draw_grid
from worker.trainer.insight.shortened import shorten
from worker.trainer.insight.shown import NUM_SHOWN, Shown

COST_RATIO = 0.01
"""Largest share of the time since the start that all previews together may take."""
FIRST_COST_SECONDS = 0.05
"""Assumed cost of the first preview: two dozen small images on one core."""
LEAST_PAUSE_SECONDS = 20.0
MAX_CELL = 400
"""Characters of a sample in a table; of a longer one the beginning and the end are shown."""

ShowSamples = Callable[[], Sequence[Shown]]
"""Predicts a few samples, always the same ones, with the current model in evaluation mode."""


@dataclass
class PreviewBudget:
    """Limits the time for previews.

    Attributes:
        spent_seconds: Time spent on all previews.
    """

    spent_seconds: float = 0.0
    _last_seconds: float = FIRST_COST_SECONDS
    _last_at: float | None = None

    def allows(self, *, elapsed_seconds: float) -> bool:
        """Return whether a run of this age may have another preview."""
        if self._last_at is not None and elapsed_seconds < self._last_at + LEAST_PAUSE_SECONDS:
            return False
        return self.spent_seconds + self._last_seconds <= COST_RATIO * elapsed_seconds

    def note(self, cost_seconds: float, *, elapsed_seconds: float) -> None:
        """Record the cost of a preview."""
        self.spent_seconds += cost_seconds
        self._last_seconds = cost_seconds
        self._last_at = elapsed_seconds


class Previewer:
    """Writes the previews of one run.

    Attributes:
        newest: The newest preview; None before the first.
        budget: Time spent on previews.
    """

    def __init__(
        self,
        show: ShowSamples | None,
        folder: Path,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.newest: PreviewNote | None = None
        self.budget = PreviewBudget()
        self._show = show
        self._folder = folder
        self._clock = clock
        self._began = clock()

    def is_due(self, *, is_last: bool = False) -> bool:
        """Return whether it is time for another preview within the budget.

        Args:
            is_last: Whether the training is over, whose result is always shown.
        """
        if self._show is None:
            return False
        return is_last or self.budget.allows(elapsed_seconds=self._clock() - self._began)

    def make(self, step: int) -> PreviewNote | None:
        """Predict the samples and write a preview to the folder.

        Args:
            step: Step of the model.

        Raises:
            OSError: the disk is full.
        """
        if self._show is None:
            return None
        began = self._clock()
        shown = list(self._show())[:NUM_SHOWN]
        if shown:
            self.newest = write_preview(shown, self._folder, step=step)
        now = self._clock()
        self.budget.note(now - began, elapsed_seconds=now - self._began)
        return self.newest


def write_preview(shown: Sequence[Shown], folder: Path, *, step: int) -> PreviewNote:
    """Write a preview to the folder, and keep only the newest one before it.

    Raises:
        OSError: the disk is full.
    """
    folder.mkdir(exist_ok=True)
    is_picture = all(sample.image is not None for sample in shown)
    content = draw_grid(shown) if is_picture else render_table(shown, step=step).encode()
    before = sorted(folder.glob("step-*"))
    path = folder / f"step-{step:012d}.{'png' if is_picture else 'md'}"
    temporary = folder / f".{path.name}.tmp"
    temporary.write_bytes(content)
    temporary.replace(path)
    for old in before[:-1]:
        if old != path:
            old.unlink(missing_ok=True)
    judged = [sample.is_right for sample in shown if sample.is_right is not None]
    return PreviewNote(
        step=step,
        file=path.name,
        media_type="image/png" if is_picture else "text/markdown",
        num=len(shown),
        num_right=sum(judged) if judged else None,
    )


def render_table(shown: Sequence[Shown], *, step: int) -> str:
    """Return samples that are not images as a Markdown table."""
    has_confidence = any(sample.confidence is not None for sample in shown)
    has_verdict = any(sample.is_right is not None for sample in shown)
    head = ["sample", "true", "predicted"]
    head += ["confidence"] if has_confidence else []
    head += ["right"] if has_verdict else []
    lines = [f"Sample predictions at step {step:,}", "", _row(head), _row(["---"] * len(head))]
    for sample in shown:
        cells = [sample.text or "", sample.truth, sample.predicted]
        if has_confidence:
            cells.append("" if sample.confidence is None else f"{sample.confidence:.0%}")
        if has_verdict:
            cells.append({True: "yes", False: "**no**", None: ""}[sample.is_right])
        lines.append(_row(_cell(cell) for cell in cells))
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    """Return a user's text on one line, escaped so that it cannot become markup."""
    if text in ("yes", "**no**"):
        return text
    line = shorten(text, MAX_CELL)
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|!" else c for c in line)
