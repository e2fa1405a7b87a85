import pytest
import torch
from torch import nn
from torch.nn import functional

from redkiln.spec import Training
from worker.trainer.failed import TrainingFailed
from worker.trainer.precision import DeviceFacts
from worker.trainer.text import precision
from worker.trainer.text.precision import settle_precision
from worker.trainer.trials.probing import Probe
from worker.trainer.trials.remembered import Remembered

WITH_BF16 = DeviceFacts("cpu", has_bf16=True)


@pytest.fixture
def settle(tmp_path, make_report, monkeypatch):
    measured = []

    def build(wanted="auto", *, device=WITH_BF16, gain=2.0):
        def rate(probe, sizes, *, is_enough):
            measured.append(probe.training.precision)
            return dict.fromkeys(sizes, gain if probe.training.precision == "bf16" else 1.0)

        def probe_at(name):
            training = Training(precision=name)
            return Probe(
                nn.Linear(2, 2), functional.cross_entropy, None, training, torch.device("cpu")
            )

        monkeypatch.setattr(precision, "measure_rates", rate)
        settled = settle_precision(
            wanted,
            device=device,
            probe_at=probe_at,
            batch_size=8,
            key={"model": "tiny"},
            remembered=Remembered(tmp_path, {}),
            report=make_report(),
        )
        return settled, measured

    return build


def test_a_cpu_takes_bf16_where_it_was_measured_to_be_faster(settle):
    assert settle(gain=1.5)[0] == "bf16"


def test_a_cpu_stays_with_fp32_where_bf16_gains_little(settle):
    assert settle(gain=1.05)[0] == "fp32"


def test_what_was_measured_is_remembered(settle):
    settle(gain=1.5)
    settled, measured = settle(gain=0.5)
    assert settled == "bf16"
    assert measured == ["bf16", "fp32"]


@pytest.mark.parametrize(
    ("wanted", "device", "expected"),
    [
        ("auto", DeviceFacts("cpu"), "fp32"),
        ("auto", DeviceFacts("cuda", has_bf16=True), "bf16"),
        ("auto", DeviceFacts("cuda", preferred="fp16"), "fp16"),
        ("fp32", WITH_BF16, "fp32"),
        ("bf16", WITH_BF16, "bf16"),
    ],
)
def test_nothing_is_measured_where_there_is_nothing_to_find_out(settle, wanted, device, expected):
    assert settle(wanted, device=device) == (expected, [])


def test_what_a_gpu_cannot_do_is_refused(settle):
    with pytest.raises(TrainingFailed, match="no bf16"):
        settle("bf16", device=DeviceFacts("cuda", denied={"bf16": "it has no bf16"}))
