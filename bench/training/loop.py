"""Throughput of the training loop relative to the bare step and to plain loops.

Several ways to train amdnet (batch 64, 32x32) and resnet18 (batch 128) alternate in chunks of
steps, so that other load on the machine affects all of them equally:

- bare: forward, backward and optimiser step on resident random tensors, nothing else;
- redkiln: the loop of a real job with flip, rotation and normalisation; a chunk is an epoch with
  its checkpoint and events, evaluation excluded;
- plain: a PyTorch DataLoader over files with the usual transforms written with PIL, in fp32, in a
  process with a user's settings;
- lightning: the same loader and model under Lightning's Trainer with its defaults, in another
  process.

The default job, with everything `auto`, is compared with the last two by samples/s, because the
batch sizes differ.

A figure is the median ratio of neighbouring chunks; the detail shows the spread.
"""

import statistics
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path

import torch

from bench.image_archives import CIFAR, archive_dataset, generate_archive
from bench.isolated import print_results, run_isolated
from bench.machine import DEVICE, describe_device, has_bf16
from bench.result import Result, at_least, info
from bench.training.bare_step import bare_chunks
from bench.training.job_loop import JobLoop, write_job
from bench.training.plain_loops import BATCH, PlainProcess
from bench.turns import alternate, compare
from worker.process.memory import keep_freed_memory

PLAIN_CHUNK = 35
"""Steps of batch 64 in a chunk of the plain loop."""
PIECES = 35
"""Pieces of an epoch and of as many bare steps, so that the two alternate within seconds."""
SLOW_SHARE = 8
"""Factor by which a chunk of resnet18 is shorter: its steps take some 50 times as long."""

TARGETS = {
    ("amdnet", 64, "fp32"): 0.95,
    ("amdnet", 64, "bf16"): 0.87,
    ("resnet18", 128, "fp32"): 0.98,
}
"""Smallest allowed share of the bare step's throughput, by model, batch size and precision."""
TARGET_WITH_TILES = 2.5
TARGET_WITHOUT_TILES = 1.15
"""Targets of a default job over a plain loop, on a CPU with matrix units for bf16 (AMX) or without.
GPUs have no target."""


def run() -> list[Result]:
    """Measure in a separate process."""
    return run_isolated("bench.training.loop")


def measure() -> list[Result]:
    """Compare our loop with the bare step, and default jobs with plain loops."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench-training-") as folder:
        root = Path(folder)
        archive = CIFAR if CIFAR.exists() else generate_archive(root / "generated.zip")
        data = "CIFAR-10 (12k)" if archive == CIFAR else "generated JPEGs"
        results = []
        for model, batch, precision in TARGETS:
            name = f"{model}: training throughput over the bare step, {precision}"
            if precision == "bf16" and not has_bf16():
                why = "not measured: this machine has no bf16 instructions"
                results.append(info(name, float("nan"), "", why))
                continue
            results.append(
                over_bare_step(
                    name, root, archive, model=model, batch=batch, precision=precision, data=data
                )
            )
            print_figure(results[-1])
        for model in ("amdnet", "resnet18"):
            found = default_over_plain(root, archive, model=model, data=data)
            for result in found:
                print_figure(result)
            results += found
        return results


def print_figure(result: Result) -> None:
    """Print a figure once it is measured; all take a quarter of an hour on two cores."""
    print(f"{result.name}: {result.value:.4g} {result.unit}; {result.detail}", file=sys.stderr)


def over_bare_step(
    name: str, root: Path, archive: Path, *, model: str, batch: int, precision: str, data: str
) -> Result:
    """Measure a job's throughput relative to that of its bare step."""
    training = {"precision": precision, "batch_size": batch, "compile": "off"}
    with closing(RedkilnChunks(root, archive, model=model, training=training)) as redkiln:
        bare = bare_chunks(redkiln.memory_format, model=model, batch=batch, precision=precision)
        steps = redkiln.steps_per_epoch // (1 if model == "amdnet" else SLOW_SHARE)
        seconds = alternate(
            {"bare": bare, "redkiln": redkiln}, steps=dict.fromkeys(WAYS, steps), pieces=PIECES
        )
    ratio, pairs = compare(seconds["bare"], seconds["redkiln"])
    rate = steps * batch / statistics.median(seconds["redkiln"])
    how = (
        f"{rate:,.0f} samples/s; pairs of {steps} steps: {pairs}; {model}, batch {batch}, flip + "
        f"rotation + normalise, {precision}, {data}, {describe_device()}"
    )
    return at_least(name, ratio, "ratio", TARGETS[model, batch, precision], how)


