"""A trained detector becomes a verified file that returns boxes."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from redkiln.predict.boxes.joined import join_outputs, list_found, list_truth
from redkiln.predict.boxes.matching import find_agreement
from redkiln.predict.model import Model
from redkiln.predict.verify import verify
from redkiln.views.evaluation import EvaluationFile
from tests.worker.job_dirs import load_arrays
from tests.worker.tasks.object_detection.conftest import make_job
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

PLAIN = {"mosaic": 0, "crop": 0, "scale": 0, "translate": 0}
VARIANTS = ["fp16", "int8-dynamic", "int8-static"]


@pytest.fixture(scope="module", autouse=True)
def blank_figures():
    """Does nothing: the figures are drawn."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory, shapes, cache_dir):
    """A short training with all variants; tests only read its files."""
    job_dir = make_job(
        tmp_path_factory.mktemp("detector") / "job",
        dataset=shapes,
        cache_dir=cache_dir,
        training={"epochs": 60, "batch_size": 4, "ema": 0.9, "augment": PLAIN},
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
    assert result["comparison"]["metric"] == "test/map"
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


def test_the_file_and_its_variants_are_verified_without_torch(exported):
    verdict = verify(exported.out_dir / "model.onnx", threads=1)
    assert verdict.verified, verdict.misses
    assert (verdict.metric_name, verdict.framework) == ("map", "torch")
    assert all(way.difference.agreement >= 0.99 for way in verdict.ways.values())
    half = verify(exported.out_dir / "model-fp16.onnx", threads=1)
    assert half.limits.tolerance is None
    assert half.num_samples == len(load_arrays(exported.out_dir / "parity.npz")["objects"])


def test_a_file_with_moved_boxes_is_not_verified(exported, tmp_path):
    for name in ("model.onnx", "parity.npz"):
        shutil.copy(exported.out_dir / name, tmp_path)
    model = onnx.load(tmp_path / "model.onnx")
    (points,) = (one for one in model.graph.initializer if one.name.endswith("points"))
    moved = onnx.numpy_helper.to_array(points) + np.float32(6)
    points.CopyFrom(onnx.numpy_helper.from_array(moved, points.name))
    onnx.save(model, tmp_path / "model.onnx")
    verdict = verify(tmp_path / "model.onnx", threads=1)
    assert not verdict.verified
    assert any("of the boxes equal torch's" in miss for miss in verdict.misses)
    assert any("mean average precision" in miss for miss in verdict.misses)


def test_the_code_in_the_report_finds_the_same_boxes_in_any_image(
    exported, shapes, tmp_path, monkeypatch, capsys
):
    text = (exported.out_dir / "report.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    photo = tmp_path / "wide.png"
    with Image.open(Path(shapes.path) / "0.png") as square:
        square.resize((190, 110)).save(photo)
    monkeypatch.chdir(exported.out_dir)
    monkeypatch.setattr(sys, "argv", ["predict.py", str(photo)])
    scope = {"__name__": "__main__"}
    exec(code, scope)
    assert capsys.readouterr().out.startswith(str(photo))
    model = Model(exported.out_dir / "model.onnx", threads=1)
    model.threshold = 0.02
    (one,) = model.predict([photo])
    found = [
        (name, np.clip(box, 0, [190, 110, 190, 110]))
        for name, _, box in scope["detect"](photo, 0.02)
    ]
    inside = [(name, box) for name, box in found if (box[2:] > box[:2]).all()]
    assert [name for name, _ in inside] == one.answer
    np.testing.assert_allclose([box for _, box in inside], [box.box for box in one.boxes], atol=0.1)


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
