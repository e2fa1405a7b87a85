from datetime import UTC, datetime

import matplotlib as mpl
import pytest
from PIL import Image

from redkiln.views.benchmark import BenchmarkResult, Machine, Measurement, Rate
from worker.hardware.benchmark.picture import draw_benchmark

MACHINE = Machine(
    hostname="bench", kind="gpu", device="a GPU", gfx="gfx1100", cpu="c", num_cores=8, num_threads=8
)


@pytest.fixture(autouse=True)
def quiet_backend():
    mpl.use("Agg")


def measured(measurement_id, value, unit, **fields):
    rate = Rate(value=value, spread=0.05, num_samples=15)
    test = measurement_id.split("/")[0]
    return Measurement(
        id=measurement_id, test=test, title=measurement_id, unit=unit, rate=rate, **fields
    )


EVERYTHING = [
    measured("matmul/1024/fp32", 20.0, "TFLOP/s", precision="fp32", size=1024, peak=40.0),
    measured("matmul/4096/fp16", 60.0, "TFLOP/s", precision="fp16", size=4096, peak=80.0),
    measured("convolution/forward/fp32/contiguous", 9.0, "TFLOP/s", precision="fp32"),
    measured("convolution/step/fp32/channels_last", 8.0, "TFLOP/s", precision="fp32"),
    measured(
        "training/resnet18/fp32/contiguous", 900.0, "images/s", precision="fp32",
        layout="contiguous",
    ),
    measured("memory/copy", 800.0, "GB/s", peak=960.0),
    measured("copies/pinned", 25.0, "GB/s"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("chosen", "size"),
    [
        (EVERYTHING, (1488, 936)),
        (EVERYTHING[:1], (744, 468)),
        (EVERYTHING[5:], (744, 468)),
        ([], (744, 468)),
    ],
)
def test_a_picture_has_a_panel_for_each_kind_of_number(tmp_path, chosen, size):
    result = BenchmarkResult(
        at=datetime(2026, 11, 21, tzinfo=UTC), seconds=1, machine=MACHINE, measurements=chosen
    )
    draw_benchmark(result, tmp_path / "a.png", title="bench")
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == size
        assert len(set(image.convert("L").tobytes())) > 10
