"""Segmentation from a folder of images and masks to the mask of a photo, as a user does it."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from examples.detection.make_shapes import draw_images, write_masks
from redkiln.predict.model import Model
from redkiln.predict.verify import verify
from redkiln.views.evaluation import EvaluationFile
from tests.redkiln.predict.labelled.scored import score_test_split

pytestmark = pytest.mark.integration
SPEC = {
    "dataset": "masked",
    "model": {"name": "unet-nano"},
    "training": {"epochs": 6, "batch_size": 8, "precision": "fp32", "ema": 0.9},
}


def test_images_with_masks_become_a_verified_segmenter(real_site, tmp_path):
    write_masks(tmp_path / "masked", draw_images(40, size=64))
    dataset = real_site.client.push_dataset(tmp_path / "masked", wait=True)
    assert (dataset.status, dataset.task) == ("ready", "semantic-segmentation")
    assert dataset.classes == ["background", "circle", "square", "triangle"]
    job = real_site.wait_for_success(real_site.client.submit(SPEC).id, seconds=300)
    assert job.result.verdict == "verified"
    assert job.result.headline == "test/miou_onnx"

    out = tmp_path / "out"
    real_site.client.download_all(job.id, out)
    evaluation = EvaluationFile.model_validate_json((out / "evaluation.json").read_text())
    assert evaluation.has_masks
    assert verify(out / "model.onnx", threads=1).verified
    found = score_test_split(real_site.client, dataset.id, out)
    assert (found.metric_name, found.skipped) == ("miou", [])
    assert found.metric == pytest.approx(found.recorded, abs=0.002)
    photo = tmp_path / "photo.png"
    with Image.open(next((tmp_path / "masked" / "images").iterdir())) as square:
        square.resize((150, 90)).save(photo)
    (found,) = Model(out / "model.onnx", threads=1).predict([photo])
    assert found.mask.shape == (90, 150)
    (artifact,) = [item for item in real_site.client.artifacts(job.id) if item.kind == "model"]
    answer = real_site.client.predict(artifact.id, photo.read_bytes()).predictions[0]
    assert [(one.class_name, one.share) for one in answer.pixels] == found.scores
    with Image.open(io.BytesIO(base64.b64decode(answer.mask.png))) as mask:
        np.testing.assert_array_equal(np.asarray(mask), found.mask)
