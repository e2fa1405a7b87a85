import io

import numpy as np
import pytest
from PIL import ExifTags, Image

from redkiln.predict.pixels import PixelFormat, to_mode, to_pixels


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    buffer.seek(0)
    return Image.open(buffer)


def half_and_half(width=20, height=10):
    image = Image.new("RGB", (width, height), (255, 0, 0))
    image.paste((0, 0, 255), (0, 0, width // 2, height))
    return image


def pixels(image, *, size=10, channels=3, resize="stretch"):
    return to_pixels(image, PixelFormat(size=size, channels=channels, resize=resize))


def test_an_image_of_the_right_kind_is_left_alone():
    image = half_and_half(10, 10)
    assert np.array_equal(pixels(encoded(image)), np.asarray(image))


@pytest.mark.parametrize(
    ("resize", "left", "right", "top"),
    [
        ("stretch", (0, 0, 255), (255, 0, 0), (0, 0, 255)),
        ("crop", (0, 0, 255), (255, 0, 0), (0, 0, 255)),
        ("pad", (0, 0, 255), (255, 0, 0), (0, 0, 0)),
    ],
)
def test_each_way_of_resizing_does_what_it_says(resize, left, right, top):
    found = pixels(encoded(half_and_half()), resize=resize)
    assert found.shape == (10, 10, 3)
    assert tuple(found[5, 1]) == left
    assert tuple(found[5, 8]) == right
    assert tuple(found[0, 1]) == top


def test_a_crop_keeps_the_middle():
    image = Image.new("RGB", (40, 10), (0, 255, 0))
    image.paste((9, 9, 9), (15, 0, 25, 10))
    assert (pixels(image, resize="crop") == 9).all()


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF"])
def test_other_formats_give_the_same_pixels(kind):
    image = half_and_half(10, 10)
    assert np.array_equal(pixels(encoded(image, kind)), np.asarray(image))


@pytest.mark.parametrize("kind", ["GIF", "TIFF"])
def test_only_the_first_frame_or_page_is_read(kind):
    first, second = half_and_half(10, 10), Image.new("RGB", (10, 10), (0, 255, 0))
    both = encoded(first, kind, save_all=True, append_images=[second])
    assert both.n_frames == 2
    assert np.array_equal(pixels(both), np.asarray(first))


def test_a_tiff_is_turned_upright_once():
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 3  # upside down
    found = pixels(encoded(half_and_half(10, 10), "TIFF", exif=exif))
    assert np.array_equal(found, np.asarray(half_and_half(10, 10).rotate(180)))


def test_grey_is_one_channel():
    assert pixels(half_and_half(), channels=1).shape == (10, 10, 1)


def test_sixteen_bit_grey_keeps_its_upper_byte():
    deep = np.full((10, 10), 0x80FF, dtype=np.uint16)
    found = pixels(encoded(Image.fromarray(deep)), channels=1)
    assert (found == 0x80).all()


def test_deep_grey_of_any_byte_order_keeps_its_upper_byte():
    deep = np.full((10, 10), 0x80FF)
    for kind in ("<u2", ">u2"):
        assert (np.asarray(to_mode(Image.fromarray(deep.astype(kind)), "L")) == 0x80).all()
    wide = Image.fromarray(np.array([[-5, 0x80FF, 70_000]], np.int32))
    assert np.asarray(to_mode(wide, "L")).tolist() == [[0, 0x80, 0xFF]]


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pixels_become_black(mode):
    image = Image.new("RGBA", (10, 10), (255, 255, 255, 0))
    image.paste((255, 255, 255, 255), (0, 0, 5, 10))
    found = pixels(encoded(image.convert(mode)))
    assert (found[:, :5] == 255).all()
    assert (found[:, 5:] == 0).all()


def test_a_photo_is_turned_upright():
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    found = pixels(encoded(half_and_half(10, 10), "JPEG", exif=exif, quality=95))
    assert found[5, 1, 0] > 200
    assert found[5, 8, 2] > 200


def test_shrinking_a_large_photo_is_close_to_an_exact_resize():
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8))
    photo = encoded(small.resize((800, 800), Image.Resampling.BICUBIC), "JPEG", quality=95)
    exact = np.asarray(photo.resize((16, 16), Image.Resampling.BILINEAR), dtype=int)
    found = pixels(encoded(photo, "JPEG", quality=95), size=16).astype(int)
    assert np.abs(found - exact).mean() < 3
