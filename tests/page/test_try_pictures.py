"""Models of pictures in the browser answer as `redkiln predict` does: classes, boxes, masks."""

import io
import json
import re
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from PIL import Image
from playwright.sync_api import expect

from redkiln.predict.model import Model
from redkiln.predict.pixels import PixelFormat
from tests.page.axe import find_violations
from tests.page.made import expect_parity, make_model
from tests.redkiln.predict.models import COLOURS, SIDE, save_colours, save_detector
from tests.worker.tasks.object_detection.conftest import make_job, write_shapes
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.image_classification.embedded import EmbeddedPhotos
from worker.tasks.train import run_job

KINDS = {"model.onnx": "model", "manifest.json": "manifest"}
PLAIN = {"mosaic": 0, "crop": 0, "scale": 0, "translate": 0}
DETECTOR = {
    "classes": ["sun", "moon"],
    "detection": {"most_boxes": 100, "threshold": 0.1},
    "preprocessing": {
        "input": "images",
        "outputs": ["boxes", "scores", "labels"],
        "channel_order": "RGB",
        "size": SIDE,
        "resize": "pad",
    },
}


def test_a_model_that_prepares_photos_itself_answers_like_redkiln_predict(
    site, open_page, gpu_worker, tmp_path
):
    folder = tmp_path / "model"
    path = save_colours(folder)
    facts = {"input": "photos", "output": "logits", "channel_order": "RGB", "size": SIDE,
             "resize": "stretch", "interface": "embedded", "dtype": "uint8"}  # fmt: skip
    form = PixelFormat(size=SIDE, channels=3, resize="stretch")
    EmbeddedPhotos(form, "logits", 3, False, np.zeros((1, SIDE, SIDE, 3), np.uint8)).apply(path)
    manifest = {"task": "image-classification", "classes": COLOURS, "preprocessing": facts}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "model": {}}))
    photo = tmp_path / "photo.png"
    pixels = np.random.default_rng(0).integers(0, 256, (9, 13, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(photo)
    samples = pixels[:SIDE, :SIDE][np.newaxis]
    content = io.BytesIO()
    (logits,) = onnxruntime.InferenceSession(path).run(["logits"], {"photos": samples})
    np.savez(content, images=samples, logits=logits)
    kinds = {"model.onnx": "model", "manifest.json": "manifest"}
    files = [(name, kind, (folder / name).read_bytes()) for name, kind in kinds.items()]
    files.append(("parity.npz", "parity", content.getvalue()))
    page = open_page(f"/try/{make_model(site, gpu_worker, files)}")
    page.get_by_label("Pictures").set_input_files(photo)
    answer = page.get_by_role("list", name="Answers").get_by_role("listitem").first
    (expected,) = Model(path).predict([photo])
    for _, share in expected.scores:
        expect(answer).to_contain_text(f"{100 * share:.0f}.")
    expect_parity(page)
    broken = [{"name": f"{name}.png", "mimeType": "image/png", "buffer": b"x"} for name in "ab"]
    page.get_by_label("Pictures").set_input_files(broken)
    for name in ("a.png: ", "b.png: "):
        expect(page.get_by_role("alert").get_by_text(name)).to_be_visible()


@pytest.mark.parametrize("size", [(60, 31), (24, 24)])
def test_objects_are_drawn_into_the_picture(site, open_page, gpu_worker, tmp_path, size):
    path = save_detector(
        tmp_path, threshold=0.1, manifest={"task": "object-detection", "model": {}, **DETECTOR}
    )
    pixels = np.full((3, SIDE, SIDE, 3), 200, np.uint8)
    feed = {"images": pixels.transpose(0, 3, 1, 2).astype(np.float32) / 255}
    outputs = onnxruntime.InferenceSession(path).run(None, feed)
    content = io.BytesIO()
    named = dict(zip(("boxes", "scores", "labels"), outputs, strict=True))
    np.savez(content, images=pixels, objects=np.zeros((3, 1, 5)), **named)
    files = [(name, kind, (tmp_path / name).read_bytes()) for name, kind in KINDS.items()]
    job_id = make_model(site, gpu_worker, [*files, ("parity.npz", "parity", content.getvalue())])
    photo = tmp_path / "photo.png"
    Image.new("RGB", size, (200, 210, 220)).save(photo)
    (expected,) = Model(path).predict([photo])
    page = open_page(f"/try/{job_id}")
    page.get_by_label("Pictures").set_input_files(photo)
    answer = page.get_by_role("list", name="Answers").get_by_role("listitem").first
    expect(answer.get_by_role("img", name="photo.png with 1 boxes")).to_be_visible()
    expect(answer.get_by_role("list", name="Objects")).to_contain_text(
        f"moon {100 * expected.boxes[0].score:.1f} %"
    )
    drawn = answer.locator("rect")
    ends = [float(drawn.get_attribute(name)) for name in ("x", "y", "width", "height")]
    left, top, right, bottom = expected.boxes[0].box
    assert ends == pytest.approx([left, top, right - left, bottom - top], abs=1e-3)
    expect_parity(page)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    return write_shapes(tmp_path_factory.mktemp("shapes"))


@pytest.fixture(scope="module")
def exported(shapes, tmp_path_factory):
    """The folder with the files of a short job."""
    folder = tmp_path_factory.mktemp("detector")
    job_dir = make_job(
        folder / "job",
        dataset=shapes,
        cache_dir=folder / "cache",
        training={"epochs": 5, "batch_size": 4, "ema": 0.9, "augment": PLAIN},
    )
    # A rehearsal would be another export, in a new process.
    with patch("worker.trainer.run.is_rehearsed", return_value=True):
        assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    return Path(job_dir.out_dir)


def test_an_exported_detector_finds_the_boxes_of_redkiln_predict(
    site, open_page, gpu_worker, shapes, exported
):
    photos = sorted(Path(shapes.path).glob("*.png"))[-4:]
    expected = list(Model(exported / "model.onnx").predict(photos))
    assert any(each.boxes for each in expected)
    files = [
        (name, kind, (exported / name).read_bytes())
        for name, kind in {**KINDS, "parity.npz": "parity"}.items()
    ]
    page = open_page(f"/try/{make_model(site, gpu_worker, files)}")
    page.get_by_label("Pictures").set_input_files(photos)
    answers = page.get_by_role("list", name="Answers")
    for photo, found in zip(photos, expected, strict=True):
        name = f"{photo.name} with {len(found.boxes)} boxes"
        answer = answers.get_by_role("listitem").filter(has=page.get_by_role("img", name=name))
        expect(answer).to_be_visible()
        drawn = [
            [float(rect.get_attribute(name)) for name in ("x", "y", "width", "height")]
            for rect in answer.locator("rect").all()
        ]
        boxes = [
            [x, y, right - x, bottom - y] for x, y, right, bottom in (b.box for b in found.boxes)
        ]
        assert sorted(drawn) == [pytest.approx(box, abs=0.05) for box in sorted(boxes)]
    expect_parity(page)


def test_the_pixels_of_objects_are_coloured_as_redkiln_predict_finds_them(
    site, open_page, gpu_worker, tmp_path
):
    mask = np.zeros((4, 4), np.uint8)
    mask[1:3, 1:] = [[255, 140, 0], [255, 255, 120]]
    task, facts = "instance-segmentation", {**DETECTOR["preprocessing"], "mask_side": 4}
    described = {**DETECTOR, "task": task, "preprocessing": facts, "model": {}}
    path = save_detector(tmp_path, threshold=0.1, mask=mask, manifest=described)
    files = [(name, kind, (tmp_path / name).read_bytes()) for name, kind in KINDS.items()]
    photo = tmp_path / "photo.png"
    Image.new("RGB", (60, 31), (200, 210, 220)).save(photo)
    (expected,) = Model(path).predict([photo])
    page = open_page(f"/try/{make_model(site, gpu_worker, files)}")
    page.get_by_label("Pictures").set_input_files(photo)
    drawn = page.get_by_role("img", name="photo.png with 1 boxes")
    expect(drawn).to_be_visible()
    pixels = np.array(drawn.locator("image").evaluate(ALL_PIXELS), np.uint8).reshape(31, 60, 4)
    is_coloured = (pixels[..., :3] != (200, 210, 220)).any(axis=2)
    np.testing.assert_array_equal(is_coloured, expected.boxes[0].mask == 1)
    assert 0.1 < is_coloured.mean() < 0.9
    assert not find_violations(page, "boxes with masks")


def test_masks_colour_the_picture_and_list_the_share_of_each_class(
    site, open_page, gpu_worker, tmp_path
):
    nodes = [
        helper.make_node("ArgMax", ["images"], ["largest"], axis=1, keepdims=0),
        helper.make_node("Cast", ["largest"], ["classes"], to=TensorProto.UINT8),
    ]
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])
    masks = helper.make_tensor_value_info("classes", TensorProto.UINT8, ["n", SIDE, SIDE])
    graph = helper.make_graph(nodes, "g", [images], [masks])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    facts = {"input": "images", "output": "classes", "channel_order": "RGB", "size": SIDE,
             "resize": "pad"}  # fmt: skip
    manifest = {"task": "semantic-segmentation", "classes": COLOURS, "model": {},
                "segmentation": {"ignored": 255}, "preprocessing": facts}  # fmt: skip
    files = [("model.onnx", "model", model.SerializeToString()),
             ("manifest.json", "manifest", json.dumps(manifest).encode())]  # fmt: skip
    page = open_page(f"/try/{make_model(site, gpu_worker, files)}")
    photo = Image.new("RGB", (40, 20), (250, 0, 0))
    photo.paste((0, 0, 250), (30, 0, 40, 20))
    photo.save(tmp_path / "photo.png")
    page.get_by_label("Pictures").set_input_files(tmp_path / "photo.png")
    answer = page.get_by_role("list", name="Answers").get_by_role("listitem").first
    expect(answer).to_contain_text(re.compile(r"red\s*75.0 %\s*blue\s*25.0 %"))
    picture = answer.get_by_role("img", name="photo.png")
    left, right = (picture.evaluate(PIXEL_AT, x) for x in (10, 35))
    assert left == [250, 0, 0], "the first class is the background and keeps its colours"
    assert right != [0, 0, 250], "the mask of another class has its colour"
    assert not find_violations(page, "a mask of classes")


PIXEL_AT = """
(image, x) => {
  const context = new OffscreenCanvas(image.naturalWidth, image.naturalHeight).getContext('2d')
  context.drawImage(image, 0, 0)
  return Array.from(context.getImageData(x, 10, 1, 1).data.slice(0, 3))
}
"""

ALL_PIXELS = """
async (image) => {
  const copy = Object.assign(new Image(), { src: image.href.baseVal })
  await copy.decode()
  const { naturalWidth: width, naturalHeight: height } = copy
  const context = new OffscreenCanvas(width, height).getContext('2d')
  context.drawImage(copy, 0, 0)
  return Array.from(context.getImageData(0, 0, width, height).data)
}
"""
