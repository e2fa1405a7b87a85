"""FADE_FORCE_MP_COUNT: what Inductor sees, and that it is kept only where it is faster."""

import json

import pytest
import torch

from worker.trainer.autotune import compiling, processors
from worker.trainer.autotune.compiling import Trial
from worker.trainer.autotune.processors import compile_with_inductor, has_won, tune_processors
from worker.trainer.autotune.remembered import Remembered

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("forced", "difference", "won"),
    [(0.9, 0.0, True), (0.98, 0.0, False), (1.1, 0.0, False), (0.5, 0.1, False)],
)
def test_a_faster_step_with_equal_results_wins(forced, difference, won):
    assert has_won(Trial(1.0, forced, difference, 30.0), precision="fp32") is won


@pytest.fixture
def settle(tmp_path, make_job, make_event_log, start, monkeypatch):
    """Settles the number for a job whose compiled steps take times that a test gives."""
    event_log = make_event_log("processors.jsonl")
    _, setup = start(make_job(training={"compile": "off"}))
    compiled = []

    def plain(*inputs):
        return setup.model(*inputs)

    def forced(*inputs):
        return setup.model(*inputs)

    def compile_for(_forward, count):
        compiled.append(count)
        return forced

    def call(value, *, seconds=1.0, error=None, compile_for=compile_for):
        def time_one(_setup, forward, *, device):
            assert device == CPU
            if forward is forced and error is not None:
                raise error
            return (seconds if forward is forced else 1.0), (1.0, 1.0)

        monkeypatch.setattr(compiling, "time_step", time_one)
        chosen = tune_processors(
            setup,
            plain,
            device=CPU,
            environ={} if value is None else {processors.VARIABLE: value},
            remembered=Remembered(tmp_path / "measured", {}),
            event_log=event_log,
            compile_for=compile_for,
        )
        return "forced" if chosen is forced else "plain"

    def read():
        lines = (tmp_path / "processors.jsonl").read_text().splitlines()
        found = [json.loads(line)["data"] for line in lines]
        said = [data.get("text") or data.get("message") or "" for data in found]
        return [text for text in said if processors.VARIABLE in text]

    call.compiled, call.read = compiled, read
    return call


def test_a_faster_number_is_kept_and_not_measured_again(settle):
    assert settle("84", seconds=0.8) == "forced"
    assert "=84 is kept for Inductor: a compiled step takes 800.0 ms with it" in settle.read()[-1]
    assert settle("84", seconds=0.99) == "forced"
    assert "takes 800.0 ms with it" in settle.read()[-1]


def test_a_number_that_gains_nothing_is_left_and_not_compiled_again(settle):
    assert settle("84", seconds=0.99) == "plain"
    assert "=84 is not kept" in settle.read()[-1]
    assert settle("84", seconds=0.5) == "plain"
    assert settle.compiled == [84]
    assert settle("42", seconds=0.5) == "forced"


def test_nothing_is_tried_without_the_variable_or_with_a_wrong_one(settle):
    assert settle(None) == "plain"
    for wrong in ("0", "-3", "many", "4.5"):
        assert settle(wrong, seconds=0.1) == "plain"
        assert "must be a whole number above 0" in settle.read()[-1]
    assert settle("84", compile_for=None) == "plain"
    assert "does not use the number on a CPU" in settle.read()[-1]
    assert settle.compiled == []


def test_a_number_that_does_not_compile_is_left_with_a_warning(settle):
    assert settle("84", error=RuntimeError("no kernel\nmore")) == "plain"
    assert settle.read()[-1] == "FADE_FORCE_MP_COUNT=84 failed: RuntimeError: no kernel"


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")
def test_inductor_alone_sees_the_number_in_both_passes(monkeypatch):
    from functorch.compile import make_boxed_func
    from torch._inductor import compile_fx
    from torch._inductor.runtime.hints import DeviceProperties

    seen = []

    def inner(graph, _inputs, **_options):
        seen.append(
            (
                DeviceProperties.create(CPU).multi_processor_count,
                torch.compiler.config.cache_key_tag,
            )
        )
        return make_boxed_func(graph.forward)

    monkeypatch.setattr(compile_fx, "compile_fx_inner", inner)
    real = DeviceProperties.create(CPU)
    forced = compile_with_inductor(lambda x: (x.exp() * 2).sum(), 4242)
    numbers = torch.arange(3.0, requires_grad=True)
    with torch._functorch.config.patch(enable_autograd_cache=False):
        forced(numbers).backward()
    assert torch.allclose(numbers.grad, 2 * numbers.detach().exp())
    assert seen == [(4242, "FADE_FORCE_MP_COUNT=4242")] * 2
    assert DeviceProperties.create(CPU) == real
    assert torch.compiler.config.cache_key_tag == ""
