"""Quantisation-aware training: the fine-tuning after a training, and the file that it becomes."""

import json

import onnx
import pytest
import torch

from tests.worker.job_dirs import write_job
from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job
from worker.trainer import fine_tuning

SPEC = {
    "task": "image-classification",
    "dataset": "tiny",
    "model": {"name": "mnist-cnn"},
    "training": {
        "epochs": 3,
        "batch_size": 8,
        "precision": "fp32",
        "quantize": {"epochs": 2, "lr": 1e-3},
    },
    "export": {"variants": [{"name": "int8-qat", "max_metric_drop": 0.3}]},
}


@pytest.fixture(scope="module")
def make(tmp_path_factory, tiny, cache_dir):
    root = tmp_path_factory.mktemp("fine-tuning")

    def make(name, **order):
        return write_job(root / name, SPEC, dataset=tiny.local, cache_dir=cache_dir, **order)

    return make


@pytest.fixture(scope="module", autouse=True)
def rehearsed():
    """Every architecture counts as rehearsed, because an untrained export takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker.trainer.run.is_rehearsed", lambda *_, **__: True)
        patch.setattr(fine_tuning, "is_rehearsed", lambda *_, **__: True)
        yield


@pytest.fixture(scope="module")
def whole(make):
    """A job that nothing interrupted."""
    job_dir = make("whole")
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    return job_dir


def newest(job_dir):
    store = CheckpointStore(job_dir.checkpoints_dir)
    return store.load(store.manifests()[-1].name)


@pytest.mark.integration  # torchao traces 30 patterns of batch norm, which takes 4 s
@pytest.mark.xdist_group("fine-tuned")
def test_a_fine_tuned_network_becomes_an_int8_file_with_its_verdict(whole):
    assert export_job(whole) == EXIT_DONE
    manifest = json.loads((whole.out_dir / "manifest.json").read_text())
    results = {one["name"]: one for one in manifest["variants"]}
    found = results["int8-qat"]
    assert found["verified"], found["misses"]
    assert found["details"]["training"] == {"epochs": 2, "lr": 1e-3}
    assert found["size_bytes"] < 0.5 * results["fp32"]["size_bytes"]
    model = onnx.load(whole.out_dir / "model-int8-qat.onnx")
    assert "QuantizeLinear" in {node.op_type for node in model.graph.node}
    assert {p.key for p in model.metadata_props} >= {"classes", "preprocessing"}


def test_the_fine_tuning_learns_and_leaves_the_trained_weights_as_they_are(whole):
    checkpoint = newest(whole)
    best = CheckpointStore(whole.checkpoints_dir).find_best()
    assert best.step == 18
    assert checkpoint.manifest.step == 18 + 12
    assert checkpoint.manifest.state["fine_tuned_steps"] == 12
    tuned = checkpoint.tensors_of("quantize/model")
    trained = checkpoint.weights
    assert any(not torch.equal(tuned[name], trained[name]) for name in trained if name in tuned)


def test_a_stopped_fine_tuning_resumes_exactly(make, whole):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fine_tuning.FineTuning, "_take_step", stop_after(3))
        stopped = make("stopped")
        assert run_job(stopped, StopSignal()) == EXIT_STOPPED
    manifest = newest(stopped).manifest
    assert manifest.state["fine_tuned_steps"] == 3
    resumed = make("stopped", resume=manifest.name)
    assert run_job(resumed, StopSignal()) == EXIT_DONE
    mine, theirs = (newest(job).tensors_of("quantize/model") for job in (resumed, whole))
    assert mine.keys() == theirs.keys()
    differing = [name for name in mine if not torch.equal(mine[name], theirs[name])]
    assert not differing

    finished = make("stopped", resume=manifest.name, is_finishing=True)
    assert run_job(finished, StopSignal()) == EXIT_DONE
    assert not json.loads(finished.trained_path.read_text())["fine_tuned"]


def stop_after(num):
    take = fine_tuning.FineTuning._take_step

    def step(self):
        take(self)
        if self._step == num:
            self.should_stop = lambda: True

    return step


def test_a_network_that_cannot_be_quantised_fails_before_training(make, events, monkeypatch):
    def refuse(network, images):
        raise RuntimeError("no such operator")

    monkeypatch.setattr("worker.export.variants.fine_tuned.prepare", refuse)
    monkeypatch.setattr(fine_tuning, "is_rehearsed", lambda *_, **__: False)
    job_dir = make("refused")
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    failure = events(job_dir, "failure")[-1]["data"]
    assert failure["code"] == "export_refused"
    assert "int8-qat cannot be made for this model: RuntimeError: no such" in failure["message"]
    assert not events(job_dir, "checkpoint")
