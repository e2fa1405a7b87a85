"""Images as inputs: decoded and resized as for training.

Shapes: B batch, C channels, S side in pixels.
"""

import io
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from redkiln.datasets import IMAGE_FORMATS, name_unreadable
from redkiln.errors import ModelError
from redkiln.predict.items import STDIN, Arrays, InputError, Item, NoInputError, expand
from redkiln.predict.pixels import PixelFormat, explain_unreadable, to_pixels

SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"))
INPUT = "images"
MAX_PIXELS = 100_000_000
"""As in validation of data sets: a larger image is refused instead of filling the memory."""


def feed_pixels(pixels: NDArray[np.uint8]) -> Arrays:
    """Turn (B, S, S, C) uint8 into the model's input, (B, C, S, S) float32 in [0, 1]."""
    block = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).astype(np.float32)
    block /= np.float32(255)
    return {INPUT: block}


class ImagePreparation:
    """Reads images from files, folders, patterns and stdin."""

    noun = "images"
    is_costly = True

    def __init__(self, preprocessing: dict[str, Any]) -> None:
        self._format = PixelFormat(
            size=preprocessing["size"],
            channels=1 if preprocessing["channel_order"] == "grey" else 3,
            resize=preprocessing["resize"],
        )

    @property
    def notes(self) -> list[str]:
        """Return no notes."""
        return []

    def forget(self) -> None:
        """Do nothing, because nothing is noted about images."""

    def find(self, argument: str, *, stdin: BinaryIO) -> Iterator[Item]:
        """Return one item for each image.

        Stdin is one image, or a list of paths, one a line.
        """
        if argument == STDIN:
            yield from self._find_in_stdin(stdin)
            return
        paths = expand(argument)
        if not paths:
            raise NoInputError(argument, "matches no file")
        for path in paths:
            if path.is_dir():
                yield from self._find_in_folder(path)
            elif path.exists():
                yield self.item(path)
            else:
                raise NoInputError(f"File or folder {path}", "does not exist")

    def find_row(self, values: Mapping[str, Any], *, name: str) -> Item:
        """Refuse a row."""
        raise ModelError(
            f"{name} has the columns {', '.join(values)}, but the model reads images. Give it "
            "their paths."
        )

    def feed(self, samples: list[Any]) -> Arrays:
        """Return (S, S, C) uint8 images as the model's input."""
        return feed_pixels(np.stack(samples))

    def _find_in_folder(self, folder: Path) -> Iterator[Item]:
        found = [
            path
            for path in sorted(folder.rglob("*"))
            if not _is_hidden(path.relative_to(folder)) and _is_image(path)
        ]
        if not found:
            raise NoInputError(str(folder), f"contains no images ({', '.join(IMAGE_FORMATS)})")
        yield from map(self.item, found)

    def _find_in_stdin(self, stdin: BinaryIO) -> Iterator[Item]:
        content = stdin.read()
        try:
            with Image.open(io.BytesIO(content), formats=IMAGE_FORMATS):
                pass
        except UnidentifiedImageError:
            lines = _decode_paths(content)
            yield from (self.item(Path(line)) for line in lines)
        else:
            yield Item("stdin", partial(self._read, content))

    def item(self, path: Path) -> Item:
        """Return the image in a file."""
        return Item(str(path), partial(self._read, path))

    def _finish(self, image: Image.Image) -> Any:
        return to_pixels(image, self._format)

    def _read(self, source: Path | bytes) -> Any:
        try:
            content = source if isinstance(source, bytes) else source.read_bytes()
        except OSError as error:
            raise InputError(error.strerror or str(error)) from error
        try:
            with Image.open(io.BytesIO(content), formats=IMAGE_FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise InputError(
                        f"{image.width} x {image.height} pixels are more than {MAX_PIXELS:,}"
                    )
                if reason := explain_unreadable(image):
                    raise InputError(reason)
                return self._finish(image)
        except UnidentifiedImageError as error:
            raise InputError(name_unreadable(content)) from error
        except OSError as error:
            raise InputError(error.strerror or str(error)) from error
        except (ValueError, SyntaxError, Image.DecompressionBombError) as error:
            # Pillow raises SyntaxError for some broken PNGs.
            raise InputError(str(error)) from error


def _is_hidden(path: Path) -> bool:
    """Return whether a file in a folder is hidden, or in a hidden folder, as in data sets."""
    return any(part.startswith(".") for part in path.parts)


def _is_image(path: Path) -> bool:
    """Return whether a file is an image by its name, or else by its content, as in training."""
    if not path.is_file():
        return False
    if path.suffix.lower() in SUFFIXES:
        return True
    try:
        with Image.open(path, formats=IMAGE_FORMATS):
            return True
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return False


def _decode_paths(content: bytes) -> list[str]:
    try:
        lines = [line.strip() for line in content.decode().splitlines()]
    except UnicodeDecodeError as error:
        formats = ", ".join(IMAGE_FORMATS)
        raise ModelError(
            f"Standard input is neither an image ({formats}) nor a list of paths."
        ) from error
    return [line for line in lines if line]
