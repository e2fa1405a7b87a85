"""What the training loop costs: its samples/s over those of the bare step, and of a plain loop.

Ways to train amdnet (batch 64, 32x32) and resnet18 (batch 128) take turns, a chunk of steps each,
so that whatever else the machine does hits all of them:

- bare: forward, backward and optimiser step on resident random tensors, nothing else;
- redkiln: the loop of a real job with flip, rotation and normalisation; a chunk is an epoch with
  its checkpoint and events, evaluation excluded;
- plain: a PyTorch DataLoader over files with the usual transforms written with PIL, in fp32, in a
  process as a user starts it;
- lightning: the same loader and model under Lightning's Trainer with its defaults, in another.

The default job, with everything `auto`, is held against the last two by samples/s: batches differ.

A ratio is the median of those of neighbouring chunks, and beside it stands their spread.
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
"""Steps of the plain loop in a chunk, of batch 64."""
PIECES = 35
"""That an epoch and as many bare steps are cut into, to take turns within seconds."""
SLOW_SHARE = 8
"""Steps of resnet18 in a chunk are so many times fewer: each takes some 50 times as long."""

TARGETS = {
    ("amdnet", 64, "fp32"): 0.95,
    ("amdnet", 64, "bf16"): 0.87,
    ("resnet18", 128, "fp32"): 0.98,
}
"""Model, batch, precision, and the least share of the bare step's throughput."""
TARGET_WITH_TILES = 2.5
TARGET_WITHOUT_TILES = 1.15
"""Of a default job over a plain loop, on a CPU with matrix units for bf16 (AMX) or without. None is
promised on a GPU."""


def run() -> list[Result]:
    """Measure in a process of its own."""
    return run_isolated("bench.training.loop")


def measure() -> list[Result]:
    """Our loop against the bare step, and default jobs against what a user would write."""
    keep_freed_memory()
    with tempfile.TemporaryDirectory(prefix="bench-training-") as folder:
        root = Path(folder)
        archive = CIFAR if CIFAR.exists() else generate_archive(root / "generated.zip")
        data = "CIFAR-10 (12k)" if archive == CIFAR else "generated JPEGs"
        results = []
        for model, batch, precision in TARGETS:
            name = f"{model}: training throughput over the bare step, {precision}"
            if precision == "bf16" and not has_bf16():
                why = "not measured: no instructions for bf16 here"
                results.append(info(name, float("nan"), "", why))
                continue
            results.append(
                over_bare_step(
                    name, root, archive, model=model, batch=batch, precision=precision, data=data
                )
            )
            tell(results[-1])
        for model in ("amdnet", "resnet18"):
            found = default_over_plain(root, archive, model=model, data=data)
            for result in found:
                tell(result)
            results += found
        return results


def tell(result: Result) -> None:
    """Say a figure as soon as it is there: all of them take a quarter of an hour on two cores."""
    print(f"{result.name}: {result.value:.4g} {result.unit}; {result.detail}", file=sys.stderr)


def over_bare_step(
    name: str, root: Path, archive: Path, *, model: str, batch: int, precision: str, data: str
) -> Result:
    """A job's throughput over that of its own step."""
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
    """What a job makes of a CPU when nothing is asked for, over what one writes first."""
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
            f"{rates[0]} of {rates[1]} samples/s; {pairs}; batch {redkiln.batch_size} in "
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
        root: gets a folder for it, with a cache of its own.
        archive: of images.
        model: by its name.
        training: of the spec, beside the number of steps and the augmentation.
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
