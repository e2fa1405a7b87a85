"""A trained segmenter becomes a verified file that returns masks."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from redkiln.predict.masks.scores import score_masks
from redkiln.predict.model import Model
from redkiln.predict.verify import verify
from redkiln.views.evaluation import EvaluationFile
from tests.worker.job_dirs import load_arrays
from tests.worker.tasks.semantic_segmentation.conftest import make_job
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

VARIANTS = ["fp16", "int8-static"]


@pytest.fixture(scope="module", autouse=True)
def blank_figures():
    """Does nothing: the figures are drawn."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory, masked, cache_dir):
    """A short training with variants; tests only read its files."""
    job_dir = make_job(
        tmp_path_factory.mktemp("segmenter") / "job",
        dataset=masked,
        cache_dir=cache_dir,
        training={"epochs": 12, "batch_size": 4, "ema": 0.9},
        export={"variants": VARIANTS},
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    return job_dir


def test_all_files_are_published_and_verified(exported, events):
    names = [output.name for output in exported.load_outputs()]
    assert {"model.onnx", "parity.npz", "iou.png", "evaluation.json", "report.html"} <= set(names)
    result = events(exported, "result")[-1]["data"]
    assert result["verified"] is True
    wanted = {"test/miou", "test/dice", "test/pixel_accuracy", "test/miou_onnx"}
    assert wanted <= set(result["metrics"])
    assert result["comparison"]["metric"] == "test/miou"
    manifest = json.loads((exported.out_dir / "manifest.json").read_text())
    assert [one["name"] for one in manifest["variants"]] == ["fp32", *VARIANTS]
    assert all(one["file"] for one in manifest["variants"]), manifest["variants"]
    assert manifest["verification"]["relative"] < 1e-3
    assert manifest["verification"]["agreement"] >= 0.99
    assert manifest["preprocessing"]["outputs"] == ["logits", "classes"]
    assert manifest["segmentation"]["ignored"] == 255


def test_the_file_has_logits_and_classes_in_batches_of_any_size(exported):
    session = onnxruntime.InferenceSession(exported.out_dir / "model.onnx")
    images = np.random.default_rng(0).random((3, 3, 64, 64), dtype=np.float32)
    for num in (1, 3):
        logits, classes = session.run(["logits", "classes"], {"images": images[:num]})
        assert logits.shape == (num, 4, 64, 64)
        assert classes.dtype == np.uint8
        np.testing.assert_array_equal(classes, logits.argmax(axis=1))


def test_the_file_and_a_variant_are_verified_without_torch(exported):
    verdict = verify(exported.out_dir / "model.onnx", threads=1)
    assert verdict.verified, verdict.misses
    saved = load_arrays(exported.out_dir / "parity.npz")
    some = saved["is_test"]
    miou = score_masks(saved["classes"][some], saved["masks"][some], 4)["miou"]
    assert (verdict.metric_name, verdict.torch_metric) == ("miou", pytest.approx(miou))
    assert verify(exported.out_dir / "model-fp16.onnx", threads=1).limits.tolerance is None


def test_a_file_with_other_weights_is_not_verified(exported, tmp_path):
    for name in ("model.onnx", "parity.npz"):
        shutil.copy(exported.out_dir / name, tmp_path)
    model = onnx.load(tmp_path / "model.onnx")
    (bias,) = (one for one in model.graph.initializer if one.name.endswith("to_logits.bias"))
    moved = onnx.numpy_helper.to_array(bias)[::-1] + np.float32([0, 0, 0, 50])
    bias.CopyFrom(onnx.numpy_helper.from_array(moved, bias.name))
    onnx.save(model, tmp_path / "model.onnx")
    verdict = verify(tmp_path / "model.onnx", threads=1)
    assert not verdict.verified
    assert any("of the pixels have torch's class" in miss for miss in verdict.misses)


def test_the_code_in_the_report_finds_the_same_mask_of_any_image(
    exported, masked, tmp_path, monkeypatch, capsys
):
    text = (exported.out_dir / "report.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    photo = tmp_path / "wide.png"
    with Image.open(Path(masked.path) / "0.png") as square:
        square.resize((190, 110)).save(photo)
    monkeypatch.chdir(exported.out_dir)
    monkeypatch.setattr(sys, "argv", ["predict.py", str(photo)])
    scope = {"__name__": "__main__"}
    exec(code, scope)
    assert capsys.readouterr().out.startswith(str(photo))
    (one,) = Model(exported.out_dir / "model.onnx", threads=1).predict([photo])
    np.testing.assert_array_equal(scope["segment"](photo), one.mask)
    assert one.mask.shape == (110, 190)


def test_the_evaluation_lists_the_worst_images_with_their_masks(exported):
    content = EvaluationFile.model_validate_json((exported.out_dir / "evaluation.json").read_text())
    assert content.has_masks
    assert [one.name for one in content.per_class] == ["background", "circle", "square", "triangle"]
    assert sum(one.num for one in content.per_class) == 8 * 64 * 64
    scores = [one.true_confidence for one in content.mistakes]
    assert scores == sorted(scores)
    assert (content.tiles.side, content.num_listed) == (128, len(scores))
