"""Reads a mask that is a picture: the value of each pixel is the label of its class."""

import io
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from redkiln.annotations import IGNORED, MASK_FOLDER, MASK_NAMES
from service.datasets.inspect.boxes.text import BadText, read_bytes, read_text
from service.datasets.inspect.images import BadImage, probe_image
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.report import refuse, show
from service.datasets.inspect.source import Source

MODES = ("L", "P", "1")


def read_mask(
    source: Source, entry: Entry, *, num_classes: int, limits: Limits
) -> NDArray[np.uint8]:
    """Return the mask in a file, (H, W).

    Raises:
        BadText: It is not a picture with one byte a pixel, or has a value that is not a class.
    """
    content = read_bytes(source, entry, max_bytes=limits.max_file_bytes, limits=limits)
    if not content.startswith(b"\x89PNG\r\n\x1a\n"):
        raise BadText("is not a PNG, whatever its name says; save the mask as PNG", entry.path)
    try:
        facts = probe_image(content, limits=replace(limits))
    except BadImage as bad:
        raise BadText(bad.message, entry.path) from None
    if facts.mode not in MODES:
        message = (
            f"has pixels of the mode {facts.mode}; save masks with one byte a pixel (8-bit grey or "
            "palette), whose value is the number of the class"
        )
        raise BadText(message, entry.path)
    with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
        mask = np.asarray(image).astype(np.uint8)
    _check_values(mask, num_classes, entry.path)
    return mask


def _check_values(mask: NDArray[np.uint8], num_classes: int, path: str) -> None:
    values = np.flatnonzero(np.bincount(mask.reshape(-1), minlength=256))
    beyond = values[(values >= num_classes) & (values != IGNORED)]
    if len(beyond):
        listed = ", ".join(map(str, beyond[:5].tolist()))
        message = (
            f"has the value {listed}, but {MASK_NAMES} names {num_classes} classes, from 0 to "
            f"{num_classes - 1}; add names, or use {IGNORED} for pixels to ignore"
        )
        raise BadText(message, path)
    if values.tolist() == [0, IGNORED] and num_classes == 2:
        message = (
            f"has only the values 0 and {IGNORED}, and {IGNORED} is ignored; write 1 for the "
            "second class"
        )
        raise BadText(message, path)


def read_names(source: Source, entry: Entry | None, *, limits: Limits) -> list[str]:
    """Return the names of the classes, one a line, by the values of the pixels from 0 on.

    Raises:
        Refused: The file is missing, or is not such a list.
    """
    if entry is None:
        message = (
            f"is missing; next to the folder {MASK_FOLDER}, put a file {MASK_NAMES} with the name "
            "of each class on a line: the first line names the value 0"
        )
        raise refuse("no_class_names", message, MASK_NAMES)
    try:
        lines = read_text(source, entry, limits=limits).splitlines()
    except BadText as bad:
        raise refuse("bad_class_names", bad.message, bad.place) from None
    names = [line.strip() for line in lines]
    while names and not names[-1]:
        names.pop()
    if len(names) > IGNORED:
        message = f"names {len(names)} classes, but 8-bit masks can only have {IGNORED}"
        raise refuse("number_of_classes", message, entry.path)
    for number, name in enumerate(names, 1):
        place = f"{entry.path}, line {number}"
        if not name:
            raise refuse("bad_class_names", "is empty; name the class of this value", place)
        if name in names[: number - 1]:
            raise refuse("duplicate_class", f"names {show(name)} a second time", place)
    return names
