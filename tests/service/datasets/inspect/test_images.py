import io
import struct
import warnings
import zlib

import pytest
from PIL import Image

from redkiln.datasets import IMAGE_FORMATS
from service.datasets.inspect.images import BadImage, ImageFacts, prepare_decoder, probe_image
from service.datasets.inspect.limits import Limits

LIMITS = Limits(max_pixels=1_000_000)


@pytest.fixture(autouse=True)
def decoder():
    before = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        prepare_decoder(LIMITS)
        yield
    Image.MAX_IMAGE_PIXELS = before


@pytest.mark.parametrize("kind", IMAGE_FORMATS)
@pytest.mark.parametrize("size", [(1, 1), (28, 28), (640, 480)])
def test_images_of_all_formats_are_accepted(make, kind, size):
    mode = "P" if kind == "GIF" else "RGB"
    assert probe_image(make.encode(size, kind=kind), limits=LIMITS) == ImageFacts(*size, mode)


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate", "jpeg", "group4"])
def test_compressed_tiffs_are_accepted(compression):
    buffer = io.BytesIO()
    mode = "1" if compression == "group4" else "RGB"
    Image.new(mode, (30, 20)).save(buffer, "TIFF", compression=compression)
    assert probe_image(buffer.getvalue(), limits=LIMITS) == ImageFacts(30, 20, mode)


@pytest.mark.parametrize(("mode", "what"), [("F", "floating-point pixels"), ("LAB", "pixels in L")])
def test_a_tiff_whose_pixels_have_no_clear_meaning_is_refused(make, mode, what):
    with pytest.raises(BadImage, match=f"has {what}.*; convert it to RGB or grey with 8 bits"):
        probe_image(make.encode(mode=mode, kind="TIFF"), limits=LIMITS)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_the_mode_is_reported(make, mode):
    assert probe_image(make.encode(mode=mode), limits=LIMITS).mode == mode


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello", "is not a JPEG, PNG, WebP, GIF, BMP or TIFF image"),
        (b"%PDF-1.7", "is a PDF file; convert it to JPEG, PNG, WebP, GIF, BMP or TIFF"),
        (
            b"\0\0\0\x18ftypheic",
            "is a HEIC file; convert it to JPEG, PNG, WebP, GIF, BMP or TIFF",
        ),
    ],
)
def test_other_formats_are_named(content, message):
    with pytest.raises(BadImage) as bad:
        probe_image(content, limits=LIMITS)
    assert (bad.value.code, bad.value.message) == ("not_an_image", message)


@pytest.mark.parametrize("kind", IMAGE_FORMATS)
def test_a_truncated_image_is_refused_wherever_it_is_cut(kind):
    noise = Image.effect_noise((300, 300), 60).convert("RGB")
    buffer = io.BytesIO()
    noise.save(buffer, kind)
    content = buffer.getvalue()
    for share in (0.01, 0.3, 0.6, 0.9):
        with pytest.raises(BadImage):
            probe_image(content[: int(len(content) * share)], limits=LIMITS)


def png_of(size, content):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0))
    data = b"" if content is None else chunk(b"IDAT", content)
    return b"\x89PNG\r\n\x1a\n" + header + data + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    "content",
    [
        png_of((0, 0), zlib.compress(b"")),
        png_of((4, 0), zlib.compress(b"")),
        png_of((4, 4), None),
        png_of((4, 4), b""),
        png_of((4, 4), zlib.compress(b"")),
    ],
    ids=["no size", "no height", "no data", "empty data", "data of no pixel"],
)
def test_an_image_without_pixels_is_refused(content):
    with pytest.raises(BadImage, match=r"^cannot be decoded: [^<]+$") as bad:
        probe_image(content, limits=LIMITS)
    assert bad.value.code == "bad_image"


def test_a_jpeg_without_a_size_is_refused(make):
    content = bytearray(make.encode((16, 16), kind="JPEG"))
    start = content.find(b"\xff\xc0")  # of the frame, which names height and width
    content[start + 5 : start + 9] = bytes(4)
    with pytest.raises(BadImage, match="has no valid size"):
        probe_image(bytes(content), limits=LIMITS)


def test_the_decoder_tries_only_the_accepted_formats(make):
    # The magic of a PNG before something else entirely.
    with pytest.raises(BadImage, match="cannot be decoded"):
        probe_image(b"\x89PNG\r\n\x1a\n" + make.encode(kind="PPM"), limits=LIMITS)


@pytest.mark.parametrize("size", [(1001, 1000), (60_000, 60_000), (1_000_000, 4)])
def test_an_image_of_too_many_pixels_is_an_error_before_it_is_decoded(make, size):
    with pytest.raises(BadImage, match="more than 1000000 pixels") as bad:
        probe_image(make.png_with_header(*size), limits=LIMITS)
    assert bad.value.code == "image_bomb"


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF"])
def test_the_limit_of_pixels_applies_to_every_format(make, kind):
    content = make.encode((1001, 1000), mode="1", kind=kind)
    with pytest.raises(BadImage, match="more than 1000000 pixels") as bad:
        probe_image(content, limits=LIMITS)
    assert bad.value.code == "image_bomb"
