"""Object detection from a folder of annotated images to boxes in a photo, as a user does it."""

import json

import pytest
from PIL import Image

from examples.detection.make_shapes import draw_images, write_coco
from redkiln.predict.model import Model
from redkiln.predict.verify import verify

pytestmark = pytest.mark.integration
SPEC = {
    "dataset": "shapes",
    "model": {"name": "dense-nano"},
    "training": {"epochs": 8, "batch_size": 8, "precision": "fp32", "ema": 0.9},
}


def test_annotated_images_become_a_verified_detector(real_site, tmp_path):
    write_coco(tmp_path / "shapes", draw_images(40, size=64))
    dataset = real_site.client.push_dataset(tmp_path / "shapes", wait=True)
    assert (dataset.status, dataset.task) == ("ready", "object-detection")
    assert dataset.objects.annotation_format == "coco"
    job = real_site.wait_for_success(real_site.client.submit(SPEC).id, seconds=300)
    assert job.result.verdict == "verified"
    assert job.result.headline == "test/map_onnx"

    real_site.client.download_all(job.id, tmp_path / "out")
    evaluation = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert evaluation["has_boxes"]
    assert verify(tmp_path / "out" / "model.onnx", threads=1).verified
    photo = tmp_path / "photo.png"
    with Image.open(next((tmp_path / "shapes" / "images").iterdir())) as square:
        square.resize((150, 90)).save(photo)
    model = Model(tmp_path / "out" / "model.onnx", threads=1)
    model.threshold = 0.0
    (found,) = model.predict([photo])
    assert found.boxes
    assert all(0 <= one.box[0] < one.box[2] <= 150 for one in found.boxes)
    (artifact,) = [item for item in real_site.client.artifacts(job.id) if item.kind == "model"]
    answer = real_site.client.predict(artifact.id, photo.read_bytes(), threshold=0.0)
    boxes = answer.predictions[0].boxes
    assert [one.class_name for one in boxes] == [one.class_name for one in found.boxes]
