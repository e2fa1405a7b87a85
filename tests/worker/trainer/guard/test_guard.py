import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed
from worker.results.findings import describe_finding
from worker.tasks.train import build_loop
from worker.trainer.guard.guard import Guard, build_guard

META = torch.device("meta")


def build(device):
    return nn.Sequential(nn.Flatten(), nn.Linear(600, 600), nn.ReLU(), nn.Linear(600, 4)).to(device)


class Training:
    """A small real training; `spoil` does something wrong in each step."""

    def __init__(self, guard, model, *, device=META, spoil=lambda: None):
        self.guard, self.model, self.device, self.spoil = guard, model, device, spoil
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(self, *, is_last=False):
        with self.guard.step(self.optimizer, is_last=is_last):
            inputs = torch.ones(8, 600, device=self.device)
            targets = torch.zeros(8, dtype=torch.int64, device=self.device)
            self.guard.check_batch(inputs, targets)
            self.spoil()
            functional.cross_entropy(self.model(inputs), targets).backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)


@pytest.fixture
def start(make_event_log, fake_device):
    def make(*, layer=None, model=None, clock=None, **options):
        layer = layer or fake_device()
        model = build(META) if model is None else model
        ticks = iter(range(100))
        guard = Guard(
            layer,
            model=model,
            event_log=make_event_log(),
            clock=clock or (lambda: float(next(ticks))),
        )
        return Training(guard, model, **options), layer

    return make


@pytest.fixture
def said(tmp_path):
    def read(kind):
        lines = (tmp_path / "events.jsonl").read_text().splitlines()
        return [e["data"] for e in map(json.loads, lines) if e["kind"] == kind]

    return read


def test_three_steps_on_the_device_leave_evidence_and_no_warning(start, said):
    training, layer = start()
    for _ in range(3):
        training.step()
    found = training.guard.found
    assert (found.work.steps, found.audited_steps, found.findings) == (3, 2, [])
    assert found.work.device_operators > 20
    assert found.work.cpu_operators == 0
    assert found.work.gradient_bytes == 4 * (600 * 601 + 4 * 601)
    assert "the first 3 steps ran on meta" in said("message")[0]["text"]
    assert said("warning") == []
    assert layer.waits == 2


def test_after_the_first_steps_the_guard_does_nothing(start, said):
    training, layer = start()
    for _ in range(3):
        training.step()
    waits, marks = layer.waits, layer.num_marks
    training.spoil = lambda: torch.ones(10**6).mul(2)
    for _ in range(3):
        training.step()
    training.guard.check_batch(torch.ones(1), torch.ones(1))
    assert (layer.waits, layer.num_marks) == (waits, marks)
    assert len(said("message")) == 1


def test_a_model_on_the_cpu_fails_before_the_first_step(start):
    training, _ = start(model=build("cpu"))
    with pytest.raises(TrainingFailed, match="on cpu") as caught:
        training.step()
    assert caught.value.failure.code is FailureCode.CPU_FALLBACK
    assert training.optimizer.state == {}


def test_a_batch_on_the_cpu_fails_before_its_step(start):
    training, _ = start(device=torch.device("cpu"))
    with pytest.raises(TrainingFailed, match="the batch's inputs on cpu"):
        training.step()


def test_moments_on_the_cpu_are_found_after_the_first_step(start):
    training, _ = start()

    def forget_device():
        for parameter in training.model.parameters():
            training.optimizer.state[parameter]["momentum_buffer"] = torch.zeros(parameter.shape)

    training.spoil = forget_device
    training.optimizer.step = lambda: None
    with pytest.raises(TrainingFailed, match="the optimiser's"):
        training.step()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bytes_a_mark": 0, "peak": 0}, "0 bytes were allocated"),
        ({"seconds": 0.0}, "its clock measured 0.0 s"),
        ({"bytes_a_mark": None, "used": 0}, "its driver reports 0 bytes"),
    ],
)
def test_a_device_that_did_nothing_fails_the_run(start, fake_device, changes, words):
    training, _ = start(layer=fake_device(**changes))
    training.step()
    training.step()
    with pytest.raises(TrainingFailed, match=words) as caught:
        training.step()
    failure = caught.value.failure
    assert (failure.code, failure.retryable) == (FailureCode.CPU_FALLBACK, False)
    assert failure.details["evidence"]["steps"] == 3
    assert "redkiln doctor" in failure.message


