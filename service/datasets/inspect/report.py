"""The report of an inspection, as stored with the data set and shown by the API."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO

from pydantic import BaseModel, Field

from redkiln.cells.encoding import EXAMPLES, OtherScriptError, explain_damage
from redkiln.tables import ColumnUse, TableOptions
from redkiln.views.dataset import ColumnView, DatasetProblem, MaskCounts, ObjectCounts

INDEX = "index"
"""Name of a valid set's index in the work folder: JSON for images, Parquet for a table."""
MAX_LISTED = 100
"""Maximum problems listed one by one; the others are only counted."""
_MAX_NAMED = 10
"""Maximum skipped files or rows that a note names."""
_MAX_REPEATED = 20
"""Maximum options of a table that advice repeats."""
MAX_SIZES = 50
"""Maximum image sizes counted one by one; the others are counted as `other`."""

DERIVED_NOTE = "its dates became"
"""How the note of a column of dates begins, from which numbers were derived."""
WORDS_NOTE = "its words became"
"""The same for a column of prose."""

GREY_MODES = {"1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L"}
"""Modes of Pillow without colour."""
OTHER_SIZES = "other"
"""Stands for the sizes of images that are not counted one by one."""


class InspectionReport(BaseModel):
    """The content of a data set, which is valid if `errors` is empty.

    Attributes:
        task: Task that the set is for; None if it is not known because the set is invalid.
        counts: Number of samples by split and class; of a regression, with several labels a
            sample, and with boxes or masks, by split and `rows` or `images`.
        label_counts: Number of samples with each label by split, if a sample can have several.
        image_sizes: Number of images by `<width>x<height>`, and of `OTHER_SIZES`.
        image_modes: Number of images by Pillow's mode.
        objects: Boxes by class and size, of a set for object detection.
        masks: Pixels and images by class, of a set for semantic segmentation.
        columns: Columns of a table.
        target: Name of a table's target column.
        warnings: Doubts about the quality of a valid set (`inspect/quality/`).
        num_skipped: Number of skipped files or rows; the first ones are in `skipped`.
        size_bytes: Size of the samples' files together.
        stamp: Digest of the files of a folder with tables; see `redkiln.datasets.stamp_folder`.
    """

    task: str | None = None

    classes: list[str] = Field(default_factory=list)
    counts: dict[str, dict[str, int]] = Field(default_factory=dict)
    label_counts: dict[str, dict[str, int]] = Field(default_factory=dict)
    image_sizes: dict[str, int] = Field(default_factory=dict)
    image_modes: dict[str, int] = Field(default_factory=dict)
    objects: ObjectCounts | None = None
    masks: MaskCounts | None = None
    columns: list[ColumnView] = Field(default_factory=list)
    target: str | None = None
    notes: list[str] = Field(default_factory=list)
    warnings: list[DatasetProblem] = Field(default_factory=list)
    num_skipped: int = 0
    skipped: list[DatasetProblem] = Field(default_factory=list)
    errors: list[DatasetProblem] = Field(default_factory=list)
    size_bytes: int = 0
    stamp: str | None = None


class Refused(Exception):  # noqa: N818  named after what is wrong
    """The data set cannot be used; `problems` says why and where."""

    def __init__(self, problems: Iterable[DatasetProblem]) -> None:
        self.problems = list(problems)
        super().__init__("; ".join(problem.message for problem in self.problems[:5]))


def refuse(code: str, message: str, path: str | None = None) -> Refused:
    """Build a refusal for one problem."""
    return Refused([problem(code, message, path)])


def problem(code: str, message: str, path: str | None = None) -> DatasetProblem:
    """Build a problem whose path is safe to print."""
    return DatasetProblem(code=code, message=message, path=None if path is None else show(path))


