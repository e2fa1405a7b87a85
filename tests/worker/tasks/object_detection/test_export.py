"""A trained detector becomes a verified file that returns boxes."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from redkiln.predict.boxes.joined import join_outputs, list_found, list_truth
from redkiln.predict.boxes.matching import find_agreement
from redkiln.views.evaluation import EvaluationFile
from tests.worker.job_dirs import load_arrays
from tests.worker.tasks.object_detection.conftest import make_job
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

VARIANTS = ["fp16", "int8-dynamic", "int8-static"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory, shapes, cache_dir):
    """A short training with all variants; tests only read its files."""
    job_dir = make_job(
        tmp_path_factory.mktemp("detector") / "job",
        dataset=shapes,
        cache_dir=cache_dir,
        training={"epochs": 30, "augment": {"mosaic": 0}},
        export={"variants": VARIANTS},
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    return job_dir


def test_all_files_are_published_and_verified(exported, events):
    names = [output.name for output in exported.load_outputs()]
    assert {"model.onnx", "parity.npz", "precision.png", "evaluation.json", "report.html"} <= set(
        names
    )
    assert "calibration.png" not in names
    result = events(exported, "result")[-1]["data"]
    assert result["verified"] is True
    assert {"test/map", "test/map50", "test/map75", "test/map_onnx"} <= set(result["metrics"])
    assert result["comparison"]["metric"] == "test/map50"
    manifest = json.loads((exported.out_dir / "manifest.json").read_text())
    assert [one["name"] for one in manifest["variants"]] == ["fp32", *VARIANTS]
    assert all(one["file"] for one in manifest["variants"]), manifest["variants"]
    verification = manifest["verification"]
    assert verification["relative"] < 1e-3
    assert verification["agreement"] >= 0.99
    assert manifest["detection"]["most_boxes"] == 100
    assert "x_input" in manifest["preprocessing"]["letterbox"]
    assert [each["name"] for each in manifest["model"]["outputs"]] == ["boxes", "scores", "labels"]


def test_the_file_has_a_default_threshold_and_batches_of_any_size(exported):
    session = onnxruntime.InferenceSession(exported.out_dir / "model.onnx")
    assert [each.name for each in session.get_inputs()] == ["images"]
    detection = json.loads(session.get_modelmeta().custom_metadata_map["detection"])
    images = np.random.default_rng(0).random((3, 3, 64, 64), dtype=np.float32)
    for num in (1, 3):
        boxes, scores, labels = session.run(None, {"images": images[:num]})
        assert (boxes.shape, scores.shape) == ((num, 100, 4), (num, 100))
        assert labels.dtype == np.int64
        assert ((scores == 0) == (labels == -1)).all()
        assert (scores[scores > 0] >= detection["threshold"]).all()
    _, every, _ = session.run(None, {"images": images, "threshold": np.zeros(1, np.float32)})
    assert (every > 0).sum() > (session.run(None, {"images": images})[1] > 0).sum()


def test_saved_samples_repeat_the_comparison(exported):
    saved = load_arrays(exported.out_dir / "parity.npz")
    session = onnxruntime.InferenceSession(exported.out_dir / "model.onnx")
    feed = {
        "images": saved["images"].transpose(0, 3, 1, 2).astype(np.float32) / 255,
        "threshold": np.array([0.001], np.float32),
    }
    ours = join_outputs(session.run(None, feed))
    torchs = join_outputs([saved[name] for name in ("boxes", "scores", "labels")])
    assert find_agreement(ours, torchs) >= 0.99
    assert len(list_truth(saved["objects"])) == len(list_found(ours))


def test_the_evaluation_lists_the_worst_images_with_their_boxes(exported, shapes):
    content = EvaluationFile.model_validate_json((exported.out_dir / "evaluation.json").read_text())
    index = json.loads(Path(shapes.index_path).read_text())
    assert content.has_boxes
    assert [one.name for one in content.per_class] == index["classes"]
    objects = [box for image in index["splits"]["test"] for box in image["boxes"]]
    assert sum(one.num for one in content.per_class) == len(objects)
    assert all(0 <= one.average_precision <= one.average_precision_50 for one in content.per_class)
    assert content.num_mistakes == content.num_listed == len(content.mistakes)
    assert content.tiles is not None
    assert "![precision and recall](precision.png)" in (exported.out_dir / "report.md").read_text()
