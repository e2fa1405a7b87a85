"""Whole jobs of segmenters of transformers: from images to the mask of a photo."""

import json
from pathlib import Path

import pytest

from redkiln.predict.model import Model
from tests.worker.trainer.segmentation.test_from_transformers import TINY
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job


@pytest.mark.parametrize("kind", sorted(TINY))
def test_a_segmenter_is_trained_exported_verified_and_used(
    make_segmentation_job, masked, events, kind
):
    job_dir = make_segmentation_job(
        model={"name": kind, "config": TINY[kind]},
        training={"epochs": 4, "optimizer": {"name": "adamw", "lr": 3e-3}},
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    result = events(job_dir, "result")[-1]["data"]
    assert result["verified"], result
    assert result["metrics"]["test/miou_onnx"] == pytest.approx(
        result["metrics"]["test/miou"], abs=0.002
    )
    manifest = json.loads((job_dir.out_dir / "manifest.json").read_text())
    assert manifest["verification"]["relative"] < 1e-3
    photo = Path(masked.path) / "0.png"
    (found,) = Model(job_dir.out_dir / "model.onnx", threads=1).predict([photo])
    assert found.mask.shape == (64, 64)
    assert found.mask.max() < len(manifest["classes"])
