"""The same annotated pictures in each format."""

from tests.integration.dense.scanned_digits import CLASSES, SCAN_SIDE, WRITERS, draw_pages
from tests.service.datasets.inspect.boxes.made import boxes


def test_each_format_gives_the_same_boxes(check):
    pages, digits = draw_pages(9)
    wanted = {
        name: [
            (CLASSES[one.label], (one.left, one.top, one.left + SCAN_SIDE, one.top + SCAN_SIDE))
            for one in found
        ]
        for name, found in digits.items()
    }
    for annotation_format, write in WRITERS.items():
        images, annotations = write(digits)
        files = {images.format(name): page for name, page in pages.items()} | annotations
        index, _ = check(files)
        assert index.annotation_format == annotation_format
        found = {
            path.rpartition("/")[2].removesuffix(".png"): [
                (name, tuple(round(side, 6) for side in corners)) for name, corners in listed
            ]
            for path, listed in boxes(index).items()
        }
        assert found == wanted, annotation_format
