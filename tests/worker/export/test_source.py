"""A finished job's model, exported again from the files that the job published."""

import json

import numpy as np
import onnxruntime
import pytest

from tests.worker.job_dirs import load_arrays, write_job
from worker.jobdir import EXIT_DONE, EXIT_FAILED
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

SOURCE = "job_0000000000000000000000"


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny, cache_dir):
    """The files of a job that was trained and exported."""
    spec = {
        "task": "image-classification",
        "dataset": "tiny",
        "model": {"name": "mnist-cnn"},
        "training": {"epochs": 2, "batch_size": 8, "precision": "fp32"},
    }
    path = tmp_path_factory.mktemp("finished") / "job"
    job_dir = write_job(path, spec, dataset=tiny.local, job_name="first", cache_dir=cache_dir)
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    return job_dir.out_dir


@pytest.fixture
def make_export(tmp_path, tiny, cache_dir, finished):
    def make(*, initial=finished / "checkpoint.safetensors", manifest=None, **export):
        return write_job(
            tmp_path / "again",
            {"task": "export", "source": SOURCE, "export": export},
            dataset=tiny.local,
            job_name="again",
            cache_dir=cache_dir,
            initial=initial and str(initial),
            manifest=str(manifest or finished / "manifest.json"),
        )

    return make


def outputs_of(folder):
    parity = load_arrays(folder / "parity.npz")
    pixels = parity["images"].astype(np.float32).transpose(0, 3, 1, 2) / 255
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    return session.run(["logits"], {"images": pixels})[0]


def test_it_gives_the_same_model_and_further_variants_without_training(
    make_export, finished, events
):
    job_dir = make_export(variants=["int8-dynamic"])
    assert export_job(job_dir) == EXIT_DONE
    names = {output.name for output in job_dir.load_outputs()}
    assert {"model.onnx", "model-int8-dynamic.onnx", "report.md", "manifest.json"} <= names
    assert not names & {"checkpoint.safetensors", "metrics.csv", "curves.png"}
    np.testing.assert_allclose(outputs_of(job_dir.out_dir), outputs_of(finished), atol=1e-6)
    before, after = (
        json.loads((folder / "manifest.json").read_text()) for folder in (finished, job_dir.out_dir)
    )
    assert after["job"]["source"] == SOURCE
    assert after["verification"]["verified"]
    assert [one["name"] for one in after["variants"]] == ["fp32", "int8-dynamic"]
    for name in ("best", "training", "dataset", "classes", "metrics", "environment"):
        assert after[name] == before[name]
    assert {e["data"]["phase"] for e in events(job_dir, "phase")} == {"exporting", "verifying"}
    (result,) = events(job_dir, "result")
    assert result["data"]["metrics"] == before["metrics"]


def test_the_report_says_that_the_training_was_finished_early(make_export, finished, tmp_path):
    manifest = json.loads((finished / "manifest.json").read_text())
    length = manifest["training"]
    assert (length["planned_steps"], length["finished_early"]) == (length["steps"], False)
    length |= {"planned_steps": 2 * length["steps"], "finished_early": True}
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(manifest))
    job_dir = make_export(manifest=path)
    assert export_job(job_dir) == EXIT_DONE
    report = (job_dir.out_dir / "report.md").read_text()
    assert "**Finished early** with `redkiln finish`, after 2 of 4 epochs." in report


def test_a_checkpoint_that_is_gone_fails_the_job_with_the_reason(make_export, events):
    job_dir = make_export(initial=None)
    assert export_job(job_dir) == EXIT_FAILED
    failure = events(job_dir, "failure")[-1]["data"]
    assert failure["code"] == "bad_input"
    assert f"the checkpoint or the manifest of {SOURCE} is gone" in failure["message"]


@pytest.mark.parametrize("content", ["{", "[]", '{"best": {"step": 1, "epoch": 1}}'])
def test_a_manifest_that_cannot_be_read_fails_the_job(make_export, events, tmp_path, content):
    path = tmp_path / "manifest.json"
    path.write_text(content)
    job_dir = make_export(manifest=path)
    assert export_job(job_dir) == EXIT_FAILED
    failure = events(job_dir, "failure")[-1]["data"]
    assert failure["code"] == "bad_input"
    assert f"the files of {SOURCE} cannot be read" in failure["message"]


def test_the_manifest_of_an_earlier_release_needs_no_length_of_the_training(
    make_export, finished, tmp_path
):
    manifest = json.loads((finished / "manifest.json").read_text())
    del manifest["training"]
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(manifest))
    job_dir = make_export(manifest=path)
    assert export_job(job_dir) == EXIT_DONE
    again = json.loads((job_dir.out_dir / "manifest.json").read_text())
    assert again["training"]["steps"] == manifest["best"]["step"]
