"""Using a model: its registered versions, and the example for browsers, examples/use/index.html."""

import functools
import http.server
import json
import shutil
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image
from playwright.sync_api import expect

from redkiln.predict.model import Model
from redkiln.predict.pixels import PixelFormat
from tests.page.made import make_model
from tests.redkiln.predict.models import COLOURS, SIDE, save_colours
from worker.tasks.image_classification.embedded import EmbeddedPhotos

ROOT = Path(__file__).parents[2]
LIBRARY = Path("node_modules", "onnxruntime-web", "dist")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder without a log."""

    extensions_map = {  # noqa: RUF012 - as in the base class
        ".html": "text/html",
        ".mjs": "text/javascript",
        ".json": "application/json",
        ".wasm": "application/wasm",
    }

    def log_message(self, *_arguments):
        """Write nothing."""


@pytest.fixture
def served(tmp_path, built_page):
    """A folder with the example and its library, and its address."""
    folder = tmp_path / "served"
    (folder / LIBRARY).parent.mkdir(parents=True)
    (folder / LIBRARY).symlink_to(ROOT / "page" / LIBRARY)
    for name in ("index.html", "predict.mjs"):
        shutil.copyfile(ROOT / "examples" / "use" / name, folder / name)
    handler = functools.partial(Handler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def photos(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 41, 4), np.uint8)
    pixels[:, :20, 0] //= 4
    Image.fromarray(pixels).save(tmp_path / "clear.png")
    Image.fromarray(pixels[..., :3].transpose(1, 0, 2)).save(tmp_path / "tall.png")
    return [tmp_path / "clear.png", tmp_path / "tall.png"]


def describe(model, facts):
    """Write the facts into a model's metadata and its manifest."""
    file = onnx.load(model)
    known = {"task": "image-classification", "classes": json.dumps(COLOURS)}
    onnx.helper.set_model_props(file, known | {"preprocessing": json.dumps(facts)})
    onnx.save(file, model)
    manifest = {"classes": COLOURS, "preprocessing": facts, "files": {}}
    (model.parent / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("form", ["stretch", "crop", "pad", "embedded"])
def test_the_example_for_browsers_sorts_photos(browser, served, photos, form):
    folder, url = served
    resize = "stretch" if form == "embedded" else form
    facts = {
        "input": "images", "output": "logits", "channel_order": "RGB", "size": SIDE,
        "resize": resize,
    }  # fmt: skip
    model = save_colours(folder)
    if form == "embedded":
        pixels = np.zeros((1, SIDE, SIDE, 3), np.uint8)
        facts |= {"interface": "embedded", "input": "photos"}
        square = PixelFormat(size=SIDE, channels=3, resize="stretch")
        EmbeddedPhotos(square, "logits", 3, False, pixels).apply(model)
    describe(model, facts)
    page = browser.new_page()
    page.goto(url)
    expect(page.get_by_label("Photos")).to_be_enabled()
    page.get_by_label("Photos").set_input_files(photos)
    expect(page.get_by_role("listitem")).to_have_count(len(photos))
    for line, answer in zip(
        page.get_by_role("listitem").all_inner_texts(),
        Model(model, threads=1).predict(photos, top=1),
        strict=True,
    ):
        _, name, score = line.split()
        assert name == answer.answer
        assert float(score) == pytest.approx(answer.scores[0][1], abs=2e-3)
    page.close()


def test_an_alias_moves_to_another_version(site, made_job, open_page):
    for aliases in (("production",), ()):
        site.client.register_model("moving", made_job, aliases=aliases)
    page = open_page("/models")
    page.get_by_role("link", name="moving", exact=True).click()
    rows = page.locator("tbody tr")
    expect(rows.nth(1)).to_contain_text("production")
    expect(rows.nth(0).get_by_role("link", name="made")).to_have_attribute(
        "href", f"/jobs/{made_job}"
    )
    rows.nth(0).get_by_role("button", name="Make it production").click()
    expect(rows.nth(0)).to_contain_text("production")
    expect(rows.nth(1).get_by_role("button", name="Make it production")).to_be_visible()
    assert site.client.model_version("moving", "production").version == 2


def test_a_version_has_the_headline_of_its_job(site, gpu_worker, open_page):
    comparison = {"metric": "test/macro_f1", "value": 0.5625, "interval": [0.4, 0.7],
                  "baselines": [], "best": "linear model", "verdict": "equal",
                  "beats_constant": True, "num_different": 0, "num_test": 26}  # fmt: skip
    job = make_model(
        site, gpu_worker, [("model.onnx", "model", b"onnx"), ("manifest.json", "manifest", b"{}")],
        metrics={"test/accuracy": 0.875, "test/macro_f1": 0.5625}, comparison=comparison,
    )  # fmt: skip
    site.client.register_model("rare", job)
    page = open_page("/models/rare")
    expect(page.locator("tbody tr").first).to_contain_text("macro F1 56.3 %")
    page.goto("/models")
    expect(page.get_by_text("redkiln models register NAME JOB")).to_be_visible()
