"""`redkiln predict` on 1,000 photos, compared with a loop that a user writes by hand.

Both are whole programs that start, read a folder, and write a CSV. They run alternately. The loop
decodes in a pool of threads, one batch at a time, and runs ONNX Runtime with its defaults. The
photos are enlarged CIFAR images with noise, saved as JPEG of 640 x 480 pixels.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from bench.result import Result, at_least, info
from bench.turns import compare

NUM_PHOTOS = 1000
NUM_PAIRS = 5
SIDE = 64
TARGET = 0.8
DATA = Path(__file__).parents[2] / ".." / "shared" / "data" / "cifar10-12k.zip"

BY_HAND = """
import csv, json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

model, folder = sys.argv[1:]
session = onnxruntime.InferenceSession(model)
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])

def load(path):
    image = Image.open(path)
    image.draft("RGB", (2 * SIDE, 2 * SIDE))
    image = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255

writer = csv.writer(sys.stdout)
paths = sorted(Path(folder).rglob("*.jpg"))
with ThreadPoolExecutor() as pool:
    for start in range(0, len(paths), 32):
        some = paths[start : start + 32]
        (logits,) = session.run(None, {"images": np.stack(list(pool.map(load, some)))})
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        for path, row in zip(some, odds):
            writer.writerow([path, classes[row.argmax()], row.max()])
""".replace("SIDE", str(SIDE))


def run() -> list[Result]:
    """Time both programs, alternately, and compare their answers."""
    if not DATA.exists():
        detail = f"not measured: {DATA.name} is missing"
        return [info("predict / a loop written by hand", 0, "x", detail)]
    with tempfile.TemporaryDirectory(prefix="bench-predict-") as folder:
        photos, model = Path(folder) / "photos", Path(folder) / "model.onnx"
        _make_photos(photos)
        _export_network(model)
        mine = [sys.executable, "-m", "redkiln", "predict", str(model), str(photos), "--csv"]
        theirs = [sys.executable, "-c", BY_HAND, str(model), str(photos)]
        equal = _count_equal(_time(mine)[2], _time(theirs)[2])
        timed = [(_time(mine), _time(theirs)) for _ in range(NUM_PAIRS)]
    own, by_hand = [ours[0] for ours, _ in timed], [other[0] for _, other in timed]
    ratio, pairs = compare(by_hand, own)
    cpu, cpu_pairs = compare([other[1] for _, other in timed], [ours[1] for ours, _ in timed])
    detail = (
        f"{NUM_PHOTOS / statistics.median(own):,.0f} of "
        f"{NUM_PHOTOS / statistics.median(by_hand):,.0f} photos/s, whole programs, "
        f"{len(os.sched_getaffinity(0))} cores: {pairs}; {equal} of {NUM_PHOTOS} answers equal"
    )
    return [
        at_least("predict / a loop written by hand", ratio, "x", TARGET, detail),
        info("predict / a loop written by hand, CPU time", cpu, "x", cpu_pairs),
    ]


def _make_photos(folder: Path) -> None:
    folder.mkdir()
    with zipfile.ZipFile(DATA) as archive:
        names = [name for name in archive.namelist() if name.endswith((".png", ".jpg"))]
        contents = [archive.read(name) for name in names[:NUM_PHOTOS]]

    def make(number: int) -> None:
        with Image.open(BytesIO(contents[number])) as image:
            large = image.convert("RGB").resize((640, 480), Image.Resampling.BICUBIC)
        noise = np.random.default_rng(number).integers(-8, 9, (480, 640, 3))
        pixels = (np.asarray(large, dtype=np.int16) + noise).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:04d}.jpg", quality=90)

    with ThreadPoolExecutor() as pool:
        list(pool.map(make, range(NUM_PHOTOS)))


def _export_network(path: Path) -> None:
    """Export an untrained network of the size that a job of these photos would train."""
    import torch

    from redkiln.tasks import parse_spec
    from redkiln.tasks.image_classification import ImageClassificationSpec
    from worker.export.manifest import to_metadata
    from worker.export.onnx_file import write_onnx
    from worker.tasks.image_classification.exported import make_exportable, preprocessing_of
    from worker.trainer.images.decode.facts import DecodedFacts
    from worker.trainer.models import build_model

    options = {"image_size": SIDE, "channels": 3, "resize": "stretch"}
    model = {"name": "amdnet", "options": options}
    spec = parse_spec({"task": "image-classification", "dataset": "photos", "model": model})
    assert isinstance(spec, ImageClassificationSpec)
    torch.manual_seed(0)
    facts = DecodedFacts(num_rows=NUM_PHOTOS, mean=[0.5] * 3, std=[0.25] * 3)
    network = build_model(spec.model, num_classes=10)
    exportable = make_exportable(
        network, mean=facts.mean, std=facts.std, image_size=SIDE, architecture={}
    )
    metadata = to_metadata(
        job_id="job_bench",
        task=spec.task,
        output={"classes": [f"class {number}" for number in range(10)]},
        preprocessing=preprocessing_of(spec.model.options, facts),
    )
    write_onnx(exportable, path, opset=spec.export.opset, metadata=metadata)


def _time(command: list[str]) -> tuple[float, float, dict[str, str]]:
    """Return the time and the CPU time of a whole program, and its answers by photo."""
    began, cpu_began = time.perf_counter(), _cpu_of_children()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, cpu = time.perf_counter() - began, _cpu_of_children() - cpu_began
    rows = [line.split(",") for line in done.stdout.splitlines()]
    return seconds, cpu, {Path(row[0]).name: row[1] for row in rows if row[0].endswith(".jpg")}


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _count_equal(some: dict[str, str], others: dict[str, str]) -> int:
    return sum(others.get(name) == answer for name, answer in some.items())
