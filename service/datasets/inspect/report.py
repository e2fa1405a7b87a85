"""What the inspection found, as it is kept with the data set and shown by the API."""

from collections.abc import Iterable

from pydantic import BaseModel, Field

from redkiln.views.dataset import ColumnView, DatasetProblem

INDEX = "index"
"""Name of a good set's index in the work folder: JSON of images, Parquet of a table."""
MAX_LISTED = 100
"""Problems listed one by one; the rest is only counted."""
MAX_SIZES = 50
"""Image sizes counted one by one; the rest is counted as `other`."""


class Report(BaseModel):
    """What is in a data set; it is valid when `errors` is empty.

    Attributes:
        task: that the set is for; None where it is not known, as the set is invalid.
        counts: samples by split and class; of a regression as `rows`.
        image_sizes: images by `<width>x<height>`.
        image_modes: images by Pillow's mode.
        columns: of a table.
        target: name of a table's target column.
        num_skipped: files or rows left out; the first ones are in `skipped`.
        size_bytes: of the samples' files together.
    """

    task: str | None = None

    classes: list[str] = Field(default_factory=list)
    counts: dict[str, dict[str, int]] = Field(default_factory=dict)
    image_sizes: dict[str, int] = Field(default_factory=dict)
    image_modes: dict[str, int] = Field(default_factory=dict)
    columns: list[ColumnView] = Field(default_factory=list)
    target: str | None = None
    notes: list[str] = Field(default_factory=list)
    num_skipped: int = 0
    skipped: list[DatasetProblem] = Field(default_factory=list)
    errors: list[DatasetProblem] = Field(default_factory=list)
    size_bytes: int = 0


class Refused(Exception):  # noqa: N818  named by what is the matter
    """The data set cannot be used; `problems` says why, place by place."""

    def __init__(self, problems: Iterable[DatasetProblem]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(problem.message for problem in self.problems[:5]))


def refuse(code: str, message: str, path: str | None = None) -> Refused:
    """A refusal for one reason."""
    return Refused([problem(code, message, path)])


def problem(code: str, message: str, path: str | None = None) -> DatasetProblem:
    """One thing that is wrong, its path made safe to print."""
    return DatasetProblem(code=code, message=message, path=None if path is None else show(path))


def show(path: str) -> str:
    """A path as it can be printed and sent as JSON: odd characters are escaped, length is bounded.

    A name from an archive may hold lone surrogates, line breaks or terminal escapes.
    """
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in path[:1024])
    return text if len(text) <= 300 else f"{text[:300]}..."
