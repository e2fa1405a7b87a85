"""Object detection from a folder of annotated images to boxes in a photo, as a user does it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from redkiln.annotations import DetectionIndex
from redkiln.predict.model import Model
from redkiln.predict.verify import verify
from tests.integration.dense.scanned_digits import CLASSES, WRITERS, write_set
from tests.redkiln.predict.labelled.scored import score_test_split

pytestmark = pytest.mark.integration

TRAINED = "coco"
"""The format that goes all the way."""


def read_index(site, dataset):
    """The stored index of a data set, from which workers read it."""
    (path,) = site.stack.state_dir.glob("*.db")
    with closing(sqlite3.connect(path)) as database:
        query = "SELECT index_sha256 FROM dataset WHERE id = ?"
        ((sha256,),) = database.execute(query, (dataset.id,))
    (blob,) = site.stack.state_dir.glob(f"blobs/*/{sha256}")
    return DetectionIndex.model_validate_json(blob.read_bytes())


def describe(index):
    """The splits and classes of an index, and by split and file its rank and objects."""
    found = {
        (split, Path(image.path).name): (
            image.rank,
            [(box.label, *(round(edge, 2) for edge in box.xyxy), box.crowd) for box in image.boxes],
        )
        for split, images in index.splits.items()
        for image in images
    }
    return index.classes, found


@pytest.fixture(scope="module")
def pushed(shared_real_site, tmp_path_factory):
    """The same annotated images in each format: the folder and the data set."""
    found = {}
    for name in WRITERS:
        folder = tmp_path_factory.mktemp("sets") / name
        num_digits = write_set(folder, name, num=30)
        dataset = shared_real_site.client.push_dataset(folder, wait=True)
        assert (dataset.status, dataset.task) == ("ready", "object-detection")
        assert dataset.objects.annotation_format == name
        by_split = dataset.objects.boxes.values()
        assert sum(sum(by_class.values()) for by_class in by_split) == num_digits
        found[name] = folder, dataset
    return found


@pytest.mark.parametrize("annotation_format", [name for name in WRITERS if name != TRAINED])
def test_a_format_becomes_the_data_set_that_is_trained_on(real_site, pushed, annotation_format):
    ours, trained = (
        read_index(real_site, pushed[name][1]) for name in (annotation_format, TRAINED)
    )
    assert len(trained.splits["train"]) > len(trained.splits["test"]) > 0
    assert describe(ours) == describe(trained)


def test_annotated_images_become_a_verified_detector(real_site, pushed, tmp_path):
    client, (folder, dataset) = real_site.client, pushed[TRAINED]
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
