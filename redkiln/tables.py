"""Validated tables: typed columns, a target, and frozen splits.

The service reads the uploaded table (CSV, TSV, JSON lines, Parquet) once and keeps it as one
Parquet file, which is the data set's index and all that a worker reads. The rows of the training
split come first, then those of the test split. The metadata of the schema holds a `TableIndex` as
JSON under `METADATA_KEY`. The columns are:

    <name of a feature>  numeric: double, null where missing; categorical: int32, index into the
                         column's `categories`, null where missing; text: string, never null
    TARGET               int32, index into `classes`; for regression double, never null or NaN
    RANK                 int32, position in the frozen random order of the row's class and split,
                         from 0; for regression all rows of a split are one class
    LABELS               list of int32, indexes into `classes` in rising order; only for several
                         labels a row. TARGET is then the row's rarest label, and decides its split
    PLACE                string, place of a test row in the owner's file, such as `line 7`; null for
                         the training split. Tables of texts, and of earlier versions, lack it
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, model_validator

from redkiln.cells.encoding import read_encoding
from redkiln.cells.label_file import ONE_CLASS
from redkiln.datasets import take_fraction
from redkiln.spec.strict import StrictModel

METADATA_KEY = "redkiln"
"""Key in the metadata of the Parquet schema."""
TARGET = "__target__"
RANK = "__rank__"
LABELS = "__labels__"
PLACE = "__place__"

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
"""Suffixes of table files -> media types; each may be followed by `.gz`."""
DAYS_SINCE = "days_since"
"""`Derived.part` of the days between two columns of dates."""
DELIMITER_NAMES = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
"""Names for delimiters that are awkward to type."""
MISSING_WORDS = ("NA", "N/A", "#N/A", "NaN", "-NaN", "null", "None", "?")
"""Words for a missing value, in any case, unless the owner of a table gives others."""


def _read_delimiter(value: str) -> str:
    delimiter = DELIMITER_NAMES.get(value.lower(), "\t" if value == "\\t" else value)
    is_one = len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\n\r\0'
    if not is_one or delimiter.isalnum():
        names = ", ".join(DELIMITER_NAMES)
        raise ValueError(
            f"a delimiter must be one character other than a letter or digit, or one of {names}"
        )
    return delimiter


def _read_separator(value: str) -> str:
    separator = value.strip(" ") or value
    if separator.casefold() == ONE_CLASS:
        return ONE_CLASS
    if not separator or separator.isalnum() or any(c in separator for c in "\n\r\0"):
        raise ValueError(
            "a separator of labels must be characters such as `;`, not letters, or `none` if each "
            "cell is one class"
        )
    return separator


Encoding = Annotated[
    str, StringConstraints(min_length=1, max_length=50), AfterValidator(read_encoding)
]
ColumnName = Annotated[str, StringConstraints(min_length=1, max_length=300)]
ClassName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]
LabelsSeparator = Annotated[
    str, StringConstraints(min_length=1, max_length=10), AfterValidator(_read_separator)
]
MissingWord = Annotated[str, StringConstraints(strip_whitespace=True, max_length=100)]


def _drop_empty(words: list[str] | None) -> list[str] | None:
    return words and [word for word in words if word]


ImageTask = Literal["object-detection", "semantic-segmentation", "instance-segmentation"]
IMAGE_TASKS: tuple[str, ...] = get_args(ImageTask)
"""Tasks whose annotations can be the same files, read as boxes or as masks."""
SEGMENTATION: ImageTask = "semantic-segmentation"
INSTANCES: ImageTask = "instance-segmentation"


class TableOptions(StrictModel):
    """What the owner says about a table; the rest is inferred from its content."""

    task: TableTask | ImageTask | None = Field(
        None,
        description="Task; inferred from the content. `semantic-segmentation` reads the regions of "
        "COCO and LabelMe as masks, and `instance-segmentation` as one mask for each object; "
        "without either their boxes are read, as for `object-detection`.",
    )
    target: ColumnName | None = Field(
        None,
        description="Column to predict. Inferred: a column with a usual name (label, class, "
        "target, ...), otherwise the last one.",
    )
    text: ColumnName | None = Field(
        None, description="Column with the text, for text-classification."
    )
    columns: dict[ColumnName, ColumnUse] = Field(
        default_factory=dict,
        max_length=100_000,
        description="Use of columns by name, where the inferred type is wrong.",
    )
    header: bool | None = Field(
        None, description="Whether the first row of a CSV or TSV names the columns."
    )
    delimiter: Annotated[str, AfterValidator(_read_delimiter)] | None = Field(
        None, description="Separator between the fields of a CSV: one character, or `tab`."
    )
    encoding: Encoding | None = Field(
        None,
        description="Encoding of a CSV, TSV or JSON-lines file, by one of Python's names, such as "
        "`gb18030` or `shift_jis`. Found for Unicode and for Western European text.",
    )
    decimal: DecimalMark | None = Field(
        None,
        description="Decimal mark of numbers that are stored as text: `.` or `,`; the other one "
        "may separate thousands. Inferred if a column's numbers show which one it is.",
    )
    missing: Annotated[list[MissingWord] | None, AfterValidator(_drop_empty)] = Field(
        None,
        max_length=100,
        description="Words that mean a missing value, in any case, instead of "
        f"{', '.join(MISSING_WORDS)}. A number among them also matches by value. Empty fields "
        "are always missing; a list with only an empty word means that nothing else is.",
    )

    classes: list[ClassName] | None = Field(
        None,
        min_length=2,
        max_length=1000,
        description="All classes of the target in the order of their labels; sorted if unset.",
    )

    labels_separator: LabelsSeparator | None = Field(
        None,
        description="Separator of the labels in a cell of the target, or of `labels.csv` next to "
        "images, such as `;` in `css;java`. Each row can then have several labels, and a model "
        "gives each class its own probability. `none` reads each cell as one class, even if it "
        "looks like a list of labels.",
    )

    skip_bad: int | None = Field(
        None,
        ge=0,
        le=1_000_000,
        description="Number of unusable rows, or image files, that are skipped and listed, "
        "instead of 1 % of them. Rows without a target are then skipped, too.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.classes is not None and self.task == "tabular-regression":
            raise ValueError(
                "classes only apply to a classification, but the task is tabular-regression"
            )
        if self.labels_separator is not None and self.task == "tabular-regression":
            raise ValueError(
                "labels_separator only applies to a classification, but the task is "
                "tabular-regression"
            )
        if self.classes is not None and len(set(self.classes)) < len(self.classes):
            raise ValueError("classes contains the same class twice")
        texts = [name for name, use in self.columns.items() if use == "text"]
        if self.text is not None and self.task not in (None, "text-classification"):
            raise ValueError(f"text only applies to text-classification, not to {self.task}")
        is_tabular = self.task not in (None, "text-classification")
        if not is_tabular and len({*texts, *([self.text] if self.text else [])}) > 1:
            raise ValueError(
                "text-classification reads one text column; name only one, or set a tabular task"
            )
        if self.target is not None and (self.target == self.text or self.target in self.columns):
            raise ValueError("the target cannot also be a feature; remove it from text and columns")
        return self

    @property
    def text_column(self) -> str | None:
        """The text column, whether it was named by `text` or by `columns`."""
        return self.text or next((n for n, use in self.columns.items() if use == "text"), None)

    @property
    def missing_words(self) -> list[str]:
        """The words that mean a missing value, in addition to empty fields."""
        return list(MISSING_WORDS) if self.missing is None else self.missing

    def given(self) -> dict[str, object]:
        """Return the options that were given."""
        return self.model_dump(mode="json", exclude_defaults=True)


class Written(BaseModel):
    """How the numbers of a column are written.

    Attributes:
        unit: Unit before or after a number, such as `$` or `%`; empty without one.
        decimal: The decimal mark; the other one may separate thousands.
        separates_thousands: Whether it does; None in tables of versions that did not record it.
    """

    unit: str = ""
    decimal: DecimalMark = "."
    separates_thousands: bool | None = None


class Derived(BaseModel):
    """The origin of a column that is not in the file: a number derived from a date or a text.

    Attributes:
        column: Name of the column in the file that has the dates.
        part: Name of the number in `redkiln.dates.derive_from_date`; or `word`; or `days_since`.
        day_first: Whether `03/04/2024` is the third of April.
        word: Word of `redkiln.cells.prose.find_words`; the number is 1 if the text has it, else 0.
        since: Another column of dates; the number is the days from its date to this column's.
        since_day_first: `day_first` of that column.
    """

    column: str
    part: str
    day_first: bool = False
    word: str | None = None
    since: str | None = None
    since_day_first: bool | None = None


class Column(BaseModel):
    """A feature column.

    Attributes:
        categories: Values of a categorical column in the training split, most frequent first.
            Values that occur only in the test split count as missing.
        num_missing: Rows without a value.
        mean: Mean of a numeric column over the training rows with a value; 0 without any.
        std: Standard deviation of the same; 1 where it would be 0.
        minimum: Smallest value of the same.
        maximum: Largest value of the same.
        written: How the file writes a numeric column's values, if not as plain numbers.
        derived: Origin of a column that is derived from a date or a text.
    """

    name: str
    type: ColumnType
    categories: list[str] = Field(default_factory=list)
    num_missing: int = 0
    mean: float = 0.0
    std: float = 1.0
    minimum: float | None = None
    maximum: float | None = None
    written: Written | None = None
    derived: Derived | None = None


def put_own_first(columns: Iterable[Column]) -> list[Column]:
    """Return the columns of the user's file, then those that are derived from them."""
    return sorted(columns, key=lambda column: column.derived is not None)


