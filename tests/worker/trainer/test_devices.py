import pytest
import torch

from redkiln.failure import FailureCode
from worker.jobdir import EXIT_FAILED
from worker.process.failed import TrainingFailed
from worker.process.lifetime import StopSignal
from worker.tasks.train import run_job
from worker.trainer.devices import open_device


@pytest.fixture(autouse=True)
def same_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("wanted", ["any", "cpu"])
def test_a_job_that_may_run_on_a_cpu_gets_it(wanted):
    assert open_device("cpu", threads=1, wanted=wanted).type == "cpu"


def test_a_gpu_job_never_gets_a_cpu_whatever_its_order_says(make_job, events):
    job_dir = make_job(resources={"device": "gpu"})
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    failure = events(job_dir)[-1]["data"]
    assert failure["code"] == "no_gpu"
    assert "was assigned the CPU" in failure["message"]
    assert failure["details"]["cause"]
    assert failure["details"]["fix"] in failure["message"]
    assert events(job_dir, "progress") == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch sees a GPU here")
def test_a_missing_gpu_is_explained(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises(TrainingFailed) as caught:
        open_device("cuda:0", threads=1, wanted="any")
    failure = caught.value.failure
    assert failure.code is FailureCode.NO_GPU
    assert torch.__version__ in failure.message
    assert "Fix: " in failure.message


def test_a_gpu_without_kernels_in_this_build_fails_before_training(monkeypatch):
    def fail(*_args, **_kwargs):
        raise RuntimeError("HIP error: invalid device function\nand more lines")

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.set_device", lambda device: None)
    monkeypatch.setattr("torch.zeros", fail)
    with pytest.raises(TrainingFailed, match="torch cannot use cuda:0") as caught:
        open_device("cuda:0", threads=1)
    assert caught.value.failure.code is FailureCode.NO_GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
def test_a_gpu_that_works_is_opened():
    assert open_device("cuda:0", threads=1, wanted="gpu").type == "cuda"
