import pytest
import torch
from torch import nn
from torch.nn import functional

from redkiln.spec.job_spec import Training
from worker.trainer.autotune import cpu_bf16
from worker.trainer.autotune.batch_size import Speeds
from worker.trainer.autotune.cpu_bf16 import tune_cpu_bf16
from worker.trainer.autotune.probing import Probe
from worker.trainer.autotune.remembered import Remembered


@pytest.fixture
def settle(tmp_path, make_event_log, monkeypatch):
    """What a training that is open becomes; what was tried, and with how many samples."""
    measured = []

    def build(gain, *, num_train=1000, **training):
        def measure(probe, sizes, *, is_enough):
            assert probe.training.accumulation == 1
            measured.append((probe.training.precision, *sizes))
            if callable(gain):
                return Speeds(dict.fromkeys(sizes, gain()))
            rate = gain if probe.training.precision == "bf16" else 1.0
            return Speeds(dict.fromkeys(sizes, rate))

        monkeypatch.setattr(cpu_bf16, "measure_speeds", measure)
        settled = Training.model_validate({"precision": "bf16", "batch_size": 8, **training})
        network = nn.Linear(2, 2)
        tune_cpu_bf16(
            Probe(network, functional.cross_entropy, None, settled, torch.device("cpu")),
            num_train=num_train,
            key={"model": "tiny"},
            remembered=Remembered(tmp_path, {}),
            event_log=make_event_log(),
        )
        return settled.precision, measured

    return build


def test_one_slow_moment_does_not_decide(settle):
    moments = iter([1.0, 2.0, 2.0, 0.9, 1.0, 0.9])  # fp32 is half as fast in its last turn
    assert settle(lambda: next(moments))[0] == "fp32"


def test_a_cpu_uses_bf16_if_it_was_measured_to_be_faster(settle):
    precision, measured = settle(1.5)
    assert precision == "bf16"
    assert {name: measured.count((name, 8)) for name in ("bf16", "fp32")} == {"bf16": 3, "fp32": 3}


@pytest.mark.parametrize("gain", [1.05, 0.7])
def test_a_cpu_uses_fp32_if_bf16_gains_little(settle, gain):
    assert settle(gain)[0] == "fp32"


def test_a_trial_uses_one_micro_step_of_limited_size(settle):
    assert settle(1.5, batch_size=64, accumulation=4)[1][0] == ("bf16", 16)
    assert settle(1.5, batch_size=512)[1][-1] == ("fp32", 32)


def test_a_short_training_uses_an_earlier_measurement_or_bf16(settle):
    assert settle(0.5, steps=10) == ("bf16", [])
    assert settle(0.5)[0] == "fp32"
    precision, measured = settle(0.5, steps=10)
    assert precision == "fp32"
    assert len(measured) == len(cpu_bf16.TURNS)
