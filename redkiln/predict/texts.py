"""Texts as inputs: tokens of the model's own tokenizer.

Shapes: B batch, T tokens of the batch's longest text.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from redkiln.errors import ModelError
from redkiln.nearest import find_nearest
from redkiln.predict.decoding import Decoder
from redkiln.predict.delimited import read_tables
from redkiln.predict.items import STDIN, Arrays, InputError, Item, NoInputError, expand
from redkiln.tables import find_file_type

IDS, MASK = "input_ids", "attention_mask"
TEXTS = "texts"
"""Input of a file with the tokenizer inside, (B,) strings."""
NAME_LENGTH = 60
"""Characters of a text that name it, if it was given as an argument."""


def feed_tokens(ids: NDArray[np.integer], mask: NDArray[np.integer]) -> Arrays:
    """Return (B, T) tokens and their mask as int64, without columns that are padding in all."""
    longest = max(int(mask.sum(axis=1).max()), 1)
    return {IDS: ids[:, :longest].astype(np.int64), MASK: mask[:, :longest].astype(np.int64)}


class TextPreparation:
    """Reads texts from arguments, text files, tables and stdin.

    Args:
        preprocessing: The model's preprocessing.
        folder: Folder of the model, which contains its tokenizer.
        column: Column of a table that has the texts, by name, or by number if the table has no
            header; None for the training table's.

    Raises:
        ModelError: The tokenizer is missing or broken.
    """

    noun = "texts"
    is_costly = False

    def __init__(
        self,
        preprocessing: dict[str, Any],
        *,
        folder: Path,
        column: str | None,
        encoding: str | None = None,
    ) -> None:
        self._asked = column
        self._column = column or preprocessing.get("column")
        self._known = preprocessing
        self._decoder = Decoder(encoding, usual=preprocessing.get("encoding"))
        self._tokenizer: Any = None
        if preprocessing.get("interface") == "embedded":
            return
        path = folder / Path(preprocessing["tokenizer"]).name
        if not path.is_file():
            raise ModelError(f"{path} is missing. Put the job's {path.name} next to the model.")
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:
            raise ModelError(f"{path} is not a tokenizer ({error}). Download it again.") from error

    @property
    def notes(self) -> list[str]:
        """Return what the user should know about the files that were read."""
        return self._decoder.notes

    def forget(self) -> None:
        """Forget what was noted about earlier files."""
        self._decoder.notes.clear()

    def find(self, argument: str, *, stdin: BinaryIO) -> Iterator[Item]:
        """Return one item for each text.

        A text file and stdin contain one text a line. What is not a file is itself a text.
        """
        if argument == STDIN:
            yield from _find_lines("stdin", stdin.read(), self._decoder)
            return
        if not argument.strip():
            yield Item("an empty text", partial(_read, ""))
            return
        paths = _find_files(argument)
        if not paths:
            if _looks_like_path(argument):
                raise NoInputError(f"File {argument}", "does not exist")
            is_short = len(argument) <= NAME_LENGTH
            name = argument if is_short else f"{argument[: NAME_LENGTH - 1]}…"
            yield Item(name, partial(_read, argument))
        for path in paths:
            if path.is_dir():
                raise ModelError(
                    f"{path} is a folder. Name a table, or a .txt file with one text a line."
                )
            if path.suffix.lower() == ".txt" or find_file_type(path.name) is None:
                yield from _find_lines(str(path), path.read_bytes(), self._decoder)
            else:
                yield from self._find_in_table(path, stdin)

    def find_row(self, values: Mapping[str, Any], *, name: str) -> Item:
        """Return the text of a row."""
        column = self._choose_column(values, table=name)
        return Item(name, partial(_read, values[column]), values)

    def feed(self, samples: list[str]) -> Arrays:
        """Return texts as tokens and their mask, or as they are if the file has the tokenizer."""
        if self._tokenizer is None:
            return {TEXTS: np.array(samples, dtype=object)}
        encodings = self._tokenizer.encode_batch(samples)
        ids = np.array([encoding.ids for encoding in encodings], dtype=np.int64)
        mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
        return feed_tokens(ids, mask)

    def _find_in_table(self, path: Path, stdin: BinaryIO) -> Iterator[Item]:
        wanted = [self._column] if self._column else ["text"]
        has_header = not (self._column or "").isdigit()
        column = None
        rows = read_tables(
            str(path), stdin=stdin, wanted=wanted, decoder=self._decoder, has_header=has_header
        )
        for row in rows:
            if isinstance(row.values, InputError):
                yield Item(row.name, partial(_refuse, row.values), {})
                continue
            column = column or self._choose_column(row.values, table=row.name.rpartition(":")[0])
            yield Item(row.name, partial(_read, row.values.get(column)), row.values)

    def _choose_column(self, values: Mapping[str, Any], *, table: str) -> str:
        known = list(values)
        if self._column in known:
            self._doubt_target()
            return str(self._column)
        if self._asked is None and ("text" in known or len(known) == 1):
            return "text" if "text" in known else known[0]
        wanted = f"the column {self._column!r}" if self._column else "a column `text`"
        nearest = find_nearest(self._column, known) if self._column else ""
        raise ModelError(
            f"{table} lacks {wanted}{nearest or '.'} Its columns are "
            f"{', '.join(known[:20])}; choose one with --column, by its number (from 1) if the "
            "table has no header."
        )

    def _doubt_target(self) -> None:
        """Note that the chosen column has the answers, if it was the target in training."""
        if self._asked is None or self._asked != self._known.get("target"):
            return
        note = (
            f"Column {self._asked!r} was the target in training, so it has the answers. The texts "
            f"were in column {self._known['column']!r}."
        )
        if note not in self._decoder.notes:
            self._decoder.notes.append(note)


def _find_lines(name: str, content: bytes, decoder: Decoder) -> Iterator[Item]:
    for number, text in enumerate(decoder.decode(name, content).splitlines(), 1):
        if text.strip():
            yield Item(f"{name}:{number}", partial(_read, text))


def _read(text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InputError("the text is empty" if text in (None, "") else f"{text!r} is not a text")
    return text


def _refuse(error: InputError) -> str:
    raise error


def _find_files(argument: str) -> list[Path]:
    try:
        return [path for path in expand(argument) if path.exists()]
    except (OSError, ValueError):  # a long text is not a possible path
        return []


def _looks_like_path(argument: str) -> bool:
    name = argument.strip()
    is_file = find_file_type(name) is not None and not any(c.isspace() for c in name)
    return is_file or name.endswith((".jsonl", ".md"))
