"""Asks for each cure, carries it out, and records it."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from worker.hardware.doctor.cures.book import CureBook, Tried
from worker.hardware.doctor.cures.cures import Cure

Ask = Callable[[str], bool]
Say = Callable[[str], None]


def carry_out(cures: Sequence[Cure], *, book: CureBook, ask: Ask, say: Say) -> list[Cure]:
    """Carry out the cures that `ask` agrees to, record each, and return them.

    A cure that fails is reported and not recorded.
    """
    done = []
    for cure in cures:
        if not ask(cure.title):
            continue
        try:
            cure.apply()
        except OSError as error:
            say(f"This failed: {error}. The command is: {cure.command}")
            continue
        done.append(cure)
        _record(cure, book, say)
    return done


def _record(cure: Cure, book: CureBook, say: Say) -> None:
    tried = Tried(at=datetime.now(UTC), row=cure.row, cure=cure.title, command=cure.command)
    try:
        book.add(tried)
    except OSError as error:
        say(f"Done, but it cannot be recorded for the next diagnosis: {error}")
