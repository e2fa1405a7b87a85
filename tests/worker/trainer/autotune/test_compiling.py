"""torch.compile: when it is tried, what is kept, and that a run through it is the same run."""

import contextlib
from dataclasses import replace

import pytest
import torch

from redkiln.status import Phase
from worker.hardware.facts.compilers import find_compiler_obstacle
from worker.trainer.autotune import compiling, step_trials
from worker.trainer.autotune.compiling import (
    COMPILE_SECONDS,
    TRIAL_STEPS,
    Trial,
    can_pay,
    is_worth_it,
    tune_compile,
)
from worker.trainer.autotune.remembered import Remembered

CPU = torch.device("cpu")
# torch's compiler uses what torch's scripts call deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")


@pytest.mark.parametrize(
    ("kind", "steps", "step_seconds", "pays"),
    [
        ("cpu", 100_000, 0.01, False),
        ("cpu", 1_000_000, 0.01, True),
        ("cpu", 24_000, 0.1, False),
        ("cpu", 25_000, 0.1, True),
        ("cuda", 12_000, 0.1, False),
        ("cuda", 13_000, 0.1, True),
        ("cuda", 200, 100.0, False),
        ("cuda", 300, 100.0, True),
    ],
)
def test_a_trial_takes_at_most_a_twentieth_of_the_training(kind, steps, step_seconds, pays):
    assert can_pay(kind, steps=steps, step_seconds=step_seconds) is pays
    lost_seconds = COMPILE_SECONDS[kind] + TRIAL_STEPS * step_seconds
    assert (lost_seconds <= 0.05 * steps * step_seconds) is pays


@pytest.mark.parametrize(
    ("compiled", "difference", "precision", "worth"),
    [
        (0.8, 0.0, "fp32", True),
        (0.96, 0.0, "fp32", False),
        (1.2, 0.0, "fp32", False),
        (0.5, 5e-3, "fp32", False),
        (0.5, 5e-3, "bf16", True),
        (0.5, float("nan"), "fp32", False),
    ],
)
def test_a_faster_compiled_step_with_equal_results_is_chosen(
    compiled, difference, precision, worth
):
    assert is_worth_it(Trial(1.0, compiled, difference, 30.0), precision=precision) is worth


@pytest.fixture
def settle(tmp_path, make_job, make_event_log, start):
    """Settles the compiling of a job, with a compiler that a test gives."""
    event_log = make_event_log("compile.jsonl")

    def call(compiler, *, asked="auto", num_steps=None, prepare=lambda setup: None, **options):
        _, setup = start(make_job(training={"compile": "off"}))
        setup.spec.training.compile = asked
        if num_steps is not None:
            setup = replace(setup, plan=replace(setup.plan, steps=num_steps))
        prepare(setup)
        forward = tune_compile(
            setup,
            device=CPU,
            remembered=Remembered(tmp_path / "measured", {}),
            event_log=event_log,
            compiler=compiler,
            **options,
        )
        return forward, setup

    call.text = lambda: (tmp_path / "compile.jsonl").read_text()
    call.folder = tmp_path / "measured"
    call.event_log = event_log
    return call


class Compiler:
    """Counts what it compiles; compiled calls are those of the model, changed as a test says."""

    def __init__(self, *, factor=1.0, error=None):
        self.calls = 0
        self._factor = factor
        self._error = error

    def __call__(self, forward):
        def compiled(*inputs):
            self.calls += 1
            if self._error is not None:
                raise self._error
            return forward(*inputs) * self._factor

        return compiled


def weights(setup):
    return {name: tensor.clone() for name, tensor in setup.model.state_dict().items()}


def test_a_short_training_is_not_compiled(settle):
    compiler = Compiler()
    forward, setup = settle(compiler)
    assert (forward, compiler.calls, setup.spec.training.compile) == (None, 0, "off")


@pytest.fixture
def long(monkeypatch):
    monkeypatch.setattr(compiling, "COMPILE_SECONDS", {"cpu": 0.0})
    monkeypatch.setattr(compiling, "TRIAL_STEPS", 0)


def step_times(monkeypatch, *seconds):
    """Fakes the times of steps, one after the other; the last one is repeated."""
    found, left = [], list(seconds)

    def time_one(*_args, **_options):
        found.append(left.pop(0) if len(left) > 1 else left[0])
        return found[-1], (1.0, 1.0)

    monkeypatch.setattr(step_trials, "time_step", time_one)
    return found