class TableIndex(BaseModel):
    """The columns and splits of a table.

    Attributes:
        columns: Features in the file's order; one text column for text-classification.
        target: Name of the target column in the file.
        ignored: Columns of the file that no feature is read from as it is: the target, the column
            of splits, and those that the inspection or the owner left out.
        classes: Class names by label, sorted unless the owner gave an order; empty for regression.
        target_mean: Mean of the target over the training rows, for regression.
        target_std: Standard deviation of the same; 1 where it would be 0.
        target_written: How the file writes the target of a regression, if not as plain numbers.
        num_train: Rows of the training split, which come first.
        num_validation: The last of these rows that are the table's own validation split; 0 if jobs
            take one from the training rows.
        num_test: Rows of the test split, which follow the training rows.
        held_out_test: Whether the test split was cut from the training rows.
        missing_numbers: Numbers that meant a missing value, and are null in the columns.
        missing_words: Words that meant a missing value, in any case.
        labels_separator: Separator of the labels in a cell of the target; None if each row has one
            class. A table with several labels a row has format 2, so that an older worker refuses
            it.
        encoding: Encoding that the owner named for the file; None if it was found.
    """

    format: Literal[1, 2] = 1
    task: TableTask
    columns: list[Column]
    target: str
    ignored: list[str] = Field(default_factory=list)
    classes: list[str] = Field(default_factory=list)
    target_mean: float = 0.0
    target_std: float = 1.0
    target_written: Written | None = None
    num_train: int
    num_validation: int = 0
    num_test: int
    seed: int
    held_out_test: bool = False
    missing_numbers: list[float] = Field(default_factory=list)
    missing_words: list[str] = Field(default_factory=lambda: list(MISSING_WORDS))
    labels_separator: str | None = None
    encoding: str | None = None
    notes: list[str] = Field(default_factory=list)


