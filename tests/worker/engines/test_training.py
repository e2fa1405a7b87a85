"""Jobs that the engine tinygrad trains: the same curves as torch, and checkpoints of both."""

import os
from pathlib import Path

import pytest
import torch

from redkiln.failure import FailureCode
from tests.waiting import wait_for
from worker.checkpoints.checkpoint import CheckpointStore
from worker.engines import first_steps
from worker.engines.protocol import Forward
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped

pytestmark = pytest.mark.usefixtures("rehearsed", "opened")


@pytest.fixture
def make_engine_job(make_job):
    def make(name, *, engine="tinygrad", resume=None, epochs=2):
        return make_job(
            name,
            model={"name": "mnist-cnn", "options": {"dropout": 0.25}},
            training={"epochs": epochs, "batch_size": 8, "precision": "auto"},
            resources={"engine": engine},
            order={"resume": resume},
        )

    return make


def test_a_job_trains_as_with_torch_and_can_change_its_engine_at_a_checkpoint(
    make_engine_job, start, losses, events
):
    whole = make_engine_job("torch", engine="torch")
    start(whole)[0].run()
    wanted = losses(whole)

    job = make_engine_job("job")
    with pytest.raises(Stopped):
        start(job, stop_after=len(wanted) // 2)[0].run()
    (resolved,) = events(job, "resolved")
    environment = resolved["data"]["environment"]
    assert environment["engine"].startswith("tinygrad 0.14")
    assert environment["engine_device"]
    assert resolved["data"]["spec"]["training"]["precision"] == "fp32"
    texts = [event["data"].get("text", "") for event in events(job, "message")]
    assert any("first steps agree with torch" in text for text in texts)
    assert "compiling" in [event["data"]["phase"] for event in events(job, "phase")]

    def resume(engine, **options):
        newest = CheckpointStore(job.checkpoints_dir).manifests()[-1]
        again = make_engine_job("job", engine=engine, resume=newest.name)
        loop, setup = start(again, **options)
        assert setup.facts.get("engine", "torch").startswith(engine)
        loop.run()

    # To torch, and back to tinygrad for the last steps.
    with pytest.raises(Stopped):
        resume("torch", stop_after=len(wanted) - 2)
    resume("tinygrad")
    found = losses(job)
    assert found.keys() == wanted.keys()
    assert [found[step] for step in wanted] == pytest.approx(list(wanted.values()), rel=1e-3)

    # The driver writes compiled kernels in a thread.
    folder = Path(os.environ["MESA_SHADER_CACHE_DIR"])
    assert folder.name == "tinygrad"
    wait_for(lambda: any(path.stat().st_size for path in folder.glob("mesa_shader_cache/??/*")))


@pytest.mark.parametrize("interface", ["Vulkan", "OpenCL"])
def test_a_table_of_numbers_and_categories_trains_as_with_torch(
    make_table_job, start, losses, interface, request
):
    device = request.getfixturevalue("opencl") if interface == "OpenCL" else None

    def train(engine):
        job = make_table_job(
            engine,
            model={"name": "mlp", "options": {"hidden": [8], "dropout": 0.25}},
            training={"epochs": 3, "batch_size": 16, "precision": "auto"},
            resources={"engine": engine},
            order={"engine_device": device},
        )
        loop, setup = start(job)
        loop.run()
        return losses(job), loop.best_metrics, setup

    wanted, metrics, _ = train("torch")
    found, ours, setup = train("tinygrad")
    assert setup.model.embedding is not None
    assert setup.facts["engine"] == f"tinygrad 0.14.0 ({interface})"
    assert found.keys() == wanted.keys()
    assert list(found.values()) == pytest.approx(list(wanted.values()), rel=1e-3)
    assert ours == pytest.approx(metrics, rel=1e-3)


def test_an_engine_that_computes_something_else_is_refused_with_numbers(
    make_engine_job, start, monkeypatch
):
    from worker.engines.tinygrad_engine import TinygradEngine

    forward = TinygradEngine.forward

    def wrong(self, inputs):
        found = forward(self, inputs)
        return Forward(found.outputs * 1.1, found.statistics, found.kept)

    monkeypatch.setattr(TinygradEngine, "forward", wrong)
    with pytest.raises(
        TrainingFailed, match=r"the loss differs by \d.*e-0\d .*the gradient of"
    ) as caught:
        start(make_engine_job("job"))
    assert caught.value.failure.code is FailureCode.GPU_FAULT
    assert not caught.value.failure.retryable
    assert first_steps.CLOSE_LOSS < 0.01


def test_comparing_leaves_the_network_as_it_was(make_engine_job, start):
    _, setup = start(make_engine_job("job", engine="torch"))
    _, other = start(make_engine_job("other"))
    ours, theirs = other.model.state_dict(), setup.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
