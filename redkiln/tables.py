"""What a table is once it is validated: typed columns, a target, and splits that are frozen.

The service reads what was uploaded (CSV, TSV, JSON lines, Parquet) once and keeps it as one Parquet
file, which is the data set's index and all that a worker reads. Its rows are those of the training
split and then those of the test split; its schema's metadata holds a `TableIndex` as JSON under
`METADATA_KEY`. Its columns:

    <name of a feature>  numeric: double, null where missing; categorical: int32, place in the
                         column's `categories`, null where missing; text: string, never null
    TARGET               int32, place in `classes`; for regression double, never null nor NaN
    RANK                 int32, place in the frozen random order of the row's class and split, from
                         0; for regression all rows of a split are one class
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, model_validator

from redkiln.datasets import take_fraction
from redkiln.spec import StrictModel

METADATA_KEY = "redkiln"
"""Of the Parquet schema's metadata."""
TARGET = "__target__"
RANK = "__rank__"

ColumnType = Literal["numeric", "categorical", "text"]
TableTask = Literal["text-classification", "tabular-classification", "tabular-regression"]
TABLE_TASKS: tuple[str, ...] = get_args(TableTask)
ColumnUse = Literal["numeric", "categorical", "text", "ignored"]
DecimalMark = Literal[".", ","]
FILE_TYPES = {
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".tab": "text/tab-separated-values",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".pq": "application/vnd.apache.parquet",
    ".txt": "application/octet-stream",
    ".data": "application/octet-stream",
    ".dat": "application/octet-stream",
}
"""How the files of tables end, and their media types; any of them may have `.gz` behind it."""
DELIMITER_NAMES = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
"""What a delimiter may be called where it is awkward to type."""
MISSING_WORDS = ("NA", "N/A", "#N/A", "NaN", "-NaN", "null", "None", "?")
"""What stands for no value, in any case, where the owner of a table says nothing else."""


def _read_delimiter(value: str) -> str:
    delimiter = DELIMITER_NAMES.get(value.lower(), "\t" if value == "\\t" else value)
    is_one = len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\n\r\0'
    if not is_one or delimiter.isalnum():
        names = ", ".join(DELIMITER_NAMES)
        raise ValueError(f"a delimiter is one character that is no letter or digit, or {names}")
    return delimiter


ColumnName = Annotated[str, StringConstraints(min_length=1, max_length=300)]
ClassName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]
MissingWord = Annotated[str, StringConstraints(strip_whitespace=True, max_length=100)]


def _drop_empty(words: list[str] | None) -> list[str] | None:
    return words and [word for word in words if word]