def test_operators_that_all_ran_on_the_cpu_fail_the_run(start, fake_device):
    # The device is `meta`, and so is the model; the work is done elsewhere.
    training, _ = start()
    with training.guard.step(training.optimizer, is_last=False):
        pass
    with (
        pytest.raises(TrainingFailed, match="operators had its result on meta"),
        training.guard.step(training.optimizer, is_last=True),
    ):
        torch.ones(4).mul(2)


def test_a_run_of_one_step_is_judged_after_it(start):
    training, _ = start()
    training.step(is_last=True)
    found = training.guard.found
    assert (found.work.steps, found.audited_steps, found.work.device_operators) == (1, 0, None)


def test_warnings_name_the_lines_of_slow_work_and_waits(start, said):
    images = torch.ones(10**6)

    def spoil():
        images.mul(2)
        images.to(META)

    training, _ = start(spoil=spoil)
    for _ in range(3):
        training.step()
    warnings = {w["code"]: w["message"] for w in said("warning")}
    assert set(warnings) == {"cpu_operations", "host_synchronisations"}
    assert "mul x2 (3,906 KiB) at " in warnings["cpu_operations"]
    assert f"{Path(__file__).name}" in warnings["cpu_operations"]
    assert "copy from pageable memory of the CPU x2" in warnings["host_synchronisations"]
    assert [describe_finding(f) for f in training.guard.found.findings]


def test_a_cpu_needs_no_guard(make_event_log):
    assert build_guard(torch.device("cpu"), model=build("cpu"), event_log=make_event_log()) is None


@pytest.fixture
def run_guarded(make_job, make_event_log, fake_device, monkeypatch):
    """Runs a job whose CPU plays the GPU: whatever reads from it would make a host wait."""

    def run(name, **training):
        monkeypatch.setattr(
            "worker.trainer.building.build_guard",
            lambda device, *, model, event_log: Guard(
                fake_device(device=device), model=model, event_log=event_log
            ),
        )
        return run_job(make_job(name, training=training), make_event_log, name)

    return run


def run_job(job_dir, make_event_log, name):
    event_log = make_event_log(f"{name}/events.jsonl")
    loop, work = build_loop(
        job_dir, job_dir.load_order(), event_log=event_log, should_stop=lambda: False
    )
    loop.run()
    event_log.flush_points()
    return job_dir, loop, [p.clone() for p in work.model.parameters()]


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_guarded_run_has_the_same_results(
    make_job, losses, make_event_log, run_guarded, optimizer
):
    plain, _, weights = run_job(
        make_job("plain", training={"optimizer": optimizer}), make_event_log, "plain"
    )
    guarded, loop, same = run_guarded("guarded", optimizer=optimizer)
    assert loop.first_steps.work.device_operators > 0
    assert len(losses(plain)) == 12
    assert losses(plain) == losses(guarded)
    assert all(torch.equal(a, b) for a, b in zip(weights, same, strict=True))


@pytest.mark.parametrize(
    "training",
    [
        {"optimizer": "adamw"},
        {"optimizer": "sgd", "clip_norm": 1.0, "ema": 0.9},
        {"optimizer": "muon"},
        {"precision": "fp16"},
        {"precision": "bf16", "accumulation": 2},
        {"augment": {"flip": True, "rotate_degrees": 10, "crop": 0.1}},
    ],
    ids=str,
)
def test_no_training_step_makes_the_host_wait(run_guarded, training):
    _, loop, _ = run_guarded("job", **training, epochs=1)
    assert loop.first_steps.audited_steps == 2
    assert loop.first_steps.findings == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
def test_on_a_gpu_the_evidence_is_real(make_event_log):
    device = torch.device("cuda:0")
    model = build(device)
    training = Training(
        build_guard(device, model=model, event_log=make_event_log()), model, device=device
    )
    for _ in range(3):
        training.step()
    work = training.guard.found.work
    assert 0.5 * work.wall_seconds < work.device_seconds < 2 * work.wall_seconds
    assert work.allocated_bytes > 3 * work.gradient_bytes
    assert work.peak_bytes > 0
    assert training.guard.found.findings == []
