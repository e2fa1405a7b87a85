import pytest
import torch
from torch import nn
from torch.nn import functional

from redkiln.spec.job_spec import Training
from worker.trainer.autotune import precision_trial
from worker.trainer.autotune.batch_size import Speeds
from worker.trainer.autotune.precision_trial import (
    choose_precision,
    list_turns,
    tune_precision,
)
from worker.trainer.autotune.probing import Probe
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.devices import describe_target
from worker.trainer.precision import DeviceFacts, deny, list_contenders


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

        monkeypatch.setattr(precision_trial, "measure_speeds", measure)
        settled = Training.model_validate({"precision": "bf16", "batch_size": 8, **training})
        network = nn.Linear(2, 2)
        tune_precision(
            Probe(network, functional.cross_entropy, None, settled, torch.device("cpu")),
            ["bf16", "fp32"],
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
    assert len(measured) == len(list_turns(["bf16", "fp32"]))


NVIDIA = DeviceFacts("cuda", has_bf16=True)


@pytest.mark.parametrize(
    ("device", "resolved", "contenders"),
    [
        (DeviceFacts("cpu", has_bf16=True), "bf16", ("bf16", "fp32")),
        (DeviceFacts("cpu", has_bf16=True), "fp32", ()),
        (NVIDIA, "bf16", ("bf16", "fp16", "fp32")),
        (DeviceFacts("cuda", has_bf16=False), "fp32", ("fp16", "fp32")),
        (describe_target("gfx1100"), "bf16", ("bf16", "fp16", "fp32")),
        (describe_target("gfx1030"), "fp16", ("fp16", "fp32")),
        # fp16 loses gradients on the one and ends the process on the other.
        (describe_target("gfx90a"), "bf16", ("bf16", "fp32")),
        (describe_target("gfx1201"), "bf16", ("bf16", "fp32")),
        (describe_target("gfx90c"), "fp32", ("fp32",)),
        (describe_target("gfx9999"), "fp32", ("fp32",)),
    ],
)
def test_the_table_can_forbid_a_type(device, resolved, contenders):
    assert list_contenders(device, resolved=resolved) == contenders


def test_what_the_self_test_found_wrong_is_not_tried():
    device = deny(NVIDIA, {"bf16": "wrong numbers"})
    assert list_contenders(device, resolved="fp32") == ("fp16", "fp32")


@pytest.mark.parametrize(
    ("rates", "chosen"),
    [
        ({"bf16": 45.0, "fp16": 122.0, "fp32": 30.0}, "fp16"),
        ({"bf16": 100.0, "fp16": 105.0, "fp32": 50.0}, "bf16"),
        ({"bf16": 40.0, "fp16": 54.0, "fp32": 50.0}, "fp32"),
        ({"bf16": 40.0, "fp16": 56.0, "fp32": 50.0}, "fp16"),
        ({"fp16": 70.0, "fp32": 50.0}, "fp16"),
        ({"bf16": 70.0, "fp16": 0.0, "fp32": 0.0}, "bf16"),  # fp32 needs too much memory
        ({"bf16": 0.0, "fp16": 0.0, "fp32": 0.0}, "fp32"),
    ],
)
def test_the_safest_type_that_is_not_clearly_slower_is_chosen(rates, chosen):
    assert choose_precision(rates) == chosen


def test_a_gpus_three_types_are_timed_in_turns_by_the_same_code(tmp_path, make_event_log):
    """The record names a GPU; the steps run on the CPU, in all three types."""
    names = list_contenders(NVIDIA, resolved="bf16")
    settled = Training.model_validate({"precision": "bf16", "batch_size": 4})
    network = nn.Linear(2, 2)
    before = network.weight.clone()

    def make_batch(size):
        return torch.ones(size, 2), torch.zeros(size, dtype=torch.long)

    tune_precision(
        Probe(network, functional.cross_entropy, make_batch, settled, torch.device("cpu")),
        names,
        num_train=2000,
        key={},
        remembered=(remembered := Remembered(tmp_path, {})),
        event_log=make_event_log(),
    )
    key = {"batch_size": 4, "names": list(names)}
    rates = remembered.find("precision_rates", key)
    assert set(rates) == set(names)
    assert all(rate > 0 for rate in rates.values())
    assert settled.precision == choose_precision(rates)
    assert torch.equal(network.weight, before)


def test_a_choice_by_a_measurement_of_an_earlier_job_says_so(settle, tmp_path):
    settle(0.5)
    settle(0.5)
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    first, second = (line for line in lines if "precision auto is" in line)
    assert "(samples/s in a trial: bf16 " in first
    assert "(samples/s in a trial of an earlier job: bf16 " in second


def test_a_type_that_needs_too_much_memory_is_not_chosen(settle):
    def run_out():
        raise torch.OutOfMemoryError

    assert settle(run_out)[0] == "fp32"
