"""Photos become the same pixels in the browser as in `redkiln predict`, but for a few levels."""

import base64
import io
import re
import struct
import zlib

import numpy as np
import pytest
from PIL import ExifTags, Image
from playwright.sync_api import expect

from native.page import PAGE
from redkiln.predict.pixels import PixelFormat, to_pixels
from tests.page.made import make_model
from tests.redkiln.predict.models import COLOURS, SIDE, save_colours
from tests.waiting import wait_for

WIDTH, HEIGHT = 331, 254  # neither is a multiple of a JPEG's blocks
WHOLE = (328, 248)
"""Multiples of a JPEG's blocks, as cameras make them."""
SMALL, LARGE = 28, 64
PREPARE = """
async ([address, orders]) => {
  const worker = new Worker(address, { type: 'module' })
  const found = []
  for (const [content, size, resize, channels] of orders) {
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0))
    const order = { source: new Blob([bytes]), size, resize, channels, shownSide: 64 }
    const reply = await new Promise((resolve, reject) => {
      worker.onmessage = (event) => resolve(event.data)
      worker.onerror = (event) => reject(new Error(event.message))
      worker.postMessage(order)
    })
    if (reply.fault) throw new Error(reply.fault)
    found.push(Array.from(reply.prepared.input, (value) => Math.round(value * 255)))
  }
  worker.terminate()
  return found
}
"""
"""Have the page's worker prepare pictures; the levels of each input."""
WATCH = """
  window.addresses = new Set()
  const { createObjectURL, revokeObjectURL } = URL
  URL.createObjectURL = (thing) => {
    const address = createObjectURL.call(URL, thing)
    window.addresses.add(address)
    return address
  }
  URL.revokeObjectURL = (address) => {
    window.addresses.delete(address)
    revokeObjectURL.call(URL, address)
  }
  window.createImageBitmap = () => { throw new Error('decoded in the main thread') }
  OffscreenCanvasRenderingContext2D.prototype.getImageData = window.createImageBitmap
"""
"""Counts the addresses of pictures, and forbids the main thread to decode one."""


