"""What a user does with annotated images, from a folder to an answer about a photo."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from redkiln.cli.app import build_app
from redkiln.predict.verify import verify
from redkiln.views.dataset import DatasetView
from redkiln.views.evaluation import EvaluationFile
from redkiln.views.job import JobView
from tests.redkiln.predict.labelled.scored import score_test_split

PHOTO_SIZE = (150, 90)
LOW = 0.001
"""Score of a box of a network that has learnt little."""
TRAINING = {"epochs": 2, "batch_size": 8, "precision": "fp32", "ema": 0.9, "compile": "off"}


@dataclass(frozen=True)
class Journey:
    """Where it led.

    Attributes:
        out: Folder with the job's files.
        evaluation: Mistakes of the model.
        answer: Output of `redkiln predict` about the photo, which the API answers, too.
    """

    dataset: DatasetView
    job: JobView
    out: Path
    evaluation: EvaluationFile
    answer: dict[str, Any]


def travel(site, folder, root, *, task=None, **spec):
    """Push a folder, train, download, verify the file twice, and draw its answers into a photo."""
    dataset = site.client.push_dataset(folder, task=task, wait=True)
    assert dataset.status == "ready", dataset.errors
    job = site.client.submit({"dataset": dataset.id, "training": TRAINING, **spec})
    job = site.wait_for_success(job.id, seconds=300)
    assert job.result.verdict == "verified"
    out = root / "out"
    site.client.download_all(job.id, out)
    evaluation = EvaluationFile.model_validate_json((out / "evaluation.json").read_text())
    assert verify(out / "model.onnx", threads=1).verified
    found = score_test_split(site.client, dataset.id, out)
    assert found.skipped == []
    assert job.result.headline == f"test/{found.metric_name}_onnx"
    assert found.metric == pytest.approx(found.recorded, abs=0.002)
    photo = _stretch(next(folder.glob("**/000.png")), root / "photo.png")
    options = {"threshold": LOW} if evaluation.has_boxes else {}
    answer = _predict(out / "model.onnx", photo, root / "drawn", **options)
    (artifact,) = [item for item in site.client.artifacts(job.id) if item.kind == "model"]
    (same,) = site.client.predict(artifact.id, photo.read_bytes(), **options).predictions
    assert _list_classes(same.model_dump(by_alias=True)) == _list_classes(answer)
    return Journey(dataset, job, out, evaluation, answer)


def assert_same_test_split(site, dataset, been):
    """Check that a test split has the pixels and answers on which a journey's model was scored.

    A trainer and an export read a set only through its index, so they need not run again.
    """
    found = score_test_split(site.client, dataset.id, been.out)
    assert found.skipped == []
    assert found.metric == pytest.approx(found.recorded, abs=0.002)


def _stretch(image, photo):
    with Image.open(image) as square:
        square.convert("RGB").resize(PHOTO_SIZE).save(photo)
    return photo


def _predict(model, photo, folder, **options):
    """Return what the command finds in a photo, and check that it draws that."""
    words = ["predict", model, photo, "--draw", folder, "--json"]
    words += [word for name, value in options.items() for word in (f"--{name}", value)]
    done = CliRunner().invoke(build_app(), [*map(str, words)])
    assert done.exit_code == 0, done.output
    (answer,) = json.loads(done.stdout)["predictions"]
    with Image.open(folder / photo.name) as drawn, Image.open(photo) as before:
        assert drawn.size == PHOTO_SIZE
        assert drawn.tobytes() != before.tobytes()
    return answer


def _list_classes(answer):
    """The classes that an answer names, in its order, with the shares of a mask's pixels."""
    return [
        (one["class"], one.get("share"))
        for one in answer["boxes" if answer.get("boxes") else "pixels"]
    ]