def split_table(
    labels: Sequence[int], ranks: Sequence[int], *, num_train: int, validation_fraction: float
) -> dict[Literal["train", "validation", "test"], list[int]]:
    """Return the rows of each split, by the table's frozen order.

    Args:
        labels: (N,) class of each row; all 0 for regression.
        ranks: (N,) values of the RANK column.
        num_train: Rows of the training split, from the index.
        validation_fraction: Fraction of each class's training rows used for validation.
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
    """Return why a model of one table cannot read another one, or None if it can.

    Args:
        theirs: Type of each feature column that the model was trained on.
        mine: Type of each feature column of the other table, in any order.
        job_id: Job that trained the model.
    """
    for name, kind in theirs.items():
        if name not in mine:
            return (
                f"{job_id} was trained on the {kind} column {name!r}, which this table lacks or "
                f"does not use; register the table again with the column and {name}={kind} among "
                "its columns, or train without that job's weights"
            )
        if mine[name] != kind:
            return (
                f"column {name!r} is {mine[name]} here but was {kind} for {job_id}; register the "
                f"table again with {name}={kind} among its columns, or train without that job's "
                "weights"
            )
    for name in mine:
        if name not in theirs:
            return (
                f"{job_id} was trained without column {name!r}; register the table again with "
                f"{name}=ignored among its columns, or train without that job's weights"
            )
    return None


def explain_no_log(target: str, value: float, *, place: str | None) -> str:
    """Return why a regression cannot be trained on the logarithm of its target.

    Args:
        target: Name of the target column.
        value: A value that is not above 0.
        place: Its place in the owner's file, if it is known.
    """
    where = "" if place is None else f" ({place})"
    return (
        f"only values above 0 have a logarithm, but {target} has {value:g}{where}; set "
        "target_transform to none, or remove such rows from the table"
    )


def find_file_type(name: str) -> str | None:
    """Return the media type of a table file by its name, or None if it is not a table."""
    lower = name.lower()
    plain = lower.removesuffix(".gz")
    kind = next((kind for ending, kind in FILE_TYPES.items() if plain.endswith(ending)), None)
    return kind if kind is None or plain == lower else "application/gzip"
