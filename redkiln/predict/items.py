"""Inputs by name, and those among them that cannot be used."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from redkiln.errors import ModelError

STDIN = "-"
Arrays = dict[str, NDArray[np.generic]]
"""The model's inputs by name, each with the sample as its first dimension."""


class InputError(Exception):
    """One input cannot be used; the text says why, without its name."""


class NoInputError(ModelError):
    """An argument stands for nothing that could be predicted.

    Args:
        subject: The argument, with what it names: `File new.csv`.
        reason: The fault as a predicate, such as `does not exist`.
    """

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(f"{subject} {reason}.")
        self.reason = reason

    def as_item(self, name: str) -> "Item":
        """Return a sample that cannot be read, which then is named and skipped."""
        return Item(name, self._refuse)

    def _refuse(self) -> Any:
        raise InputError(self.reason)


@dataclass(frozen=True)
class Item:
    """One sample to predict.

    Attributes:
        name: Name for people: a path, `rows.csv:3`, or the text itself.
        read: Returns the sample in the form that `Preparation.feed` takes.
        values: All values of a row of a table, by column; None for other samples.
    """

    name: str
    read: Callable[[], Any]
    values: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Skipped:
    """An input that was not predicted, and why."""

    name: str
    reason: str


class Preparation(Protocol):
    """Turns what a user names into a model's inputs, as training did.

    Attributes:
        noun: Plural name of the samples, such as `images`.
        is_costly: Whether reading an item takes long enough to share it among threads.
    """

    noun: str
    is_costly: bool

    @property
    def notes(self) -> list[str]:
        """Notes for the user about the inputs read since the last `forget`."""

    def forget(self) -> None:
        """Forget what was noted about earlier inputs."""

    def find(self, argument: str, *, stdin: BinaryIO) -> Iterator[Item]:
        """Return the items that an argument stands for.

        Args:
            argument: As the user wrote it: a path, a pattern, a text, or `-` for stdin.
            stdin: Standard input.

        Raises:
            ModelError: Nothing can be read from it.
        """

    def find_row(self, values: Mapping[str, Any], *, name: str) -> Item:
        """Return the item that a row stands for.

        Args:
            values: Values by column.
            name: Name of the row for people.

        Raises:
            ModelError: The model reads no rows, or the columns are not those that it reads.
        """

    def feed(self, samples: list[Any]) -> Arrays:
        """Return samples as the model's inputs."""


def expand(argument: str) -> list[Path]:
    """Return the path that an argument names, or the paths that match it as a pattern."""
    path = Path(argument).expanduser()
    if path.exists() or not any(mark in argument for mark in "*?["):
        return [path]
    anchor = Path(path.anchor) if path.is_absolute() else Path()
    return sorted(anchor.glob(str(path.relative_to(path.anchor))))
