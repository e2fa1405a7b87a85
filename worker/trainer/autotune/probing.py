"""Measures how fast a model trains at each batch size, with a few real steps on generated batches.

The model itself is not changed: a copy is trained and discarded, and random numbers drawn here are
not drawn from the job's generators.
"""

import copy
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn

from redkiln.spec.job_spec import Training
from worker.trainer.autotune.batch_size import Speeds, compare_turns
from worker.trainer.autotune.step_trials import drawing_apart
from worker.trainer.devices import autocast_of, synchronize
from worker.trainer.inputs import Batch, as_parts
from worker.trainer.optim.optimizer import AnyOptimizer, build_optimizer
from worker.trainer.optim.recompute import recompute_activations

BUDGET_SECONDS = (5.0, 60.0)
BUDGET_SHARE = 0.01
"""Time for one search, after the first size, whose first step may be the first of the process: a
hundredth of the training, within these limits."""
REPEATS = 5
ENOUGH_SECONDS = 0.25
"""Total time of steps at one size after which no more are timed."""
NEAR = 0.75
"""Share of the fastest rate above which sizes are timed again, alternately."""
MOST_TURNS = 8
"""Their median is then known to half the spread of a single timing."""


@dataclass(frozen=True)
class Probe:
    """A model to measure.

    Attributes:
        loss: Loss of outputs and targets.
        make_batch: Returns a generated batch of a number of samples, on the device.
        training: Section that sets precision, optimiser, accumulation and gradient checkpointing.
    """

    model: nn.Module
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    make_batch: Callable[[int], Batch]
    training: Training
    device: torch.device


def count_saved_bytes(probe: Probe, batch_size: int) -> int:
    """Return the memory of the activations that a step keeps for its backward pass."""
    weights = {p.untyped_storage().data_ptr() for p in probe.model.parameters()}
    seen: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with (
        drawing_apart(probe.device),
        torch.autograd.graph.saved_tensors_hooks(note, lambda kept: kept),
    ):
        model = _copy_model(probe)
        # The backward pass also keeps the copy's weights, which take no further memory.
        weights |= {p.untyped_storage().data_ptr() for p in model.parameters()}
        _forward(probe, model, probe.make_batch(batch_size))
    return sum(seen.values())


def measure_speeds(
    probe: Probe,
    sizes: Sequence[int],
    *,
    is_enough: Callable[[dict[int, float]], bool],
    num_samples: int = 0,
) -> Speeds:
    """Measure how fast training is at each of these increasing batch sizes.

    The search ends before a size that would take too long, and at one that does not fit into
    memory. In the time left, the fastest sizes are timed again alternately, because on a machine
    with other users a single slow moment could decide otherwise.

    Args:
        probe: The model to measure.
        sizes: Batch sizes.
        is_enough: Whether the search can end, from the rates so far.
        num_samples: Samples that training will process; a long training gets a longer search.

    Raises:
        torch.OutOfMemoryError: even the first size does not fit.
    """
    rates: dict[int, float] = {}
    ends_at = None
    with drawing_apart(probe.device):
        model = _copy_model(probe)
        optimizer = build_optimizer(model, probe.training.optimizer)
        for size in sizes:
            try:
                seconds = _time_steps(probe, model, optimizer, size)
            except torch.OutOfMemoryError:
                if not rates:
                    raise
                break
            rates[size] = size / seconds
            if ends_at is None:
                ends_at = time.perf_counter() + find_budget(num_samples / rates[size])
            # The next size takes about twice as long per step, once to warm up and once measured.
            if is_enough(rates) or time.perf_counter() + 4 * seconds > ends_at:
                break
        assert ends_at is not None
        speeds = _take_turns(partial(_time_steps, probe, model, optimizer), rates, ends_at=ends_at)
    del model, optimizer
    if probe.device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
    return speeds


def _take_turns(
    time_steps: Callable[[int], float], rates: dict[int, float], *, ends_at: float
) -> Speeds:
    """Time the fastest sizes again alternately while time allows, and combine all turns."""
    near = [size for size, rate in rates.items() if rate >= NEAR * max(rates.values())]
    if len(near) < 2:
        return Speeds(rates)
    turns = [{size: rates[size] for size in near}]
    while len(turns) < MOST_TURNS:
        # Each size runs once to warm up and once measured, at best as fast as before.
        if time.perf_counter() + sum(2 * size / rates[size] for size in near) > ends_at:
            break
        try:
            turns.append({size: size / time_steps(size) for size in near[::-1]})
        except torch.OutOfMemoryError:
            break  # another process took memory meanwhile; use the results so far
    compared = compare_turns(turns)
    return Speeds(rates | compared.rates, compared.doubt)


def find_budget(training_seconds: float) -> float:
    """Return the seconds that one search may take, from training time at the smallest batch."""
    least, most = BUDGET_SECONDS
    return min(most, max(least, BUDGET_SHARE * training_seconds))


def free_bytes(device: torch.device, *, root: Path = Path("/")) -> int:
    """Return the memory a process may still take: of the GPU, or of the host and control group."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    meminfo = (root / "proc/meminfo").read_text().splitlines()
    lines = dict(line.split(":", 1) for line in meminfo)
    available = int(lines["MemAvailable"].split()[0]) * 1024
    limit, used = (root / "sys/fs/cgroup" / name for name in ("memory.max", "memory.current"))
    if not limit.exists() or (limit_text := limit.read_text().strip()) == "max":
        return available
    return min(available, int(limit_text) - int(used.read_text()))


def _copy_model(probe: Probe) -> nn.Module:
    model = copy.deepcopy(probe.model).train()
    if probe.training.gradient_checkpointing == "on":
        recompute_activations(model)
    return model


def _time_steps(probe: Probe, model: nn.Module, optimizer: AnyOptimizer, size: int) -> float:
    """Return the seconds of the fastest step of this size."""
    batch = probe.make_batch(max(1, size // probe.training.accumulation))
    _step(probe, model, optimizer, batch)
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < ENOUGH_SECONDS:
        synchronize(probe.device)
        start = time.perf_counter()
        _step(probe, model, optimizer, batch)
        synchronize(probe.device)
        times.append(time.perf_counter() - start)
    return min(times)


def _step(probe: Probe, model: nn.Module, optimizer: AnyOptimizer, batch: Batch) -> None:
    for _ in range(probe.training.accumulation):
        _forward(probe, model, batch).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _forward(probe: Probe, model: nn.Module, batch: Batch) -> torch.Tensor:
    inputs, targets = batch
    with autocast_of(probe.device, probe.training.precision):
        outputs = model(*as_parts(inputs))
    return probe.loss(outputs.float(), targets)