def test_a_few_steps_are_not_even_measured(settle, monkeypatch):
    made = step_times(monkeypatch, 1e6)
    settle(Compiler(), num_steps=TRIAL_STEPS * 20 - 1)
    assert made == []
    settle(Compiler(), num_steps=100_000, steps_made=99_900)
    assert made == []
    settle(Compiler(), num_steps=TRIAL_STEPS * 20)
    assert len(made) == 2


def test_the_first_step_of_a_process_is_not_measured(settle, monkeypatch):
    made = step_times(monkeypatch, 1.0, 0.01)
    compiler = Compiler()
    # At a second each, the second job's steps would be enough for a trial.
    for num_steps in (300, 5_000):
        assert settle(compiler, num_steps=num_steps)[0] is None
    assert made == [1.0, 0.01]


def test_a_batch_that_does_not_fit_into_memory_is_left_to_training(settle, long):
    def shrink(setup):
        def forward(images):
            raise torch.OutOfMemoryError(f"HIP out of memory with {len(images)} samples")

        setup.model.forward = forward

    compiler = Compiler()
    forward, setup = settle(compiler, prepare=shrink)
    assert (forward, compiler.calls, setup.spec.training.compile) == (None, 0, "off")
    assert not list(settle.folder.glob("**/*.json"))


@pytest.mark.parametrize("asked", ["auto", "default"])
def test_recomputed_activations_are_not_compiled(settle, long, asked):
    def recompute(setup):
        setup.spec.training.gradient_checkpointing = "on"

    compiler = Compiler()
    forward, setup = settle(compiler, asked=asked, prepare=recompute)
    assert (forward, compiler.calls, setup.spec.training.compile) == (None, 0, "off")
    assert ("gradient_checkpointing is on" in settle.text()) is (asked == "default")


def test_a_trial_is_remembered_and_has_no_other_effect(settle, long, monkeypatch):
    monkeypatch.setattr(compiling, "MIN_GAIN", -100.0)
    compiler = Compiler()
    _, before = settle(None, asked="off")
    forward, setup = settle(compiler)
    assert forward is not None
    assert setup.spec.training.compile == "default"
    assert "the model is compiled: " in settle.text()
    kept = weights(before)
    assert all(torch.equal(kept[name], tensor) for name, tensor in weights(setup).items())
    assert all(p.grad is None for p in setup.model.parameters())
    tried, seconds = compiler.calls, settle.event_log.seconds[Phase.WARMING]
    # A resumed run has `default` in its spec.
    for number, asked in enumerate(("auto", "default"), start=1):
        forward, setup = settle(compiler, asked=asked)
        assert forward is not None
        # Compiled once before the first step, and not measured again.
        assert compiler.calls == tried + number
        assert all(torch.equal(kept[name], tensor) for name, tensor in weights(setup).items())
        assert settle.event_log.seconds[Phase.WARMING] > seconds
        seconds = settle.event_log.seconds[Phase.WARMING]


def test_a_remembered_choice_that_no_longer_compiles_is_not_a_failure(settle, long, monkeypatch):
    monkeypatch.setattr(compiling, "MIN_GAIN", -100.0)
    assert settle(Compiler())[0] is not None
    forward, setup = settle(Compiler(error=RuntimeError("no room")))
    assert (forward, setup.spec.training.compile) == (None, "off")
    assert "training continues without it: RuntimeError: no room" in settle.text()


def test_a_compiled_step_that_is_not_faster_is_not_tried_again(settle, long, monkeypatch):
    monkeypatch.setattr(compiling, "MIN_GAIN", 1.0)
    compiler = Compiler()
    assert settle(compiler)[0] is None
    tried = compiler.calls
    assert settle(compiler)[0] is None
    assert compiler.calls == tried
    assert "the model is not compiled: a compiled step takes" in settle.text()


@pytest.mark.parametrize("asked", ["auto", "default"])
def test_a_choice_with_different_results_is_never_kept(settle, long, asked):
    forward, setup = settle(Compiler(factor=1.5), asked=asked)
    assert forward is None
    assert setup.spec.training.compile == "off"


