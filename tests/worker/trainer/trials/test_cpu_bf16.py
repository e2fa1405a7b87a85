import pytest
import torch
from torch import nn
from torch.nn import functional

from redkiln.spec import Training
from worker.trainer.trials import cpu_bf16
from worker.trainer.trials.cpu_bf16 import settle_cpu_bf16
from worker.trainer.trials.probing import Probe
from worker.trainer.trials.remembered import Remembered


@pytest.fixture
def settle(tmp_path, make_report, monkeypatch):
    measured = []

    def build(gain):
        def rate(probe, sizes, *, is_enough):
            measured.append(probe.training.precision)
            return dict.fromkeys(sizes, gain if probe.training.precision == "bf16" else 1.0)

        monkeypatch.setattr(cpu_bf16, "measure_rates", rate)
        network = nn.Linear(2, 2)
        probe = Probe(network, functional.cross_entropy, None, Training(), torch.device("cpu"))
        settled = settle_cpu_bf16(
            probe,
            batch_size=8,
            key={"model": "tiny"},
            remembered=Remembered(tmp_path, {}),
            report=make_report(),
        )
        return settled, measured

    return build


def test_a_cpu_takes_bf16_where_it_was_measured_to_be_faster(settle):
    assert settle(1.5)[0] == "bf16"


@pytest.mark.parametrize("gain", [1.05, 0.7])
def test_a_cpu_stays_with_fp32_where_bf16_gains_little(settle, gain):
    assert settle(gain)[0] == "fp32"


def test_what_was_measured_is_remembered(settle):
    settle(1.5)
    settled, measured = settle(0.5)
    assert settled == "bf16"
    assert measured == ["bf16", "fp32"]
