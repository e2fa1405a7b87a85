"""Decodes texts and tables for predictions as the service decodes those for training."""

import io

from redkiln.cells.encoding import (
    EXAMPLES,
    ONE_BYTE,
    OtherScriptError,
    explain_damage,
    find_encoding,
    find_encoding_of_names,
    is_unicode,
    read_encoding,
)
from redkiln.errors import ModelError


class Decoder:
    """Decodes the files of one prediction.

    Args:
        encoding: Encoding of the files; None to find it.
        usual: Encoding of files that are not Unicode, if they are valid in it, such as that of the
            training table; None or otherwise: Windows-1252. Both are noted.

    Attributes:
        notes: Notes on encodings that were guessed.

    Raises:
        ModelError: There is no such encoding.
    """

    def __init__(self, encoding: str | None = None, *, usual: str | None = None) -> None:
        try:
            self._encoding = None if encoding is None else read_encoding(encoding)
        except ValueError as error:
            raise ModelError(f"--encoding: {error}.") from None
        self._usual = usual
        self.notes: list[str] = []

    def decode(self, name: str, content: bytes, *, has_names: bool = False) -> str:
        """Return a file's text, and add a note if its encoding was guessed.

        Args:
            name: Name of the file for messages.
            content: Its bytes.
            has_names: Whether the text consists of short names, such as labels.

        Raises:
            ModelError: The text is not in its encoding, or is neither Unicode nor Western European.
        """
        encoding = self._encoding
        if encoding is None and (text := self._decode_as_usual(name, content)) is not None:
            return text
        try:
            if encoding is None and has_names:
                encoding = find_encoding_of_names(content)
            encoding = encoding or find_encoding(io.BytesIO(content))
            text = content.decode(encoding)
        except OtherScriptError as error:
            raise ModelError(
                f"{name} {error}. Name its encoding, such as --encoding {EXAMPLES}; or save it as "
                "UTF-8."
            ) from None
        except UnicodeError:
            assert encoding is not None
            raise ModelError(
                f"{name} {explain_damage(io.BytesIO(content), encoding)}. Save it as UTF-8, or "
                f"name its encoding, such as --encoding cp1252 (Western European), {EXAMPLES}."
            ) from None
        if self._encoding is None and encoding in ONE_BYTE:
            self.notes.append(f"{name} is not UTF-8; it was read as {encoding}.")
        return text

    def _decode_as_usual(self, name: str, content: bytes) -> str | None:
        """Return the text in the usual encoding; None if it is Unicode or not valid in it."""
        if self._usual is None or is_unicode(content):
            return None
        try:
            text = content.decode(read_encoding(self._usual))
        except ValueError:
            return None
        like = f"it was read as {self._usual}, like the training table"
        self.notes.append(f"{name} is not UTF-8; {like}.")
        return text