def scene():
    """Smooth colours, sharp edges and some noise, as a photo has them."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    planes = [128 + 100 * np.sin(x / 17), 128 + 100 * np.cos(y / 23), (x + y) * 255 / (x + y).max()]
    pixels = np.stack(planes, axis=-1)
    pixels[60:120, 90:200] = (250, 30, 20)
    pixels[::16, :, :] = 20
    pixels += np.random.default_rng(0).normal(scale=6, size=pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def encode(image, kind, **options):
    content = io.BytesIO()
    image.save(content, kind, **options)
    return content.getvalue()


def turned(number):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = number
    return exif


def see_through(image):
    """The image with an alpha channel that grows from left to right."""
    alpha = np.broadcast_to(np.linspace(0, 255, WIDTH).astype(np.uint8), (HEIGHT, WIDTH))
    image.putalpha(Image.fromarray(alpha))
    return image


def deep_png(pixels):
    """A PNG with 16 bits for each channel, which Pillow cannot write in colour."""

    def chunk(name, data):
        rest = name + data
        return struct.pack(">I", len(data)) + rest + struct.pack(">I", zlib.crc32(rest))

    rows = (np.asarray(pixels).astype(">u2") * 256 + 90).astype(">u2")
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    kind = 2 if rows.ndim == 3 else 0
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, kind, 0, 0, 0)
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(lines)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.fixture(scope="module")
def photos():
    colour = scene()
    whole = colour.resize(WHOLE)
    grey, palette = colour.convert("L"), colour.quantize(64)
    sparse = see_through(colour.copy()).quantize(64)
    return {
        "JPEG": encode(colour, "JPEG", quality=85),
        "JPEG with all colours": encode(colour, "JPEG", quality=92, subsampling=0),
        "progressive JPEG": encode(colour, "JPEG", quality=85, progressive=True),
        "JPEG on its side": encode(whole, "JPEG", quality=90, exif=turned(6)),
        "mirrored JPEG": encode(whole, "JPEG", quality=90, exif=turned(7)),
        "grey JPEG": encode(grey, "JPEG", quality=85),
        "CMYK JPEG": encode(colour.convert("CMYK"), "JPEG", quality=92),
        "PNG": encode(colour, "PNG"),
        "PNG on its side": encode(colour, "PNG", exif=turned(8)),
        "PNG with alpha": encode(see_through(colour.copy()), "PNG"),
        "grey PNG with alpha": encode(see_through(grey.copy()), "PNG"),
        "palette": encode(palette, "PNG"),
        "palette with alpha": encode(sparse, "PNG"),
        "1-bit PNG": encode(colour.convert("1"), "PNG"),
        "16-bit grey PNG": deep_png(grey),
        "16-bit PNG": deep_png(colour),
        "WebP": encode(colour, "WEBP", quality=85),
        "WebP with alpha": encode(see_through(colour.copy()), "WEBP", lossless=True),
        "GIF": encode(palette, "GIF"),
        "BMP": encode(colour, "BMP"),
    }


HOW = [(SMALL, "crop", 1), (SMALL, "crop", 3), (LARGE, "pad", 3)]


def test_photos_are_prepared_as_redkiln_predict_prepares_them(open_page, photos):
    """A JPEG that Pillow reduces while it decodes it differs most, where its colours change."""
    orders = [(name, how) for name in photos for how in HOW if how != HOW[0] or "JPEG" in name]
    (worker,) = (PAGE / "dist/assets").glob("photos.worker-*.js")
    sent = [[base64.b64encode(photos[name]).decode(), *how] for name, how in orders]
    found = open_page("/try").evaluate(PREPARE, [f"/assets/{worker.name}", sent])
    far = {}
    for (name, how), levels in zip(orders, found, strict=True):
        size, resize, channels = how
        form = PixelFormat(size=size, channels=channels, resize=resize)
        expected = to_pixels(Image.open(io.BytesIO(photos[name])), form).transpose(2, 0, 1)
        difference = np.abs(np.ravel(expected).astype(int) - levels)
        is_reduced = "JPEG" in name and size == SMALL
        if difference.max() > (8 if is_reduced else 1) or difference.mean() > 1:
            far[name, how] = (difference.max(), difference.mean())
    assert not far


@pytest.fixture
def colours_page(site, gpu_worker, open_page, tmp_path):
    """Try it, with a model that knows the brightest channel, in a page that is watched."""
    facts = {"input": "images", "output": "logits", "channel_order": "RGB", "size": SIDE,
             "resize": "stretch"}  # fmt: skip
    manifest = {"task": "image-classification", "classes": COLOURS, "preprocessing": facts}
    path = save_colours(tmp_path, manifest={**manifest, "model": {}})
    files = [("model.onnx", "model", path.read_bytes()),
             ("manifest.json", "manifest", (tmp_path / "manifest.json").read_bytes())]  # fmt: skip
    job_id = make_model(site, gpu_worker, files)
    page = open_page("/")
    page.add_init_script(WATCH)
    page.goto(f"/try/{job_id}")
    return page


def photo(name, content):
    return {"name": name, "mimeType": "image/png", "buffer": content}


def test_a_large_photo_is_decoded_outside_the_main_thread(colours_page):
    content = encode(Image.new("RGB", (4000, 3000), (250, 10, 10)), "JPEG")
    colours_page.get_by_label("Pictures").set_input_files([photo("large.jpg", content)])
    answer = colours_page.get_by_role("list", name="Answers").get_by_role("listitem").first
    expect(answer.get_by_role("progressbar").first).to_have_attribute("aria-label", "red")
    colours_page.get_by_label("Pictures").set_input_files([photo("scan.tiff", b"II*\0")])
    expect(colours_page.get_by_text("scan.tiff: this browser cannot read it")).to_be_visible()


def test_pictures_that_are_no_longer_shown_give_their_memory_back(colours_page):
    content = encode(Image.new("RGB", (9, 9), (10, 250, 10)), "PNG")
    names = [f"{number}.png" for number in range(26)]
    files = [photo(name, content) for name in names]
    colours_page.get_by_label("Pictures").set_input_files(files)
    expect(colours_page.get_by_role("img", name=names[-1])).to_be_visible()
    assert colours_page.evaluate("window.addresses.size") == 24
    colours_page.get_by_role("link", name="Home", exact=True).click()
    expect(colours_page.get_by_role("list", name="Answers")).to_be_hidden()
    assert colours_page.evaluate("window.addresses.size") == 0


def test_the_camera_is_a_source_of_pictures(open_page, colours_page):
    """Chromium plays a camera; `colours_page` only brings its model here."""
    page = open_page(colours_page.url)
    page.get_by_role("button", name="Camera").click()
    video = page.locator("video")
    wait_for(lambda: video.evaluate("(video) => video.videoWidth") > 0)
    page.get_by_role("button", name="What is this?").click()
    answer = page.get_by_role("list", name="Answers").get_by_role("listitem")
    expect(answer.get_by_role("img", name="camera")).to_be_visible()
    page.get_by_role("button", name="Close the camera").click()
    expect(page.get_by_text("Drop pictures here")).to_be_visible()


def test_without_a_gpu_the_page_says_so(colours_page):
    colours_page.evaluate("navigator.gpu.requestAdapter = async () => null")
    option = colours_page.get_by_label("Use WebGPU too")
    option.click()
    expect(colours_page.get_by_text("This browser finds no GPU for WebGPU")).to_be_visible()
    expect(option).not_to_be_checked()


FAKE_GPU = """
const create = async () => ({
  inputMetadata: [],
  run: async ({ images: { data } }) => ({
    logits: { data: Float32Array.of(data[0] * 8 + 0.25, 0, 0) },
  }),
  release: async () => undefined,
})
class Tensor { constructor(type, data, dims) { Object.assign(this, { type, data, dims }) } }
export const runtime = { provider: 'webgpu', Tensor, InferenceSession: { create } }
"""


def test_webgpu_is_compared_with_webassembly_on_the_same_input(colours_page):
    """CI has no GPU: in the place of ONNX Runtime's program is one that is wrong by 0.25."""
    colours_page.evaluate("navigator.gpu.requestAdapter = async () => ({})")
    colours_page.route(
        "**/assets/gpu-*.js",
        lambda route: route.fulfill(body=FAKE_GPU, content_type="text/javascript"),
    )
    colours_page.get_by_label("Use WebGPU too").click()
    expect(colours_page.get_by_text("Each input now runs on both.")).to_be_visible()
    content = encode(Image.new("RGB", (9, 9), (255, 0, 0)), "PNG")
    colours_page.get_by_label("Pictures").set_input_files([photo("red.png", content)])
    answer = colours_page.get_by_role("list", name="Answers").get_by_role("listitem").first
    expect(answer).to_contain_text(re.compile(r"WebGPU: \d+\.\d ms, largest difference 2\.5e-1"))
