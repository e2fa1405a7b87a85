"""Finds the encoding of users' texts and tables: Unicode, or one byte a letter as Excel writes."""

import codecs
import io
import re
import string
from collections.abc import Iterator
from typing import BinaryIO

MIB = 2**20
ONE_BYTE = ("cp1252", "latin-1")
"""Encodings to try for text that is not UTF-8; the last one can decode anything."""
_WIDER = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "tis-620": "cp874",
    "utf-8": "utf-8-sig",
}
"""Encodings in which files have more characters than the standard of the name has, with the one
that decodes all of them. Source: WHATWG, Encoding Standard, labels."""
_NAMED = ("gb18030", "big5", "shift_jis", "euc_kr", "cp874", "cp1251", "cp1252")
EXAMPLES = "gb18030 (Chinese), big5, shift_jis (Japanese), euc_kr (Korean), cp874 (Thai), cp1251"
"""Encodings that messages name."""
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_LETTERS = re.compile(rb"[\x80-\xff]{8,}")
"""Letters in a row that no Western European word has: every other script fills words with them."""
_WORDS = re.compile(r"[^\W\d_]+")
_ASCII = frozenset(string.ascii_letters)
_USUAL = ("utf-8", "cp1252", "cp932", "gb18030", "utf-16")
"""Encodings that are tried for a file that is not in the named one."""
_SHOWN = 24
"""Characters of a line that a message shows in each encoding."""
_FEWEST_KINDS = 4
"""Kinds of bytes in such a row, which is not one if it is a line drawn with one character."""


class OtherScriptError(ValueError):
    """One byte a letter would turn a text into garbage, such as Chinese in GBK.

    Attributes:
        line: Number of the line that shows it.
    """

    def __init__(self, line: int, row: bytes) -> None:
        readings = "".join(f"; {reading}" for reading in _read_in_all(row))
        super().__init__(f"is neither UTF-8 nor Western European text (line {line}{readings})")
        self.line = line


def read_encoding(name: str) -> str:
    """Return Python's name of an encoding, which decodes what programs call by the given name.

    Raises:
        ValueError: It is not the name of an encoding of text.
    """
    try:
        found = codecs.lookup(name.strip())
        "".encode(found.name)  # refuses encodings of bytes, such as base64
    except LookupError:
        message = f"{name!r} is not an encoding of text; use a name such as {EXAMPLES}"
        raise ValueError(message) from None
    return _WIDER.get(found.name, found.name)


def find_encoding(file: BinaryIO) -> str:
    """Return the encoding of a text, by its byte-order mark, else by trial decoding.

    Args:
        file: The text, which can be read again from the start.

    Raises:
        OtherScriptError: The text is neither Unicode nor Western European.
    """
    file.seek(0)
    head = file.read(3)
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    if _decodes(file, "utf-8"):
        return "utf-8"
    _refuse_other_scripts(file)
    return next((name for name in ONE_BYTE if _decodes(file, name)), ONE_BYTE[-1])


def is_unicode(content: bytes) -> bool:
    """Return whether a text has a byte-order mark, or is valid UTF-8."""
    has_mark = any(content.startswith(mark) for mark, _ in _MARKS)
    return has_mark or _decodes(io.BytesIO(content), "utf-8")


def find_encoding_of_names(content: bytes) -> str:
    """Return the encoding of a text of short names, such as labels.

    Names of other scripts are too short for `find_encoding` to recognise. A word of a Western
    European language with other letters has ASCII letters, too.

    Raises:
        OtherScriptError: The text is neither Unicode nor Western European.
    """
    encoding = find_encoding(io.BytesIO(content))
    if encoding in ONE_BYTE:
        for number, row in enumerate(content.splitlines(), start=1):
            if not _is_western(row.decode(encoding)):
                raise OtherScriptError(number, row)
    return encoding


def read_chunks(file: BinaryIO) -> Iterator[bytes]:
    """Return the bytes of a file from its start, at most 1 MiB at once."""
    file.seek(0)
    while chunk := file.read(MIB):
        yield chunk


def explain_damage(file: BinaryIO, encoding: str) -> str:
    """Return why a text is not in an encoding, and what its line has in those that it is in.

    Args:
        file: The text, which can be read again from the start.
        encoding: Encoding that does not decode it.
    """
    place, row = _find_damage(file, encoding)
    names = [name for name in _USUAL if name != encoding and _decodes(file, name)]
    found = {name: _show_letters(row.decode(name, "replace")) for name in names}
    readings = [f"in {name} it has {text!r}" for name, text in found.items() if text.isprintable()]
    shown = "UTF-8" if encoding in ("utf-8", "utf-8-sig") else encoding
    return "; ".join([f"is not valid {shown} ({place})", *readings])


def _find_damage(file: BinaryIO, encoding: str) -> tuple[str, bytes]:
    """Return the place of the first bytes that an encoding cannot decode, and their line."""
    decoder, num_lines = codecs.getincrementaldecoder(encoding)(), 1
    try:
        for chunk in read_chunks(file):
            num_lines += decoder.decode(chunk).count("\n")
        decoder.decode(b"", True)
    except UnicodeDecodeError as error:
        content, start = error.object, error.start
        num_lines += content[:start].decode(encoding, "ignore").count("\n")
        begin, end = content.rfind(b"\n", 0, start) + 1, content.find(b"\n", start)
        found = " ".join(f"0x{byte:02x}" for byte in content[start : error.end])
        row = content[begin : end if end >= 0 else len(content)]
        what = "byte" if error.end - start == 1 else "bytes"
        return f"line {num_lines} has the {what} {found}", row
    except UnicodeError as error:
        return str(error), next(read_chunks(file), b"").partition(b"\n")[0]
    return "", b""


def _show_letters(text: str) -> str:
    """Return a line from its first letter that is not ASCII on."""
    text = " ".join(text.split())
    begin = next((place for place, letter in enumerate(text) if not letter.isascii()), 0)
    return text[begin : begin + _SHOWN]


def _refuse_other_scripts(file: BinaryIO) -> None:
    line = 1
    file.seek(0)
    for row in iter(lambda: file.readline(MIB), b""):
        if any(len(set(found)) >= _FEWEST_KINDS for found in _LETTERS.findall(row)):
            raise OtherScriptError(line, row)
        line += row.endswith(b"\n")


def _decodes(file: BinaryIO, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in read_chunks(file):
            decoder.decode(chunk)
        decoder.decode(b"", True)
    except UnicodeError:
        return False
    return True


def _is_western(text: str) -> bool:
    """Return whether all characters are ASCII, or letters in words that have ASCII letters.

    Quotes and dashes do not count as letters, because their bytes begin characters of Shift_JIS.
    """
    is_plain = _WORDS.sub("", text).isascii()
    return is_plain and not any(_ASCII.isdisjoint(word) for word in _WORDS.findall(text))


def _read_in_all(row: bytes) -> Iterator[str]:
    """Yield what a line has from its first letter that is not ASCII, in each usual encoding."""
    for name in _NAMED:
        try:
            shown = _show_letters(row.decode(read_encoding(name)))
        except UnicodeDecodeError:
            continue
        if shown.isprintable():
            yield f"in {name} it has {shown!r}"
