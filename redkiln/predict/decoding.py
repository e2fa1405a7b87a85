"""Decodes texts and tables for predictions as the service decodes those for training."""

import io

from redkiln.cells.encoding import ONE_BYTE, OtherScriptError, find_encoding
from redkiln.errors import ModelError


def decode(name: str, content: bytes, *, notes: list[str]) -> str:
    """Return a file's text, and add a note if its encoding was guessed.

    Args:
        name: Name of the file for messages.
        content: Its bytes.
        notes: Notes for the user.

    Raises:
        ModelError: The text is neither Unicode nor Western European.
    """
    try:
        encoding = find_encoding(io.BytesIO(content))
        text = content.decode(encoding)
    except OtherScriptError as error:
        raise ModelError(f"{name} {error}. Save it as UTF-8 and try again.") from None
    except UnicodeError as error:
        raise ModelError(f"{name} is damaged ({error}). Save it as UTF-8 and try again.") from None
    if encoding in ONE_BYTE:
        notes.append(f"{name} is not UTF-8; it was read as {encoding}.")
    return text
