"""Every variant of built-in models: size, drop of the metric, speed against fp32, and verdict.

Each file also runs in a process with onnxruntime alone, and the export is timed again when warm.

Each case is a whole job: rehearsal, training, fine-tuning for int8-qat, and export with its gate.
`BENCH_EXPORT=mnist-cnn/digits,...` runs only these cases. No case starts after
`BENCH_EXPORT_MINUTES` (60). With `BENCH_EXPORT_EMULATED=1`, int8 files also run on a CPU without
VNNI, which Debian's package qemu-user emulates. Each row is also appended to `bench/out/export.md`.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.export.again import run_alone, run_emulated, time_again
from bench.image_archives import DATA, archive_dataset
from bench.result import Result, at_least, at_most, info
from bench.training.job_loop import write_job
from bench.training.text import read_texts, write_table
from worker.jobdir import EXIT_DONE, JobDir, LocalDataset
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

ROWS_PATH = Path(__file__).parents[1] / "out" / "export.md"
ALL = ["fp16", "int8-dynamic", "int8-static"]
BATCH = 32
"""Batch size of the speeds, with one thread."""
MOST_DROP = {"fp16": 0.002, "int8-static": 0.01, "int8-qat": 0.005}
"""Allowed drop of an accuracy."""
MOST_SIZE = 0.30
"""Largest size of an int8 file of a convolutional network, as a share of the fp32 file."""
LEAST_SPEED = 1.5
"""Of int8-static of resnet18, on a CPU with VNNI."""


@dataclass(frozen=True)
class Case:
    """A model, its data, and the length of its training.

    Attributes:
        model: Name of a built-in model.
        data: A built-in data set, or an archive of `shared/data`.
        epochs: Epochs of training.
        config: Fields of the configuration of a network of transformers.
        interface: Kind of inputs that the files take (`model.interface`).
        is_fine_tuned: Whether int8-qat is one of the variants, which takes an epoch more.
    """

    model: str
    data: str
    task: str = "image-classification"
    epochs: int = 2
    config: Mapping[str, Any] = field(default_factory=dict)
    interface: str = "plain"
    is_fine_tuned: bool = True

    @property
    def name(self) -> str:
        """Name of the case."""
        return f"{self.model}/{Path(self.data).stem}"

    @property
    def is_convolutional(self) -> bool:
        """Whether it is a network of images with convolutions."""
        return self.task == "image-classification" and not self.config

    @property
    def fine_tunes(self) -> bool:
        """Whether int8-qat is one of its variants."""
        return self.is_convolutional and self.is_fine_tuned

    @property
    def spec(self) -> dict[str, Any]:
        """The job's spec."""
        training: dict[str, Any] = {"epochs": self.epochs}
        variants = list(ALL)
        model = {"name": self.model, "interface": self.interface}
        if self.is_convolutional:
            training["batch_size"] = 128
        if self.fine_tunes:
            training["quantize"] = {"epochs": 1}
            variants.append("int8-qat")
        return {
            "task": self.task,
            "dataset": "bench",
            "model": {**model, "config": self.config} if self.config else model,
            "training": training,
            "export": {"variants": variants},
        }


TEXTS = "sms-spam.tsv"
SMALL_VIT = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
    "image_size": 8, "patch_size": 2,
}  # fmt: skip
"""A short name of transformers with a configuration for small pictures."""
CASES = [
    Case("mnist-cnn", "digits"),
    Case("amdnet", "digits"),
    Case("mlp", "breast-cancer", "tabular-classification", epochs=20),
    Case("mlp", "diabetes", "tabular-regression", epochs=20),
    Case("distilbert", TEXTS, "text-classification", epochs=1, interface="embedded"),
    Case("vit", "digits", epochs=1, config=SMALL_VIT),
    Case("mnist-cnn", "mnist-12k.zip"),
    Case("amdnet", "mnist-12k.zip"),
    Case("amdnet", "cifar10-12k.zip"),
    Case("cifar-fast", "cifar10-12k.zip"),
    Case("resnet18", "cifar10-12k.zip", epochs=1, is_fine_tuned=False),
]


def run() -> list[Result]:
    """Run the chosen cases and return the figures of every variant."""
    chosen = set(filter(None, os.environ.get("BENCH_EXPORT", "").split(",")))
    ends_at = time.monotonic() + 60 * float(os.environ.get("BENCH_EXPORT_MINUTES", "60"))
    results: list[Result] = []
    for case in CASES:
        if chosen and case.name not in chosen:
            continue
        if time.monotonic() > ends_at:
            results.append(info(case.name, 0, "", "left out: the time is over"))
            continue
        if case.data.endswith(".zip") and not (DATA / case.data).is_file():
            results.append(info(case.name, 0, "", f"left out: {case.data} is missing"))
            continue
        results += _measure(case)
    return results


