"""From files to a model that answers in the browser, with real training."""

import io
import json
import re
import zipfile
from pathlib import Path

import httpx
import numpy as np
import onnxruntime
import pytest
from PIL import Image
from playwright.sync_api import expect
from sklearn.datasets import load_digits

from tests.integration.conftest import start_site

DRAW = "three"
VARIANTS = ["fp16", "int8-dynamic", "int8-static"]
NAMES = {0: "zero", 3: DRAW}
LONGEST_MS = 280_000
"""For a whole training on a busy machine."""
MNIST = Path(__file__).parents[3] / "shared/data/mnist-12k.zip"


@pytest.fixture(scope="module")
def site(built_page, tmp_path_factory):
    """A stack that really trains; the other tests of the page use fakes."""
    yield from start_site(tmp_path_factory)


def encode(pixels, kind):
    """A digit of 8x8 pixels from 0 to 16 in a format; `deep` is a PNG with 16 bits."""
    content = io.BytesIO()
    if kind == "deep":
        Image.fromarray((pixels * 3840).astype(np.uint16)).save(content, "PNG")
    else:
        Image.fromarray((pixels * 15).astype(np.uint8)).save(content, kind, **KINDS[kind])
    return content.getvalue()


KINDS = {"PNG": {}, "GIF": {}, "BMP": {}, "TIFF": {}, "WEBP": {"lossless": True}}


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A folder with pictures of two digits in odd formats, and one more picture to try."""
    found = load_digits()
    folder = tmp_path_factory.mktemp("dropped") / "digits"
    kinds = [*KINDS, "deep"]
    for label, name in NAMES.items():
        (folder / name).mkdir(parents=True)
        for i, pixels in enumerate(found.images[found.target == label][:60]):
            kind = kinds[i % len(kinds)]
            ending = "png" if kind == "deep" else kind.lower()
            (folder / name / f"{i}.{ending}").write_bytes(encode(pixels, kind))
    return folder, encode(found.images[found.target == 3][60], "WEBP")


def drop_folder(page, folder):
    """Drop a folder of this machine on the page, as a person does with the mouse."""
    field = page.get_by_text("Drop a folder of images", exact=False).first
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    data = {"items": [], "files": [str(folder)], "dragOperationsMask": 1}
    place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    session = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "data": data, **place})


def test_a_dropped_folder_becomes_a_model_that_answers_in_the_browser(site, open_page, digits):
    folder, unseen = digits
    page = open_page("/new")
    drop_folder(page, folder)
    expect(page.get_by_label("Or use a data set")).to_have_value("digits")
    expect(page.get_by_title(DRAW, exact=True)).to_be_visible()
    page.get_by_label("model", exact=True).fill("mnist-cnn")
    page.get_by_label("epochs", exact=True).fill("many")
    page.get_by_label("batch size", exact=True).fill("16")
    page.get_by_text("All fields").click()
    page.get_by_label("variants", exact=True).fill(json.dumps(VARIANTS))
    page.keyboard.press("Tab")
    editor = page.get_by_label("Spec as YAML")
    expect(editor).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_text(re.compile(r"^Line \d: "))).to_be_visible()
    editor.locator(".cm-line").filter(has_text="many").click()
    for key in ("End", *["Backspace"] * len("many"), "8"):
        page.keyboard.press(key)
    expect(page.get_by_label("epochs", exact=True)).to_have_value("8")
    page.get_by_role("button", name="Start the job").click()

    expect(page.get_by_text("succeeded", exact=True).first).to_be_visible(timeout=LONGEST_MS)
    page.get_by_role("tab", name="Results").click()
    by_class = page.get_by_role("row").filter(has=page.get_by_role("cell", name=DRAW, exact=True))
    expect(by_class.first).to_be_visible()
    page.get_by_role("link", name="Try the model").click()
    expect(page.get_by_text("Drop pictures here")).to_be_visible()
    photo = {"name": "unseen.webp", "mimeType": "image/webp", "buffer": unseen}
    page.get_by_label("Pictures").set_input_files(photo)
    best = page.get_by_role("list", name="Answers").get_by_role("progressbar").first
    expect(best).to_have_attribute("aria-label", DRAW)

    page.get_by_role("button", name="Compare with the trained model").click()
    verdict = page.get_by_text("Largest difference from the trained model")
    expect(verdict).to_be_visible()
    in_browser = float(re.search(r"(\S+)$", verdict.inner_text())[1])
    assert in_browser + difference_of_onnxruntime(site) <= 1e-4

    answers = page.get_by_role("list", name="Answers").get_by_role("listitem")
    for number, variant in enumerate(VARIANTS, start=2):
        page.get_by_label("Variant of the model").select_option(f"model-{variant}.onnx")
        expect(page.get_by_text("Drop pictures here")).to_be_visible()
        page.get_by_label("Pictures").set_input_files(photo)
        expect(answers).to_have_count(number)
        expect(best).to_have_attribute("aria-label", DRAW)


@pytest.mark.timeout(900)
def test_mnist_is_dropped_learned_and_recognised_although_the_service_restarts(site, open_page):
    if not MNIST.exists():
        pytest.skip(f"{MNIST} is not there")
    with zipfile.ZipFile(MNIST) as archive:
        unseen = archive.read([n for n in archive.namelist() if n.startswith("test/7/")][-1])
    page = open_page("/new")
    page.get_by_label("Archive or table").set_input_files(MNIST)
    expect(page.get_by_label("Or use a data set")).to_have_value("mnist-12k", timeout=LONGEST_MS)
    page.get_by_label("model", exact=True).fill("mnist-cnn")
    page.get_by_label("epochs", exact=True).fill("1")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Start the job").click()
    loss = page.get_by_role("figure").filter(has_text="Loss").get_by_role("img")
    expect(loss).to_be_visible(timeout=LONGEST_MS)
    site.stack.service.kill()
    notice = page.get_by_text("The service does not answer.")
    expect(notice).to_be_visible()
    site.stack.service.restart()
    site.stack.wait_for_service()
    expect(notice).not_to_be_visible()
    expect(page.get_by_text("succeeded", exact=True).first).to_be_visible(timeout=LONGEST_MS)
    page.get_by_role("link", name="Try the model").click()
    photo = {"name": "unseen.png", "mimeType": "image/png", "buffer": unseen}
    page.get_by_label("Pictures").set_input_files(photo)
    best = page.get_by_role("list", name="Answers").get_by_role("progressbar").first
    expect(best).to_have_attribute("aria-label", "7")


def read(site, artifact_id):
    answer = httpx.get(f"{site.stack.url}/v1/artifacts/{artifact_id}/content")
    answer.raise_for_status()
    return answer.content


def difference_of_onnxruntime(site):
    """The largest difference of this process's ONNX Runtime from PyTorch on the same samples."""
    job = next(job for job in site.client.jobs() if job.dataset_name == "digits")
    content = {item.name: item.id for item in site.client.artifacts(job.id)}
    files = {name: read(site, content[name]) for name in ("model.onnx", "parity.npz")}
    session = onnxruntime.InferenceSession(files["model.onnx"], providers=["CPUExecutionProvider"])
    with np.load(io.BytesIO(files["parity.npz"]), allow_pickle=False) as parity:
        images = parity["images"].transpose(0, 3, 1, 2).astype(np.float32) / 255
        (logits,) = session.run(None, {"images": images})
        return float(np.abs(logits - parity["logits"]).max())
