"""Object detection from a folder of annotated images to boxes in a photo, as a user does it."""

import json

import pytest
from PIL import Image

from redkiln.predict.model import Model
from redkiln.predict.verify import verify
from tests.integration.dense.scanned_digits import CLASSES, WRITERS, write_set
from tests.redkiln.predict.labelled.scored import score_test_split

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("annotation_format", WRITERS)
def test_annotated_images_become_a_verified_detector(real_site, tmp_path, annotation_format):
    client, folder = real_site.client, tmp_path / annotation_format
    num_digits = write_set(folder, annotation_format, num=30)
    dataset = client.push_dataset(folder, wait=True)
    assert (dataset.status, dataset.task) == ("ready", "object-detection")
    assert dataset.objects.annotation_format == annotation_format
    by_split = dataset.objects.boxes.values()
    assert sum(sum(by_class.values()) for by_class in by_split) == num_digits
    training = {"epochs": 2, "batch_size": 8, "precision": "fp32", "ema": 0.9}
    spec = {"dataset": dataset.name, "model": {"name": "dense-nano"}, "training": training}
    job = real_site.wait_for_success(client.submit(spec).id, seconds=300)
    assert (job.result.verdict, job.result.headline) == ("verified", "test/map_onnx")

    client.download_all(job.id, tmp_path / "out")
    evaluation = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert evaluation["has_boxes"]
    assert verify(tmp_path / "out" / "model.onnx", threads=1).verified
    found = score_test_split(client, dataset.id, tmp_path / "out")
    assert (found.metric_name, found.skipped) == ("map", [])
    assert found.metric == pytest.approx(found.recorded, abs=0.002)
    photo = tmp_path / "photo.png"
    with Image.open(next(folder.rglob("*.png"))) as square:
        square.resize((150, 90)).save(photo)
    model = Model(tmp_path / "out" / "model.onnx", threads=1)
    model.threshold = 0.0
    (found,) = model.predict([photo])
    assert found.boxes
    assert {one.class_name for one in found.boxes} <= set(CLASSES)
    assert all(0 <= one.box[0] < one.box[2] <= 150 for one in found.boxes)
    (artifact,) = [item for item in client.artifacts(job.id) if item.kind == "model"]
    answer = client.predict(artifact.id, photo.read_bytes(), threshold=0.0)
    boxes = answer.predictions[0].boxes
    assert [one.class_name for one in boxes] == [one.class_name for one in found.boxes]
