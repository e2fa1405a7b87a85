"""Decodes one image file, far enough to know that it is complete."""

import io
import time
import warnings
from dataclasses import dataclass, field

from PIL import (
    BmpImagePlugin,  # noqa: F401  importing a plugin registers its format
    ExifTags,
    GifImagePlugin,  # noqa: F401
    Image,
    JpegImagePlugin,  # noqa: F401
    PngImagePlugin,  # noqa: F401
    TiffImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,  # noqa: F401
)

from redkiln.datasets import IMAGE_FORMATS, name_unreadable
from redkiln.predict.pixels import explain_unreadable
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.look import Look, take_look

_MAGIC = (
    b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"BM",
    b"II*\0", b"MM\0*", b"II+\0", b"MM\0+",
)  # fmt: skip
"""First bytes of the accepted formats other than WebP."""
_JPEG, _SCAN = b"\xff\xd8\xff", b"\xff\xda"
"""Start of a JPEG, and the marker of a scan, which never occurs inside coded data.

Source: ITU T.81, annex B."""
_TIFF_JPEGS = ("jpeg", "tiff_jpeg")
"""Pillow's names of JPEG inside TIFF, by the newer and the older specification."""
_DRAFT_PIXELS = 256 * 256
"""Larger JPEGs are decoded at down to an eighth of their size: this reads all data but computes
less."""
_DRAFT_SIDE = 32
"""Pixels that a decoded side has at least, so that the small pictures of copies are the same."""


@dataclass(frozen=True)
class ImageFacts:
    """A valid image: stored size in pixels, Pillow's mode, and how it looks.

    Attributes:
        orientation: How EXIF says to turn the stored picture, from 1 (as it is) to 8.
    """

    width: int
    height: int
    mode: str
    orientation: int = 1
    look: Look | None = field(default=None, compare=False)


class BadImage(Exception):  # noqa: N818  named after what is wrong
    """A file that cannot be used, with a code and a message."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)


def prepare_decoder(limits: Limits) -> None:
    """Make Pillow refuse images over the limits; call once per process."""
    Image.MAX_IMAGE_PIXELS = limits.max_pixels
    warnings.simplefilter("error", Image.DecompressionBombWarning)


def probe_image(data: bytes, *, limits: Limits) -> ImageFacts:
    """Decode an image file; of several frames or pages, the first one.

    Raises:
        BadImage: The file is not an image, or is truncated, damaged or too large.
    """
    if not is_supported(data):
        raise BadImage("not_an_image", name_unreadable(data))
    began_at = time.thread_time()
    try:
        with Image.open(io.BytesIO(data), formats=IMAGE_FORMATS) as image:
            width, height = image.size
            mode = image.mode
            if width * height > limits.max_pixels:
                raise _too_many_pixels(limits)
            if _decodes_too_much(data, image, limits):
                message = "has far more scans than encoders write; save it again"
                raise BadImage("image_bomb", message)
            if reason := explain_unreadable(image):
                raise BadImage("bad_image", reason)
            if image.format == "JPEG" and width * height > _DRAFT_PIXELS:
                image.draft(mode, (max(_DRAFT_SIDE, width // 8), max(_DRAFT_SIDE, height // 8)))
            image.load()
            look = take_look(image)
            orientation = _read_orientation(image)
    except BadImage:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_many_pixels(limits) from None
    except UnidentifiedImageError:
        message = "cannot be decoded: its header is damaged or has no valid size"
        raise BadImage("bad_image", message) from None
    except MemoryError:
        raise BadImage("image_bomb", "needs more memory to decode than allowed") from None
    except Exception as error:  # noqa: BLE001  a decoder may raise anything on hostile bytes
        raise BadImage("bad_image", f"cannot be decoded: {_first_line(error)}") from None
    if (seconds := time.thread_time() - began_at) > limits.max_image_seconds:
        message = f"took {seconds:.0f} s of processor time to decode; save it again"
        raise BadImage("image_bomb", message)
    return ImageFacts(width, height, mode, orientation, look)


def _read_orientation(image: Image.Image) -> int:
    """Return the orientation, which other values than 1 to 8 leave as it is."""
    found = image.getexif().get(ExifTags.Base.Orientation, 1)
    return found if found in range(1, 9) else 1


def is_supported(data: bytes) -> bool:
    """Return whether bytes start like a file of an accepted format."""
    return data.startswith(_MAGIC) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")


def _decodes_too_much(data: bytes, image: Image.Image, limits: Limits) -> bool:
    """Return whether a JPEG makes its decoder pass over its pixels too often.

    A TIFF may be a row of JPEGs, its strips or tiles, which share the pixels.
    """
    num_parts = 1
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        if image.info.get("compression") not in _TIFF_JPEGS:
            return False
        tags = image.tag_v2
        offsets = tags.get(TiffImagePlugin.STRIPOFFSETS) or tags.get(TiffImagePlugin.TILEOFFSETS)
        num_parts = max(1, len(offsets or ()))
    elif not data.startswith(_JPEG):
        return False
    num_scans = data.count(_SCAN) / num_parts
    num_pixels = num_scans * image.width * image.height
    most = min(limits.max_scanned_pixels, limits.max_scanned_ratio * len(data))
    return num_scans > limits.max_scans or num_pixels > most


def _too_many_pixels(limits: Limits) -> BadImage:
    return BadImage(
        "image_bomb", f"has more than {limits.max_pixels} pixels; make it smaller or remove it"
    )


def _first_line(error: Exception) -> str:
    text = str(error).splitlines()
    return (text[0] if text and text[0] else type(error).__name__)[:200]
