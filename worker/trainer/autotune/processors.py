"""`FADE_FORCE_MP_COUNT`: another number of processors for Inductor alone, kept where it is faster.

On RDNA, HIP counts work-group processors of two compute units each. Inductor uses the number only
to split reductions and to size grids, so another one changes speed and rounding, not results
(torch/_inductor of torch 2.13: choices.py, ir.py, lowering.py, codegen/simd.py,
runtime/triton_heuristics.py; read 2026-11-24). Inductor keeps a copy of the device's properties,
and only this copy changes: torch, Triton and libraries still see HIP's number.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import torch

from worker.process.event_log import EventLog
from worker.trainer.autotune.compiling import Trial, compare_steps
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.step_trials import TOLERANCES, Forward, key_of, warming
from worker.trainer.setup import TrainingSetup

VARIABLE = "FADE_FORCE_MP_COUNT"
MIN_GAIN = 0.03
"""Least gain in a step's time for which the number is kept, as for patches."""
CompileFor = Callable[[Forward, int], Forward]


def tune_processors(
    setup: TrainingSetup,
    forward: Forward | None,
    *,
    device: torch.device,
    environ: Mapping[str, str],
    remembered: Remembered,
    event_log: EventLog,
    compile_for: CompileFor | None = None,
) -> Forward | None:
    """Return the faster of two compiled functions, if the user asked for the trial.

    Args:
        setup: The prepared job; its model is unchanged afterwards.
        forward: The compiled function that training would call; None if it calls the model.
        device: Device that it runs on.
        environ: May contain the number in `FADE_FORCE_MP_COUNT`.
        remembered: Earlier measurements on this host and device.
        event_log: Receives the measurement and the decision.
        compile_for: Compiles a function for a number of processors. None: Inductor.
    """
    value = environ.get(VARIABLE)
    if forward is None or value is None:
        return forward
    if device.type == "cpu" and compile_for is None:
        event_log.message(f"{VARIABLE} is ignored: Inductor does not use the number on a CPU")
        return forward
    count = _parse(value)
    if count is None:
        text = f"{VARIABLE}={value} is ignored; it must be a whole number above 0"
        event_log.warning("processors_ignored", text)
        return forward
    compile_for = compile_for or compile_with_inductor
    known = remembered.find("processors_trial", _key(setup, count))
    if known is None:
        return _try(setup, forward, compile_for(setup.model, count), count=count, device=device,
                    remembered=remembered, event_log=event_log)  # fmt: skip
    is_kept = has_won(Trial(**known), precision=setup.spec.training.precision)
    event_log.message(describe_trial(Trial(**known), count, is_kept=is_kept))
    return compile_for(setup.model, count) if is_kept else forward


def has_won(trial: Trial, *, precision: str) -> bool:
    """Return whether steps are faster with the forced number and compute the same numbers."""
    is_faster = trial.compiled_seconds <= (1 - MIN_GAIN) * trial.plain_seconds
    return is_faster and trial.difference <= TOLERANCES[precision]


def describe_trial(trial: Trial, count: int, *, is_kept: bool) -> str:
    """Describe the measurement and the decision, as a message to the user."""
    return (
        f"{VARIABLE}={count} is {'kept' if is_kept else 'not kept'} for Inductor: a compiled step "
        f"takes {1000 * trial.compiled_seconds:.1f} ms with it, {1000 * trial.plain_seconds:.1f} "
        f"ms without; their results differ by {trial.difference:.1e}"
    )


def compile_with_inductor(forward: Forward, count: int) -> Forward:
    """Compile a function; only Inductor sees the number, and only while it compiles this one."""
    import torch._inductor.config
    from torch._inductor import compile_fx

    torch._inductor.config.compile_threads = 1  # other processes would not see it
    inner = compile_fx.compile_fx_inner

    @functools.wraps(inner)
    def compile_inner(*args: Any, **kwargs: Any) -> Any:
        with reporting(count):  # backward graphs may be compiled later
            return inner(*args, **kwargs)

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        with reporting(count):
            return compile_fx.compile_fx(
                graph, inputs, compile_inner, config_patches={"fallback_random": True}
            )

    return torch.compile(forward, backend=backend)


@contextlib.contextmanager
def reporting(count: int) -> Iterator[None]:
    """Let Inductor's copy of a device's properties have this number of processors."""
    from torch._inductor.runtime.hints import DeviceProperties

    original = DeviceProperties.__dict__["create"]
    real = DeviceProperties.create

    def create(device: torch.device) -> DeviceProperties:
        return real(device)._replace(multi_processor_count=count)

    inductors: Any = DeviceProperties
    inductors.create = create
    try:
        # Stored graphs of the other number must not be found.
        with torch.compiler.config.patch(cache_key_tag=f"{VARIABLE}={count}"):  # type: ignore[attr-defined]
            yield
    finally:
        inductors.create = original


def _try(
    setup: TrainingSetup,
    forward: Forward,
    forced: Forward,
    *,
    count: int,
    device: torch.device,
    remembered: Remembered,
    event_log: EventLog,
) -> Forward:
    with warming(event_log):
        event_log.message(f"compiling the model again, to try {VARIABLE}={count}")
        try:
            trial = compare_steps(setup, forward, forced, device=device)
        except Exception as error:  # noqa: BLE001 - each part of a compiler has its own errors
            reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
            event_log.warning("processors_ignored", f"{VARIABLE}={count} failed: {reason}")
            return forward
    remembered.save("processors_trial", _key(setup, count), asdict(trial))
    is_kept = has_won(trial, precision=setup.spec.training.precision)
    event_log.message(describe_trial(trial, count, is_kept=is_kept))
    return forced if is_kept else forward


def _key(setup: TrainingSetup, count: int) -> dict[str, Any]:
    return {**key_of(setup), "processors": count}


def _parse(value: str) -> int | None:
    return int(value) if value.isascii() and value.isdigit() and int(value) > 0 else None