def _measure(case: Case) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="bench-export-") as folder:
        root = Path(folder)
        job_dir = write_job(root, case.spec, _open(case, root), device="cpu")
        for step in (lambda: run_job(job_dir, StopSignal()), lambda: export_job(job_dir)):
            if step() != EXIT_DONE:
                log = job_dir.events_path.read_text().splitlines()[-1]
                return [Result(case.name, 0, "", None, False, f"the job failed: {log[:300]}")]
        path = _find(job_dir)
        manifest = json.loads(path.read_text())
        results = [*_list_figures(case, manifest), *run_alone(case.name, path.parent, manifest)]
        if os.environ.get("BENCH_EXPORT_EMULATED"):
            results += run_emulated(case.name, path.parent, manifest)
        epochs = case.epochs + case.fine_tunes
        is_large = case.model == "resnet18"
        return [*results, *time_again(case.name, job_dir, epochs=epochs, is_large=is_large)]


def _open(case: Case, root: Path) -> LocalDataset:
    if case.data == TEXTS:
        path = root / "texts.parquet"
        write_table(path, read_texts()[0])
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return LocalDataset(name="bench", kind="archive", index_path=str(path), fingerprint=digest)
    if case.data.endswith(".zip"):
        grey_side = 28 if case.data.startswith("mnist") else None
        return archive_dataset(DATA / case.data, root, grey_side=grey_side)
    name = f"builtin:{case.data}"
    return LocalDataset(name=name, kind="builtin", fingerprint=name)


def _find(job_dir: JobDir) -> Path:
    (path,) = job_dir.root.rglob("manifest.json")
    return path


def _list_figures(case: Case, manifest: dict[str, Any]) -> Iterator[Result]:
    variants = manifest["variants"]
    plain = next(one for one in variants if one["name"] == "fp32")
    for one in variants:
        name = f"{case.name} {one['name']}"
        if not one["file"]:
            yield Result(name, 0, "", None, False, "; ".join(one["misses"]))
            continue
        size = one["size_bytes"] / plain["size_bytes"]
        speed = _time(plain) / _time(one) if one["latency"] else None
        _write_row(case, one, size=size, speed=speed)
        verdict = "verified" if one["verified"] else "UNVERIFIED: " + "; ".join(one["misses"])
        metric = f"{one['metric_name']} {one['metric']:.4f} (fp32 {plain['metric']:.4f})"
        detail = f"{metric}, {verdict}"
        allowed = MOST_DROP.get(one["name"])
        if allowed is None or one["metric_name"] != "accuracy":
            yield info(f"{name}: drop", one["drop"], "", detail)
        else:
            yield at_most(f"{name}: drop", one["drop"], "", allowed, detail)
        if one["name"].startswith("int8") and case.is_convolutional:
            yield at_most(f"{name}: size / fp32", size, "", MOST_SIZE, f"{one['size_bytes']:,} B")
        if speed is not None:
            yield _judge_speed(case, one, f"{name}: speed / fp32", speed)


def _judge_speed(case: Case, one: dict[str, Any], name: str, speed: float) -> Result:
    features = one["cpu"].get("features", [])
    detail = f"batch {BATCH}, 1 thread, alternating; {', '.join(features) or 'unknown CPU'}"
    if (case.model, one["name"]) == ("resnet18", "int8-static") and "avx512_vnni" in features:
        return at_least(name, speed, "", LEAST_SPEED, detail)
    return info(name, speed, "", detail)


def _time(one: dict[str, Any]) -> float:
    return next(
        float(time["median_ms"])
        for time in one["latency"]
        if (time["batch"], time["threads"]) == (BATCH, 1)
    )


def _write_row(case: Case, one: dict[str, Any], *, size: float, speed: float | None) -> None:
    verdict = "verified" if one["verified"] else "unverified"
    cells = [case.name, one["name"], f"{one['metric_name']} {one['metric']:.4f}"]
    cells += [f"{one['drop']:+.4f}", f"{size:.2f}", f"{speed:.2f}" if speed else "", verdict]
    ROWS_PATH.parent.mkdir(exist_ok=True)
    with ROWS_PATH.open("a") as file:
        file.write(f"| {' | '.join(cells)} |\n")
