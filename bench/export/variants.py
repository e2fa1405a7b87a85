"""Every variant of built-in models: size, drop of the metric, speed against fp32, and verdict.

Each file also runs in a process with onnxruntime alone, and the export is timed again when warm.

Each case is a whole job: rehearsal, training, fine-tuning for int8-qat, and export with its gate.
`BENCH_EXPORT=mnist-cnn/digits,...` runs only these cases. No case starts after
`BENCH_EXPORT_MINUTES` (60). With `BENCH_EXPORT_EMULATED=1`, int8 files also run on a CPU without
VNNI, which Debian's package qemu-user emulates. Each row is also appended to `bench/out/export.md`.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.export.again import run_alone, run_emulated, time_again
from bench.export.cases import CASES, Case
from bench.result import Result, at_least, at_most, info
from bench.training.job_loop import write_job
from worker.jobdir import EXIT_DONE, JobDir
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

ROWS_PATH = Path(__file__).parents[1] / "out" / "export.md"
BATCH = 32
"""Batch size of the speeds, with one thread."""
MOST_DROP = {"fp16": 0.002, "int8-static": 0.01, "int8-qat": 0.005}
"""Allowed drop of an accuracy."""
MOST_SIZE = 0.30
"""Largest size of an int8 file of a convolutional network, as a share of the fp32 file."""
LEAST_SPEED = 1.5
"""Of int8-static of resnet18, on a CPU with VNNI."""


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
        if case.is_missing:
            results.append(info(case.name, 0, "", f"left out: {case.data} is missing"))
            continue
        results += _measure(case)
    return results


def _measure(case: Case) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="bench-export-") as folder:
        root = Path(folder)
        job_dir = write_job(root, case.spec, case.open(root), device="cpu")
        for step in (lambda: run_job(job_dir, StopSignal()), lambda: export_job(job_dir)):
            if step() != EXIT_DONE:
                log = job_dir.events_path.read_text().splitlines()[-1]
                return [Result(case.name, 0, "", None, False, f"the job failed: {log[:300]}")]
        path = _find(job_dir)
        manifest = _read_manifest(path)
        results = [*_list_figures(case, manifest), *run_alone(case.name, path.parent, manifest)]
        if os.environ.get("BENCH_EXPORT_EMULATED"):
            results += run_emulated(case.name, path.parent, manifest)
        return [*results, *time_again(case, job_dir)]


def _find(job_dir: JobDir) -> Path:
    (path,) = job_dir.root.rglob("manifest.json")
    return path


def _read_manifest(path: Path) -> dict[str, Any]:
    """Return a manifest, in which a float32 file without others is a variant, too."""
    manifest: dict[str, Any] = json.loads(path.read_text())
    if not manifest["variants"]:
        metrics = manifest["metrics"]
        name = next(one for one in metrics if one.endswith("_onnx"))
        metric, reference = metrics[name], metrics[name.removesuffix("_onnx")]
        plain = {
            "name": "fp32",
            "file": "model.onnx",
            "metric_name": name.removeprefix("test/").removesuffix("_onnx"),
            "metric": metric,
            "drop": abs(metric - reference),
            "size_bytes": path.with_name("model.onnx").stat().st_size,
            "verified": manifest["verification"]["verified"],
            "misses": manifest["verification"].get("misses", []),
            "latency": [],
        }
        manifest["variants"] = [plain]
    return manifest


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
