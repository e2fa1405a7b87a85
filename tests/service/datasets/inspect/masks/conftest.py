import io
import os

import numpy as np
import pytest
from PIL import Image

from redkiln.annotations import parse_image_index
from redkiln.predict.masks.coding import unpack_mask
from service.datasets.inspect.__main__ import inspect
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.order import Order
from service.datasets.inspect.report import INDEX, InspectionReport, Refused
from tests.service.datasets.inspect.boxes.made import zipped


@pytest.fixture
def check(tmp_path):
    """Inspects files by name; returns the index, if they are valid, and the report."""

    def check(files, **options):
        path = tmp_path / "upload"
        path.write_bytes(zipped(files))
        order = Order(
            kind="archive",
            path=str(path),
            parent_pid=os.getpid(),
            limits=Limits(),
            options=options,
        )
        try:
            report = inspect(order, work_dir=tmp_path)
        except Refused as refused:
            return None, InspectionReport(errors=refused.problems)
        if report.errors:
            return None, report
        assert report.task == options.get("task", "semantic-segmentation")
        return parse_image_index((tmp_path / INDEX).read_bytes()), report

    return check


def png(values, *, mode="L"):
    """A mask as a PNG file."""
    image = Image.fromarray(np.asarray(values, dtype=np.uint8))
    if mode == "P":
        image.putpalette(list(range(256)) * 3)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def masks_of(index):
    """The mask of each image by its path."""
    images = [image for split in index.splits.values() for image in split]
    return {image.path: unpack_mask(image.mask, image.mask_size) for image in images}