@pytest.mark.parametrize("asked", ["auto", "default"])
def test_a_compiler_failure_gives_a_warning_and_the_plain_model(settle, long, asked):
    forward, setup = settle(Compiler(error=RuntimeError("no kernel\nfor this")), asked=asked)
    assert forward is None
    assert setup.spec.training.compile == "off"
    assert "training continues without it: RuntimeError: no kernel" in settle.text()


def test_a_failed_compile_is_retried_only_on_request(settle, long):
    assert settle(Compiler(error=RuntimeError("no kernel")))[0] is None
    again = Compiler(error=RuntimeError("no kernel"))
    assert settle(again)[0] is None
    assert again.calls == 0
    assert "failed earlier on this worker (RuntimeError: no kernel)" in settle.text()
    assert settle(again, asked="default")[0] is None
    assert again.calls == 1


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), OSError("disk")])
def test_a_compile_that_lacked_memory_or_disk_is_retried(settle, long, error):
    compiler = Compiler(error=error)
    for _ in range(2):
        assert settle(compiler)[0] is None
    assert compiler.calls == 2


def test_dropout_draws_the_same_values_plain_and_compiled(make_job, start, monkeypatch):
    drawn = {"cpu": 0, "cuda": 0}

    @contextlib.contextmanager
    def fork(devices):
        before = dict(drawn)
        yield
        drawn["cpu"] = before["cpu"]
        if devices:
            drawn["cuda"] = before["cuda"]

    def time_one(_setup, _forward, *, device):
        drawn["cpu"] += 1
        drawn[device.type] += 10
        return 1.0, (float(drawn["cpu"]), float(drawn["cuda"]))

    monkeypatch.setattr(torch.random, "fork_rng", fork)
    monkeypatch.setattr(compiling, "time_step", time_one)
    _, setup = start(make_job())
    trial = compiling.compare_steps(setup, setup.model, setup.model, device=torch.device("cuda", 0))
    assert trial.difference == 0
    assert drawn == {"cpu": 0, "cuda": 0}


@pytest.mark.parametrize(
    "changes",
    [
        {"gradient_checkpointing": "on"},
        {"memory_format": "contiguous"},
        {"accumulation": 2},
        {"precision": "bf16"},
        {"batch_size": 4},
    ],
)
def test_a_step_with_other_settings_is_measured_separately(make_job, start, changes):
    _, setup = start(make_job())
    before = step_trials.key_of(setup)
    assert before == step_trials.key_of(setup)
    for name, value in changes.items():
        assert getattr(setup.spec.training, name) != value
        setattr(setup.spec.training, name, value)
    assert step_trials.key_of(setup) != before


def test_measuring_a_step_has_its_own_phase_and_message(settle):
    assert Phase.WARMING not in settle.event_log.seconds
    assert settle(Compiler(), num_steps=300)[0] is None
    assert settle.event_log.seconds[Phase.WARMING] > 0
    assert "whether compiling the model would save time" in settle.text()


def test_a_compiled_run_equals_the_plain_one_with_the_same_names(make_job, start, losses):
    if find_compiler_obstacle("cpu", {}) is not None:
        pytest.fail("this test needs g++, as CI has it")
    curves = []
    for name, compiled in (("plain", "off"), ("compiled", "default")):
        job_dir = make_job(name, model={"name": "amdnet"}, training={"compile": compiled})
        loop, setup = start(job_dir)
        assert setup.spec.training.compile == compiled
        loop.run()
        curves.append(losses(job_dir))
        assert set(setup.model.state_dict()) == {
            f"{part}.{kind}" for part in ("conv1", "conv2", "head") for kind in ("weight", "bias")
        }
    assert curves[0] == pytest.approx(curves[1], rel=1e-3)


def test_a_table_job_with_dropout_is_compiled_on_request(make_table_job, start, losses):
    if find_compiler_obstacle("cpu", {}) is not None:
        pytest.fail("this test needs g++, as CI has it")
    curves = []
    for name, compiled in (("plain", "off"), ("compiled", "default")):
        job_dir = make_table_job(
            name,
            model={"options": {"dropout": 0.3}},
            training={"compile": compiled, "epochs": 1, "precision": "fp32"},
        )
        loop, setup = start(job_dir)
        assert setup.spec.training.compile == compiled
        loop.run()
        curves.append(losses(job_dir))
    assert curves[0] == pytest.approx(curves[1], rel=1e-3)
