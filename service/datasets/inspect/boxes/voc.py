"""Reads Pascal VOC: an XML file for each image, and lists of images for the splits."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from service.datasets.inspect.boxes.files import ImageFiles, stem_of
from service.datasets.inspect.boxes.splits import find_split
from service.datasets.inspect.boxes.text import (
    MAX_SMALL_BYTES,
    BadText,
    read_bytes,
    read_text,
    split_lines,
)
from service.datasets.inspect.boxes.written import (
    Corners,
    Written,
    WrittenBox,
    WrittenImage,
    read_size,
)
from service.datasets.inspect.boxes.xml_file import Element, parse_xml
from service.datasets.inspect.layout import Split
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.report import refuse, show
from service.datasets.inspect.source import Source

_SIDES = ("xmin", "ymin", "xmax", "ymax")
SPLIT_LISTS: dict[str, Split] = {
    "trainval": "train",
    "train": "train",
    "val": "validation",
    "test": "test",
}
"""Lists in `ImageSets/Main`, the weakest first: an image of `val` is in `trainval`, too."""


@dataclass
class VocFiles:
    """The files of a data set: one XML file for each image, and the lists of splits."""

    annotations: list[Entry] = field(default_factory=list)
    lists: list[Entry] = field(default_factory=list)


def read_voc(source: Source, files: VocFiles, images: ImageFiles, *, limits: Limits) -> Written:
    """Read the files of a data set; the classes are those that occur, sorted.

    Pixels are counted from 1 and the last one belongs to the box, unless a box begins at 0.

    Raises:
        Refused: There are too many boxes, or a list of a split cannot be read.
    """
    written = Written("voc", limits)
    splits = _read_splits(source, files.lists, limits=limits)
    used: set[int] = set()
    for entry in files.annotations:
        try:
            content = read_bytes(source, entry, max_bytes=MAX_SMALL_BYTES, limits=limits)
            root = parse_xml(content, entry.path)
            if root.tag != "annotation":
                raise BadText(f"begins with <{show(root.tag)}>, not <annotation>", entry.path)
        except BadText as bad:
            written.bad_images.add("bad_annotations", bad.message, bad.place)
            continue
        image = _find_image(entry, root, images, splits, used)
        if image is None:
            message = (
                "has no image, or another file annotates it already; name each file like its image"
            )
            written.bad_images.add("missing_image", message, entry.path)
            continue
        written.images.append(image)
        _read_objects(root, entry, image, written)
    written.classes = sorted({box.class_name for im in written.images for box in im.boxes})
    _count_from_one(written)
    return written


def _read_splits(source: Source, lists: Sequence[Entry], *, limits: Limits) -> dict[str, Split]:
    """Return the split of each listed image by its stem."""
    splits: dict[str, Split] = {}
    order = list(SPLIT_LISTS)
    for entry in sorted(lists, key=lambda entry: order.index(stem_of(entry))):
        try:
            text = read_text(source, entry, limits=limits)
        except BadText as bad:
            raise refuse("bad_split_list", bad.message, bad.place) from None
        splits.update({words[0]: SPLIT_LISTS[stem_of(entry)] for _, words in split_lines(text)})
    return splits


def _find_image(
    entry: Entry, root: Element, images: ImageFiles, splits: dict[str, Split], used: set[int]
) -> WrittenImage | None:
    folder, split = entry.parts[:-1], find_split(entry.parts)
    position = images.find_stem(stem_of(entry), folder=folder, split=split)
    if position is None:
        position = images.find(root.get_text("filename"), folder=folder, split=split)
    if position is None or position in used:
        return None
    used.add(position)
    own = splits.get(stem_of(entry)) if splits else find_split(images.files[position].parts)
    return WrittenImage(position, entry.path, own or (None if splits else split), _read_size(root))


def _read_size(root: Element) -> tuple[int, int] | None:
    size = root.find("size")
    if size is None:
        return None
    return read_size(_number(size.get_text("width")), _number(size.get_text("height")))


def _read_objects(root: Element, entry: Entry, image: WrittenImage, written: Written) -> None:
    for found in root.find_all("object"):
        written.count_box()
        place = f"{entry.path}, line {found.line}"
        name, box = found.get_text("name"), found.find("bndbox")
        corners = None if box is None else _read_corners(box)
        if not name:
            written.bad_boxes.add("unknown_class", "has no name", place)
        elif corners is None:
            message = f"needs a bndbox with numbers in {', '.join(_SIDES)}"
            written.bad_boxes.add("bad_box", message, place)
        else:
            is_crowd = found.get_text("difficult") == "1"
            image.boxes.append(WrittenBox(name, corners, place, is_crowd))


def _read_corners(box: Element) -> Corners | None:
    left, top, right, bottom = (_number(box.get_text(side)) for side in _SIDES)
    if left is None or top is None or right is None or bottom is None:
        return None
    return left, top, right, bottom


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _count_from_one(written: Written) -> None:
    """Move left and top by a pixel if the data set counts its pixels from 1, as VOC does."""
    boxes = [box for image in written.images for box in image.boxes]
    if not boxes or min(min(box.xyxy[:2]) for box in boxes) < 1:
        return
    for image in written.images:
        image.boxes = [
            box._replace(xyxy=(box.xyxy[0] - 1, box.xyxy[1] - 1, *box.xyxy[2:]))
            for box in image.boxes
        ]
    written.notes.append("pixels are counted from 1, as Pascal VOC does: no box begins at 0")