class TableOptions(StrictModel):
    """What an owner says about a table; the rest is inferred from its content."""

    task: TableTask | None = Field(
        None, description="Inferred from the target and from whether there is a text column."
    )
    target: ColumnName | None = Field(
        None, description="Column to predict; by its name (label, class, target...) or the last."
    )
    text: ColumnName | None = Field(None, description="Column of a text-classification's text.")
    columns: dict[ColumnName, ColumnUse] = Field(
        default_factory=dict,
        max_length=100_000,
        description="What columns are used as, where the inferred type is not the right one.",
    )
    header: bool | None = Field(
        None, description="Whether the first row of a CSV or TSV names the columns."
    )
    delimiter: Annotated[str, AfterValidator(_read_delimiter)] | None = Field(
        None, description="Between the fields of a CSV: one character, or `tab`."
    )
    decimal: DecimalMark | None = Field(
        None,
        description="What stands before the decimals of numbers that are text, `.` or `,`; the "
        "other one may separate their thousands. Inferred where the numbers of a column tell.",
    )
    missing: Annotated[list[MissingWord] | None, AfterValidator(_drop_empty)] = Field(
        None,
        max_length=100,
        description="Words that stand for no value, in any case, instead of "
        f"{', '.join(MISSING_WORDS)}; a number among them also by its value. What is empty always "
        "is missing; an empty word alone leaves it at that.",
    )

    classes: list[ClassName] | None = Field(
        None,
        min_length=2,
        max_length=1000,
        description="All classes of the target, in the order of their labels; sorted if unset.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.classes is not None and self.task == "tabular-regression":
            raise ValueError("classes are for a classification, and the task is tabular-regression")
        if self.classes is not None and len(set(self.classes)) < len(self.classes):
            raise ValueError("classes name one twice")
        texts = [name for name, use in self.columns.items() if use == "text"]
        if self.text is not None and self.task not in (None, "text-classification"):
            raise ValueError(f"text is for text-classification, and the task is {self.task}")
        if texts and self.task not in (None, "text-classification"):
            raise ValueError(f"{self.task} reads no text column; use categorical or ignored")
        if len({*texts, *([self.text] if self.text else [])}) > 1:
            raise ValueError("text-classification reads one text column; name one")
        if self.target is not None and (self.target == self.text or self.target in self.columns):
            raise ValueError("the target cannot be a column that is learnt from")
        return self

    @property
    def text_column(self) -> str | None:
        """The text column, in whichever of the two ways it was named."""
        return self.text or next((n for n, use in self.columns.items() if use == "text"), None)

    @property
    def missing_words(self) -> list[str]:
        """The words in effect that stand for no value, beside what is empty."""
        return list(MISSING_WORDS) if self.missing is None else self.missing

    def given(self) -> dict[str, object]:
        """What was said, and nothing of what was not."""
        return self.model_dump(mode="json", exclude_defaults=True)


class Column(BaseModel):
    """A feature column.

    Attributes:
        categories: of a categorical column, its values in the training split, most frequent first;
            a value that only the test split has counts as missing.
        num_missing: rows without a value.
        mean: of a numeric column's training rows that have a value; 0 where none has.
        std: standard deviation of the same, 1 where it would be 0.
        minimum: smallest of the same.
        maximum: largest of the same.
    """

    name: str
    type: ColumnType
    categories: list[str] = Field(default_factory=list)
    num_missing: int = 0
    mean: float = 0.0
    std: float = 1.0
    minimum: float | None = None
    maximum: float | None = None


class TableIndex(BaseModel):
    """The columns and splits of a table.

    Attributes:
        columns: features, in the file's order; one text column for text-classification.
        target: the name that the target's column has in the file.
        classes: names, by label; sorted where their owner said no order; empty for regression.
        target_mean: of the training rows, for regression.
        target_std: of the same; 1 where it would be 0.
        num_train: the first rows of the file are the training split,
        num_test: and those after them the test split.
        held_out_test: the test split was cut from the training rows.
        missing_numbers: numbers that stood for no value, and are null in the columns.
    """

    format: Literal[1] = 1
    task: TableTask
    columns: list[Column]
    target: str
    classes: list[str] = Field(default_factory=list)
    target_mean: float = 0.0
    target_std: float = 1.0
    num_train: int
    num_test: int
    seed: int
    held_out_test: bool = False
    missing_numbers: list[float] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


def split_table(
    labels: Sequence[int], ranks: Sequence[int], *, num_train: int, validation_fraction: float
) -> dict[Literal["train", "validation", "test"], list[int]]:
    """The rows of each split, by the table's frozen order.

    Args:
        labels: (N,) class of each row; all 0 for regression.
        ranks: (N,) the RANK column.
        num_train: of the index.
        validation_fraction: share of each class's training rows.
    """
    held = take_fraction(labels[:num_train], ranks[:num_train], fraction=validation_fraction)
    return {
        "train": [row for row, is_held in enumerate(held) if not is_held],
        "validation": [row for row, is_held in enumerate(held) if is_held],
        "test": list(range(num_train, len(labels))),
    }


def find_other_column(
    theirs: Mapping[str, str], mine: Mapping[str, str], *, job_id: str
) -> str | None:
    """Why a model of one table cannot read another one; None if it can.

    Args:
        theirs: type of each feature column that the model was trained on.
        mine: of the other table; order makes no difference.
        job_id: that trained the model.
    """
    for name, kind in theirs.items():
        if name not in mine:
            return (
                f"{job_id} learnt from the {kind} column {name!r}, which this table does not have "
                f"or does not use; add it, or register the table again with {name}={kind} among "
                "its columns, or train from the start"
            )
        if mine[name] != kind:
            return (
                f"column {name!r} is {mine[name]} here and was {kind} for {job_id}; register the "
                f"table again with {name}={kind} among its columns, or train from the start"
            )
    for name in mine:
        if name not in theirs:
            return (
                f"{job_id} did not know column {name!r}; register the table again with "
                f"{name}=ignored among its columns, or train from the start"
            )
    return None


def find_file_type(name: str) -> str | None:
    """The media type of a table's file by its name; None if it does not end like one."""
    lower = name.lower()
    plain = lower.removesuffix(".gz")
    kind = next((kind for ending, kind in FILE_TYPES.items() if plain.endswith(ending)), None)
    return kind if kind is None or plain == lower else "application/gzip"