WAYS = ("bare", "redkiln", "plain", "lightning")


def default_over_plain(root: Path, archive: Path, *, model: str, data: str) -> list[Result]:
    """Measure a job with default settings relative to a plain loop and to Lightning."""
    has_tiles = bool(torch.cpu.get_capabilities().get("amx_bf16"))
    share = 1 if model == "amdnet" else SLOW_SHARE
    with ExitStack() as stack:
        chunks = RedkilnChunks(root, archive, model=model, training={})
        redkiln = stack.enter_context(closing(chunks))
        others = {
            way: stack.enter_context(closing(PlainProcess(way, model=model, archive=archive)))
            for way in ("plain", *(["lightning"] if find_spec("lightning") else []))
        }
        samples = PLAIN_CHUNK * BATCH // share
        steps = dict.fromkeys(WAYS, samples // BATCH)
        steps["redkiln"] = max(1, samples // redkiln.batch_size)
        seconds = alternate({**others, "redkiln": redkiln}, steps=steps)
    ours = [s / (steps["redkiln"] * redkiln.batch_size) for s in seconds["redkiln"]]
    results = []
    for name in others:
        theirs = [s / (steps[name] * BATCH) for s in seconds[name]]
        ratio, pairs = compare(theirs, ours)
        rates = [f"{1 / statistics.median(times):,.0f}" for times in (ours, theirs)]
        how = (
            f"{rates[0]} samples/s, theirs {rates[1]}; {pairs}; batch {redkiln.batch_size} in "
            f"{redkiln.precision}, theirs {BATCH} in fp32; {data}, {describe_device()}"
        )
        words = "a plain DataLoader loop" if name == "plain" else "Lightning"
        title = f"{model}: default job over {words}"
        if name == "plain" and DEVICE.type == "cpu":
            target = TARGET_WITH_TILES if has_tiles else TARGET_WITHOUT_TILES
            results.append(at_least(title, ratio, "ratio", target, how))
        else:
            results.append(info(title, ratio, "ratio", how))
    return results


class RedkilnChunks(JobLoop):
    """A job that trains a model for longer than the measurement lasts.

    Args:
        root: Folder below which the job gets a folder with a separate cache.
        archive: Zip of images.
        model: Name of the model.
        training: Settings of the training section in addition to steps and augmentation.
    """

    def __init__(
        self, root: Path, archive: Path, *, model: str, training: Mapping[str, object]
    ) -> None:
        folder = Path(tempfile.mkdtemp(dir=root))
        augment = {"flip": True, "rotate_degrees": 10.0, "crop": 0.0}
        spec = {
            "task": "image-classification",
            "dataset": "bench",
            "model": model,
            "training": {"steps": 1_000_000, "augment": augment, **training},
        }
        super().__init__(write_job(folder, spec, archive_dataset(archive, folder)))
        inputs, _ = self.setup.batches.get(0, 0)
        assert isinstance(inputs, torch.Tensor)
        self.steps_per_epoch = self.setup.plan.steps_per_epoch
        self.precision = self.setup.spec.training.precision
        self.batch_size = int(self.setup.spec.training.batch_size)
        is_last = inputs.is_contiguous(memory_format=torch.channels_last)
        self.memory_format = torch.channels_last if is_last else torch.contiguous_format


if __name__ == "__main__":
    print_results(measure())