def note_skipped(
    skipped: Sequence[DatasetProblem], noun: str, *, num: int | None = None
) -> list[str]:
    """Return the note that names what was skipped, if anything was.

    Args:
        skipped: The first of the skipped files or rows.
        noun: Plural of what was skipped, such as `files`.
        num: Number of all of them; by default the number of `skipped`.
    """
    num = len(skipped) if num is None else num
    names = ", ".join(found.path for found in skipped[:_MAX_NAMED] if found.path)
    more = ", ..." if num > _MAX_NAMED else ""
    if num == 1:
        one = noun.removesuffix("es" if noun.endswith("xes") else "s")
        return [f"1 {one} cannot be used and was skipped: {names}"]
    return [f"{num} {noun} cannot be used and were skipped: {names}{more}"] if num else []


def quote_use(name: str, use: str) -> str:
    """Return `NAME=TYPE`, the value of an option, in quotes if a shell needs them."""
    return shlex.quote(f"{show(name)}={use}")


def advise_without(names: Sequence[str], options: TableOptions) -> str:
    """Return how to train without some columns, as the end of a message."""
    told = repeat_options(options, dict.fromkeys(names, "ignored"))
    them = "it" if len(names) == 1 else "them"
    return f"push the table again to train without {them}: {told}"


def repeat_options(options: TableOptions, uses: Mapping[str, ColumnUse] | None = None) -> str:
    """Return the options to push a table with again, as parameters of the API.

    Args:
        options: The options that it was pushed with.
        uses: Other uses of some columns; these come first.
    """
    uses = uses or {}
    columns = {**uses, **options.columns, **uses}
    told = []
    for name, value in options.given().items():
        if name in ("columns", "classes"):
            continue
        if isinstance(value, bool):
            told.append(f"{name}={str(value).lower()}")
        elif isinstance(value, list):
            told += [f"{name}={_quote_value(word)}" for word in value or [""]]
        else:
            written = "tab" if value == "\t" else str(value)
            told.append(f"{name}={_quote_value(written)}")
    told += [f"column={quote_use(name, use)}" for name, use in columns.items()]
    told += [f"class={_quote_value(name)}" for name in options.classes or ()]
    return " ".join(told[:_MAX_REPEATED]) + (" ..." if len(told) > _MAX_REPEATED else "")


def _quote_value(value: str) -> str:
    """Return the value of an option in quotes if a shell, or the end of a sentence, needs them."""
    quoted = shlex.quote(show(value))
    return f"'{quoted}'" if len(quoted) > 1 and quoted.endswith((",", ".", ":")) else quoted


def show(path: str) -> str:
    """Return a path that is safe to print and to send as JSON: escaped, and limited in length.

    A name from an archive may hold lone surrogates, line breaks or terminal escapes.
    """
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in path[:1024])
    return text if len(text) <= 300 else f"{text[:300]}..."


def quote(text: str) -> str:
    """Return a name or a value as `show` does, in quotes.

    Unlike `repr`, it does not escape what `show` has escaped.
    """
    shown = show(text)
    mark = '"' if "'" in shown else "'"
    return f"{mark}{shown}{mark}"


def say_guessed(encoding: str, place: str | None) -> str:
    """Return the note on a text that is read as one byte a letter.

    Args:
        encoding: The encoding that was chosen.
        place: The file's name in its archive.
    """
    where = f"{place} " if place else ""
    return f"the text {where}is not UTF-8; it was read as {encoding}"


def explain_script(error: OtherScriptError) -> str:
    """Return the message about a text whose encoding cannot be found, and what to do."""
    return (
        f"{error}; save it as UTF-8 (in Excel: `CSV UTF-8`), or set encoding=NAME to one of "
        f"{EXAMPLES}"
    )


def refuse_encoding(file: BinaryIO, encoding: str, path: str | None) -> Refused:
    """Build the exception for a text that is not in its encoding.

    Args:
        file: The text, which can be read again from the start.
        encoding: Encoding that does not decode it.
        path: The file's path in its archive.
    """
    message = (
        f"{explain_damage(file, encoding)}; save it as UTF-8, or set encoding=NAME to one of "
        f"cp1252 (Western European), {EXAMPLES}"
    )
    return refuse("bad_encoding", message, path)
