"""Small pictures of a data set's images."""

import io

import numpy as np
import pytest
from PIL import Image

from redkiln.predict.pixels import PixelFormat, to_pixels
from service.datasets.inspect.tiles import draw


def encode(image, kind):
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


DEEP = np.arange(100, dtype=np.uint16).reshape(10, 10) * 600
CLEAR = Image.new("RGBA", (10, 10), (250, 200, 150, 0))
CLEAR.paste((10, 20, 30, 255), (0, 0, 5, 10))


@pytest.mark.parametrize(
    "content",
    [
        encode(Image.fromarray(DEEP), "PNG"),
        encode(Image.fromarray(DEEP.astype(">u2")), "TIFF"),
        encode(CLEAR, "PNG"),
        encode(Image.new("CMYK", (10, 10), (200, 100, 0, 50)), "TIFF"),
    ],
)
def test_a_tile_shows_what_the_model_sees(content):
    tile = np.asarray(draw(content, side=10))
    with Image.open(io.BytesIO(content)) as image:
        seen = to_pixels(image, PixelFormat(size=10, channels=3, resize="stretch"))
    assert np.array_equal(tile, seen)
