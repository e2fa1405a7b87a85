"""A warm export with its gate, and files in a process that has only onnxruntime and numpy."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.export.cases import Case
from bench.result import Result, at_least, at_most, info
from worker.jobdir import EXIT_DONE, JobDir
from worker.tasks.export import export_job

SMALL_SECONDS = 1.5
"""Longest warm export of a small network, gate included."""
ROUNDS = 3
"""Warm exports of a small network, of which the shortest counts: other programs only add to it."""
EPOCH_SHARE = 0.1
"""Longest warm export of resnet18, as a share of one epoch."""
LEAST_AGREEMENT = 0.999
ALONE = """
import json, sys, numpy, onnxruntime
assert not {"torch", "onnx", "redkiln", "worker"} & set(sys.modules)
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
with numpy.load(sys.argv[2]) as file:
    saved = {name: file[name] for name in file.files}
feed = {one.name: saved[one.name][:64] for one in session.get_inputs()}
if feed.get("images") is not None:
    pixels = feed["images"].transpose(0, 3, 1, 2)
    feed["images"] = pixels.astype(numpy.float32) / numpy.float32(255)
for one in session.get_inputs():
    if one.type == "tensor(int64)":  # tokens are saved in fewer bytes
        feed[one.name] = feed[one.name].astype(numpy.int64)
for one in session.get_overridable_initializers():  # the saved boxes have all scores
    detection = json.loads(session.get_modelmeta().custom_metadata_map["detection"])
    feed[one.name] = numpy.array([detection["scored_threshold"]], numpy.float32)
kinds = {one.name: one.type for one in session.get_outputs()}
# A detector is compared by the classes of its boxes, a segmenter by those of its pixels.
name = next((one for one, kind in kinds.items() if "int" in kind), next(iter(kinds)))
found, expected = session.run([name], feed)[0], saved[name][:64]
if "int" in kinds[name]:
    same = found == expected
elif found.ndim == 2:
    same = found.argmax(1) == expected.argmax(1)
else:
    same = abs(found - expected) <= 0.05 * expected.std()
print(float(same.mean()))
"""
"""Runs up to 64 saved samples; prints the share of answers that are torch's: classes, or numbers at
most a twentieth of their deviation away."""
EMULATOR = "qemu-x86_64"
EMULATED = (EMULATOR, "-cpu", "Haswell")
"""A CPU with AVX2 and without VNNI, on which int8 sums saturate if both sides use all bits."""
MOST_LOST = 0.02
"""How much smaller the share of samples with torch's class may be on the emulated CPU."""


def run_alone(name: str, folder: Path, manifest: dict[str, Any]) -> Iterator[Result]:
    """Load each file in a fresh process and run it on saved samples."""
    plain = manifest["verification"].get("agreement")
    if plain is not None:
        detail = f"{manifest['verification']['num_samples']} samples"
        yield at_least(f"{name} fp32: same class", plain, "", LEAST_AGREEMENT, detail)
    # The file with a tokenizer needs the library of its operators.
    files = [one["file"] for one in manifest["variants"] if one["file"] and one["name"] != "text"]
    found = {file: _run_program(folder, file) for file in files}
    detail = f"share with torch's answer: {found}"
    loaded = sum(_is_share(text) for text in found.values())
    yield at_least(f"{name}: files that run alone", loaded, "", len(files), detail)


def run_emulated(name: str, folder: Path, manifest: dict[str, Any]) -> Iterator[Result]:
    """Run the int8 files on an emulated CPU without VNNI, next to this machine's CPU."""
    if shutil.which(EMULATOR) is None:
        yield info(f"{name}: emulated", 0, "", f"left out: {EMULATOR} is missing (qemu-user)")
        return
    for one in manifest["variants"]:
        # int8-qat was trained further than the model whose outputs were saved.
        if one["file"] and one["name"] in ("int8-dynamic", "int8-static"):
            here = _run_program(folder, one["file"])
            there = _run_program(folder, one["file"], before=EMULATED)
            is_known = _is_share(here) and _is_share(there)
            lost = float(here) - float(there) if is_known else 1.0
            detail = f"share with torch's class on {' '.join(EMULATED)}: {there}; here: {here}"
            yield at_most(f"{name} {one['name']}: lost without VNNI", lost, "", MOST_LOST, detail)


def _run_program(folder: Path, file: str, *, before: Sequence[str] = ()) -> str:
    """Return what the program prints about a file, or its last line if it fails."""
    command = [*before, sys.executable, "-I", "-c", ALONE, folder / file, folder / "parity.npz"]
    env = {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    return done.stdout.strip() or (done.stderr.strip().splitlines() or ["nothing"])[-1]


def _is_share(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def time_again(case: Case, job_dir: JobDir) -> Iterator[Result]:
    """Export the float32 file again in this process, warm like a worker's spare exporter.

    A spare has exported a small network before it gets a job, so the first export here is not
    counted either.

    Args:
        case: The measured case.
        job_dir: The trained and exported job.
    """
    left = json.loads(job_dir.trained_path.read_text())
    left["spec"]["export"]["variants"] = ["fp32"]
    job_dir.trained_path.write_text(json.dumps(left))
    times = [_time_export(job_dir) for _ in range(ROUNDS if case.warm == "small" else 1)]
    name = f"{case.name}: warm export"
    if None in times:
        yield Result(name, 0, "s", None, False, "the export failed")
        return
    seconds, wall = min(filter(None, times))
    epoch = left["seconds"]["training"] / case.all_epochs
    detail = (
        f"CPU time, gate and report included; it took {wall:.1f} s, an epoch {epoch:.1f} s, with a "
        f"load of {os.getloadavg()[0]:.0f}"
    )
    if case.warm == "epoch":
        yield at_most(f"{name} / epoch", wall / epoch, "", EPOCH_SHARE, detail)
    elif case.warm == "small":
        yield at_most(name, seconds, "s", SMALL_SECONDS, detail)
    else:
        yield info(name, seconds, "s", detail)


def _time_export(job_dir: JobDir) -> tuple[float, float] | None:
    """Return the CPU time and the time of one export in seconds; None if it failed."""
    began, cpu_began = time.perf_counter(), time.process_time()
    if export_job(job_dir) != EXIT_DONE:
        return None
    return time.process_time() - cpu_began, time.perf_counter() - began
