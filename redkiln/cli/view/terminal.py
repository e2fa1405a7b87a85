"""Keeps text of others from controlling the terminal.

Names, logs, classes and errors may hold escape sequences, which could clear the screen, set the
window's title or write to the clipboard. They are shown instead, as `␛[2J`. Only the colours and
carriage returns of a log reach the terminal.
"""

import codecs
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.text import Text

_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""C0 without tab and newline, DEL, C1, and what reverses the direction of writing."""
_OF_A_LOG = re.compile("\x1b\\[[0-9;:]*m|\r|" + _CONTROL.pattern)
_UNFINISHED = re.compile("\x1b(?:\\[[0-9;:]{0,40})?$")


class SafeConsole(Console):
    """A console that shows control characters of whatever it prints, and sends only its own."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render an object, with control characters made visible."""
        for segment in super().render(renderable, options):
            if segment.control is None and _CONTROL.search(segment.text):
                yield Segment(show_controls(segment.text), segment.style)
            else:
                yield segment


def print_line(console: Console, text: str | Text, *, is_prose: bool = False) -> None:
    """Print a line without wrapping it, so that it can be copied and searched.

    Args:
        console: Console to print on.
        text: The line.
        is_prose: Whether it is made of sentences. A terminal then breaks it between words, and
            indents all parts like the first one.
    """
    line = Text(text) if isinstance(text, str) else text
    if not (is_prose and console.is_terminal):
        console.print(line, soft_wrap=True)
        return
    indent = len(line.plain) - len(line.plain.lstrip(" "))
    for part in line[indent:].wrap(console, max(console.width - indent, 1)):
        console.print(Text(" " * indent) + part, soft_wrap=True)


def show_controls(text: str) -> str:
    """Return a text with a visible sign in place of each control character."""
    return _CONTROL.sub(lambda match: _sign(match[0]), text)


def print_log(chunks: Iterable[bytes]) -> None:
    """Print a log on stdout as it comes: made safe at a terminal, unchanged elsewhere.

    Args:
        chunks: Bytes of the log, cut anywhere.
    """
    binary = sys.stdout.buffer
    for chunk in safe_log(chunks):
        binary.write(chunk)
        binary.flush()


def safe_log(chunks: Iterable[bytes]) -> Iterable[bytes]:
    """Return a log as stdout gets it: made safe for a terminal, unchanged for anything else."""
    return (text.encode() for text in show_log(chunks)) if sys.stdout.isatty() else chunks


def show_log(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield a log for a terminal: colours and carriage returns stay, other controls are shown.

    Args:
        chunks: Bytes of the log, cut anywhere.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    waiting = ""
    for chunk in chunks:
        text = waiting + decoder.decode(chunk)
        unfinished = _UNFINISHED.search(text)
        waiting = unfinished[0] if unfinished else ""
        yield _show_part(text.removesuffix(waiting))
    yield _show_part(waiting + decoder.decode(b"", final=True))


def _show_part(text: str) -> str:
    return _OF_A_LOG.sub(lambda found: _keep_or_show(found[0]), text)


def _keep_or_show(found: str) -> str:
    return found if len(found) > 1 or found == "\r" else _sign(found)


def _sign(character: str) -> str:
    """Return the picture of a control character, such as `␛`, or its number."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"
