"""From files to a model that answers in the browser, with real training."""

import io
import json
import re
import zipfile

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


@pytest.fixture(scope="module")
def site(built_page, tmp_path_factory):
    """A stack that really trains; the other tests of the page use fakes."""
    yield from start_site(tmp_path_factory)


def picture(pixels):
    content = io.BytesIO()
    Image.fromarray((pixels * 15).astype(np.uint8)).save(content, "PNG")
    return content.getvalue()


@pytest.fixture(scope="module")
def digits():
    """Pictures of two digits, as a zip file with one folder a class, and one more to try."""
    found = load_digits()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for label, name in NAMES.items():
            for i, pixels in enumerate(found.images[found.target == label][:60]):
                archive.writestr(f"{name}/{i}.png", picture(pixels))
    return content.getvalue(), picture(found.images[found.target == 3][60])


def test_a_file_becomes_a_model_that_answers_in_the_browser(site, open_page, digits):
    archive, unseen = digits
    page = open_page("/new")
    file = {"name": "digits.zip", "mimeType": "application/zip", "buffer": archive}
    page.get_by_label("Archive or table").set_input_files(file)
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

    expect(page.get_by_text("succeeded", exact=True).first).to_be_visible(timeout=120_000)
    page.get_by_role("tab", name="Results").click()
    by_class = page.get_by_role("row").filter(has=page.get_by_role("cell", name=DRAW, exact=True))
    expect(by_class.first).to_be_visible()
    page.get_by_role("link", name="Try the model").click()
    expect(page.get_by_text("Drop pictures here")).to_be_visible()
    photo = {"name": "unseen.png", "mimeType": "image/png", "buffer": unseen}
    page.get_by_label("Pictures").set_input_files(photo)
    best = page.get_by_role("list", name="Answers").get_by_role("progressbar").first
    expect(best).to_have_attribute("aria-label", DRAW)

    page.get_by_role("button", name="Compare with PyTorch").click()
    verdict = page.get_by_text("Largest difference from PyTorch")
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


def read(site, artifact_id):
    answer = httpx.get(f"{site.stack.url}/v1/artifacts/{artifact_id}/content")
    answer.raise_for_status()
    return answer.content


def difference_of_onnxruntime(site):
    """The largest difference of this process's ONNX Runtime from PyTorch on the same samples."""
    (job,) = site.client.jobs()
    content = {item.name: item.id for item in site.client.artifacts(job.id)}
    files = {name: read(site, content[name]) for name in ("model.onnx", "parity.npz")}
    session = onnxruntime.InferenceSession(files["model.onnx"], providers=["CPUExecutionProvider"])
    with np.load(io.BytesIO(files["parity.npz"]), allow_pickle=False) as parity:
        images = parity["images"].transpose(0, 3, 1, 2).astype(np.float32) / 255
        (logits,) = session.run(None, {"images": images})
        return float(np.abs(logits - parity["logits"]).max())
