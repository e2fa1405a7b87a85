"""Finds places for the labels of boxes, so that no label covers another one.

All lengths are in pixels; a place is the left upper corner of a label.
"""

from collections.abc import Iterator, Sequence

Box = tuple[float, float, float, float]
Size = tuple[float, float]
Place = tuple[float, float]


def place_labels(boxes: Sequence[Box], sizes: Sequence[Size], picture: Size) -> list[Place]:
    """Return a place inside the picture for the label of each box.

    The first boxes choose first: above the box, below it, inside of it at the top or the bottom,
    then the free place that is nearest to its corner. In a picture without a free place, a label
    covers others.

    Args:
        boxes: Left, top, right and bottom of each box.
        sizes: Width and height of each label.
        picture: Width and height of the picture.
    """
    taken: list[Box] = []
    places: list[Place] = []
    for box, size in zip(boxes, sizes, strict=True):
        x, y = _find_place(box, size, picture, taken)
        places.append((x, y))
        taken.append((x, y, x + size[0], y + size[1]))
    return places


def _find_place(box: Box, size: Size, picture: Size, taken: Sequence[Box]) -> Place:
    for x, y in _list_near(box, size):
        place = (max(0.0, min(x, picture[0] - size[0])), y)
        if _is_free(place, size, picture, taken):
            return place
    inside = (max(0.0, min(box[0], picture[0] - size[0])), max(0.0, box[1]))
    nearest = sorted(
        set(_list_beside(size, taken)),
        key=lambda one: (abs(one[0] - box[0]) + abs(one[1] - box[1]), one),
    )
    return next((one for one in nearest if _is_free(one, size, picture, taken)), inside)


def _list_near(box: Box, size: Size) -> Iterator[Place]:
    """Yield the usual places, first along the left side of the box, then along its right side."""
    left, top, right, bottom = box
    for x in (left, right - size[0]):
        yield from ((x, top - size[1]), (x, bottom), (x, top), (x, bottom - size[1]))


def _list_beside(size: Size, taken: Sequence[Box]) -> Iterator[Place]:
    """Yield the four places next to each label that is there."""
    for left, top, right, bottom in taken:
        yield from ((left, bottom), (left, top - size[1]), (right, top), (left - size[0], top))


def _is_free(place: Place, size: Size, picture: Size, taken: Sequence[Box]) -> bool:
    left, top = place
    right, bottom = left + size[0], top + size[1]
    if left < 0 or top < 0 or right > picture[0] or bottom > picture[1]:
        return False
    return not any(
        left < other[2] and other[0] < right and top < other[3] and other[1] < bottom
        for other in taken
    )
