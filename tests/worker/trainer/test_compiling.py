"""torch.compile: when it is tried, what is kept, and that a run through it is the same run."""

import pytest
import torch

from worker.trainer import compiling
from worker.trainer.compiling import Trial, can_pay, find_obstacle, is_worth_it, settle_compile
from worker.trainer.remembered import Remembered

CPU = torch.device("cpu")
# torch's compiler uses what torch's scripts call deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")


@pytest.mark.parametrize(
    ("steps", "step_seconds", "pays"),
    [(1_000, 0.1, False), (10_000, 0.1, True), (100, 1.0, False), (3_001, 0.1, True)],
)
def test_compiling_is_tried_only_where_training_is_long(steps, step_seconds, pays):
    assert can_pay(steps=steps, step_seconds=step_seconds) is pays


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
def test_what_is_faster_with_equal_numbers_is_kept(compiled, difference, precision, worth):
    assert is_worth_it(Trial(1.0, compiled, difference, 30.0), precision=precision) is worth


def test_missing_compilers_are_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert "g++" in find_obstacle("cpu", {})
    monkeypatch.setattr(compiling, "find_spec", lambda _name: None)
    assert "Triton" in find_obstacle("cuda", {})


@pytest.fixture
def settle(tmp_path, make_job, make_report, start):
    """Settles the compiling of a job, with a compiler that a test gives."""
    report = make_report("compile.jsonl")

    def call(compiler, *, asked="auto"):
        _, work = start(make_job(training={"compile": "off"}))
        work.spec.training.compile = asked
        forward = settle_compile(
            work,
            device=CPU,
            remembered=Remembered(tmp_path / "measured", {}),
            report=report,
            compiler=compiler,
        )
        return forward, work

    call.text = lambda: (tmp_path / "compile.jsonl").read_text()
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


def weights(work):
    return {name: tensor.clone() for name, tensor in work.model.state_dict().items()}


def test_a_short_training_is_not_compiled(settle):
    compiler = Compiler()
    forward, work = settle(compiler)
    assert (forward, compiler.calls, work.spec.training.compile) == (None, 0, "off")


@pytest.fixture
def long(monkeypatch):
    monkeypatch.setattr(compiling, "COMPILE_SECONDS", 0.0)


def test_what_wins_is_kept_and_remembered_and_leaves_no_trace(settle, long, monkeypatch):
    monkeypatch.setattr(compiling, "MIN_GAIN", -100.0)
    compiler = Compiler()
    _, before = settle(None, asked="off")
    forward, work = settle(compiler)
    assert forward is not None
    assert work.spec.training.compile == "default"
    assert "the model is compiled: " in settle.text()
    kept = weights(before)
    assert all(torch.equal(kept[name], tensor) for name, tensor in weights(work).items())
    assert all(p.grad is None for p in work.model.parameters())
    tried = compiler.calls
    forward, work = settle(compiler)
    assert forward is not None
    assert compiler.calls == tried


def test_what_is_no_faster_is_dropped_and_not_tried_again(settle, long, monkeypatch):
    monkeypatch.setattr(compiling, "MIN_GAIN", 1.0)
    compiler = Compiler()
    assert settle(compiler)[0] is None
    tried = compiler.calls
    assert settle(compiler)[0] is None
    assert compiler.calls == tried
    assert "the model is not compiled: a compiled step takes" in settle.text()


@pytest.mark.parametrize("asked", ["auto", "default"])
def test_other_numbers_are_never_kept(settle, long, asked):
    forward, work = settle(Compiler(factor=1.5), asked=asked)
    assert forward is None
    assert work.spec.training.compile == "off"


@pytest.mark.parametrize("asked", ["auto", "default"])
def test_a_compiler_that_fails_leaves_the_model_as_it_is_with_a_warning(settle, long, asked):
    forward, work = settle(Compiler(error=RuntimeError("no kernel\nfor this")), asked=asked)
    assert forward is None
    assert work.spec.training.compile == "off"
    assert "training goes on without: RuntimeError: no kernel" in settle.text()


def test_a_compiled_run_is_the_plain_one_with_the_same_names(make_job, start, losses):
    if find_obstacle("cpu", {}) is not None:
        pytest.fail("this test needs g++, as CI has it")
    curves = []
    for name, compiled in (("plain", "off"), ("compiled", "default")):
        job_dir = make_job(name, model={"name": "amdnet"}, training={"compile": compiled})
        loop, work = start(job_dir)
        assert work.spec.training.compile == compiled
        loop.run()
        curves.append(losses(job_dir))
        assert set(work.model.state_dict()) == {
            f"{part}.{kind}" for part in ("conv1", "conv2", "head") for kind in ("weight", "bias")
        }
    assert curves[0] == pytest.approx(curves[1], rel=1e-3)
