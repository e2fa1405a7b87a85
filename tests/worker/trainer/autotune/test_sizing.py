"""`batch_size: auto`, with a real model and with speeds that a test says."""

import json

import pytest
import torch
from torch import nn

from redkiln.spec.job_spec import Training
from redkiln.spec.optimizers import AdamW
from worker.trainer.autotune import probing, sizing
from worker.trainer.autotune.batch_size import Speeds
from worker.trainer.autotune.probing import (
    Probe,
    count_saved_bytes,
    find_budget,
    free_bytes,
    measure_speeds,
)
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.sizing import covers, tune_batch_size

CPU = torch.device("cpu")


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)
    )


def make_batch(num):
    return torch.randn(num, 6), torch.randint(0, 3, (num,))


@pytest.fixture
def settle(tmp_path, make_event_log):
    """Settles a training on a small network; `rates` stand for what would be measured."""
    event_log = make_event_log()
    models = []

    def call(training, *, num_train=10_000, **changes):
        models.append(network())
        tune_batch_size(
            Probe(models[-1], nn.functional.cross_entropy, make_batch, training, CPU),
            num_train=num_train,
            key={"name": "network"},
            remembered=Remembered(tmp_path / "cache", {"device": "cpu"}),
            event_log=event_log,
            **changes,
        )
        return training

    call.models = models
    call.events = lambda: [
        json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()
    ]
    return call


@pytest.fixture
def measured(monkeypatch):
    """Speeds that are found, by batch; counts how often somebody measures."""
    calls = []

    def measure(_probe, sizes, **_options):
        calls.append(list(sizes))
        return Speeds({size: 100.0 * min(size, 32) for size in sizes})

    monkeypatch.setattr(sizing, "measure_speeds", measure)
    return calls


def training(**fields):
    return Training(precision="fp32", **fields)


def test_the_choice_is_reported_with_its_learning_rate(settle, measured):
    settled = settle(training())
    assert settled.batch_size == 32
    # 100 batches of 100 samples would be 64 by powers of two.
    assert settled.optimizer.lr == pytest.approx(2e-3 * (32 / 64) ** 0.5, rel=1e-2)
    assert measured == [[8, 16, 32, 64, 128]]
    said = [e["data"] for e in settle.events()]
    assert {"phase": "warming"} in said
    assert said[-1]["text"].startswith("batch_size auto is 32 (samples/s by batch: 8: 800, ")


def test_measured_rates_are_remembered(settle, measured):
    assert settle(training()).batch_size == settle(training()).batch_size == 32
    assert len(measured) == 1
    settle(training(optimizer="sgd"))
    settle(Training(precision="bf16"))
    assert len(measured) == 3
    settle(training(gradient_checkpointing="on"))
    assert len(measured) == 4
    settle(training(gradient_checkpointing="off"))  # as `auto` begins
    assert len(measured) == 4


def test_a_measurement_for_more_samples_holds_for_fewer(settle, measured):
    settle(training(), num_train=2_000)
    assert measured == [[8, 16, 32]]
    assert settle(training(), num_train=800).batch_size == 16
    assert len(measured) == 1
    assert settle(training()).batch_size == 32
    assert measured[1:] == [[8, 16, 32, 64, 128]]
    assert settle(training(), num_train=2_000).batch_size == 32
    assert len(measured) == 2


@pytest.mark.parametrize(
    ("sizes", "tried", "largest", "is_enough"),
    [
        ([8, 16], 16, 16, True),
        ([8, 16], 16, 8, True),
        ([8, 16], 16, 32, False),
        # It ended early: larger ones are slower, or do not fit.
        ([8, 16], 32, 1024, True),
    ],
)
def test_larger_batches_are_measured_if_the_last_search_did_not_exclude_them(
    sizes, tried, largest, is_enough
):
    assert covers(dict.fromkeys(sizes, 1.0), tried=tried, largest=largest) is is_enough


@pytest.mark.parametrize(
    ("rates", "is_enough"),
    [
        ({8: 30.0, 16: 40.0, 32: 45.0}, False),  # its time was up
        ({8: 30.0, 16: 30.0, 32: 30.0}, True),  # it was flat
        ({8: 30.0, 16: 40.0, 32: 45.0, 64: 50.0}, True),  # it came to its end
    ],
)
def test_a_search_that_ran_out_of_time_is_repeated_for_a_longer_training(rates, is_enough):
    assert covers(rates, tried=64, largest=64)
    assert covers(rates, tried=64, largest=64, is_thorough=False) is is_enough


def test_the_timing_uncertainty_is_reported_and_remembered(settle, monkeypatch):
    speeds = Speeds({8: 100.0, 16: 375.0, 32: 400.0}, doubt=0.03)
    monkeypatch.setattr(sizing, "measure_speeds", lambda *_args, **_options: speeds)
    assert [settle(training(), num_train=2_000).batch_size for _ in range(2)] == [16, 16]
    texts = [event["data"].get("text", "") for event in settle.events()]
    assert sum("16: 375, 32: 400; timing uncertainty 3.0%)" in text for text in texts) == 2


def test_a_longer_training_searches_again_once(settle, monkeypatch):
    searched = []

    def measure(_probe, sizes, *, num_samples, **_options):
        searched.append(num_samples)
        return Speeds({8: 1000.0, 16: 1500.0})

    monkeypatch.setattr(sizing, "measure_speeds", measure)
    for epochs in (1, 1, 1000, 1000, 1):
        settle(training(epochs=epochs))
    assert len(searched) == 2


def test_an_unwritable_cache_only_means_measuring_again(settle, measured, tmp_path):
    (tmp_path / "cache").write_text("no folder")
    assert settle(training()).batch_size == settle(training()).batch_size == 32
    assert len(measured) == 2


def test_values_set_by_the_user_are_kept(settle, measured):
    settled = settle(training(batch_size=48))
    assert (settled.batch_size, settled.optimizer.lr) == (48, 2e-3)
    settled = settle(training(optimizer={"name": "adamw", "lr": 5e-4}))
    assert (settled.batch_size, settled.optimizer.lr) == (32, 5e-4)
    assert len(measured) == 1


@pytest.mark.parametrize(("num_train", "batch_size"), [(5, 5), (300, 8)])
def test_small_data_sets_need_no_measurement(settle, measured, num_train, batch_size):
    settled = settle(training(accumulation=16), num_train=num_train)
    assert (settled.batch_size, settled.accumulation) == (batch_size, batch_size)
    assert measured == []


def test_a_batch_is_never_larger_than_the_training_split(settle):
    assert settle(training(batch_size=64, accumulation=32), num_train=20).accumulation == 20


def test_a_tasks_reference_replaces_the_general_one(settle, measured):
    assert settle(training(), reference=32).optimizer.lr == AdamW().lr


def test_measuring_does_not_change_the_model_or_random_numbers(settle):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    probe = Probe(network(), nn.functional.cross_entropy, make_batch, training(), CPU)
    torch.set_rng_state(before)
    weights = {name: tensor.clone() for name, tensor in probe.model.state_dict().items()}
    rates = measure_speeds(probe, [8, 16], is_enough=lambda _: False).rates
    count_saved_bytes(probe, 8)
    assert rates.keys() == {8, 16}
    assert all(rate > 0 for rate in rates.values())
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(weights[n], t) for n, t in probe.model.state_dict().items())
    assert all(p.grad is None for p in probe.model.parameters())


def test_a_size_that_does_not_fit_ends_the_search():
    def limited(num):
        if num > 16:
            raise torch.OutOfMemoryError("HIP out of memory")
        return make_batch(num)

    probe = Probe(network(), nn.functional.cross_entropy, limited, training(), CPU)
    assert measure_speeds(probe, [8, 16, 32, 64], is_enough=lambda _: False).rates.keys() == {8, 16}
    with pytest.raises(torch.OutOfMemoryError):
        measure_speeds(probe, [32], is_enough=lambda _: False)


def test_a_model_whose_smallest_batch_does_not_fit_starts_with_it(settle, monkeypatch):
    def short(*_args, **_options):
        raise torch.OutOfMemoryError("HIP out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(probing, "_forward", short)
        assert settle(training()).batch_size == 8
    assert any("not even 8 samples fit" in e["data"].get("text", "") for e in settle.events())
    assert settle(training()).batch_size >= 8
    assert "samples/s by batch" in settle.events()[-1]["data"]["text"]


def test_recomputed_activations_are_not_counted():
    wide = [nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 6)) for _ in range(4)]
    deep = nn.Sequential(*wide)
    counts = {}
    for kept in ("off", "on"):
        asked = training(gradient_checkpointing=kept)
        probe = Probe(deep, nn.functional.cross_entropy, make_batch, asked, CPU)
        counts[kept] = count_saved_bytes(probe, 64)
        assert measure_speeds(probe, [8], is_enough=lambda _: True).rates.keys() == {8}
    assert counts["on"] < 0.5 * counts["off"]


def test_a_slow_moment_does_not_decide_between_sizes(monkeypatch):
    took = {8: [0.5], 16: [0.10], 32: [0.2, 0.16], 64: [0.3, 0.9, 0.3]}
    timed = []

    def time_steps(_probe, _model, _optimizer, size):
        timed.append(size)
        return took[size].pop(0) if len(took[size]) > 1 else took[size][0]

    monkeypatch.setattr(probing, "_time_steps", time_steps)
    monkeypatch.setattr(probing, "MOST_TURNS", 5)
    probe = Probe(network(), nn.functional.cross_entropy, make_batch, training(), CPU)
    speeds = measure_speeds(probe, [8, 16, 32, 64], is_enough=lambda _: False, num_samples=10**9)
    assert timed == [8, 16, 32, 64, *4 * [64, 32, 16]]
    assert speeds.rates == pytest.approx({8: 16, 16: 160, 32: 200, 64: 64 / 0.3})
    assert speeds.doubt == 0.02


def test_running_out_of_memory_in_a_later_turn_keeps_earlier_results(monkeypatch):
    calls = []

    def time_steps(_probe, _model, _optimizer, size):
        calls.append(size)
        if len(calls) > 2:
            raise torch.OutOfMemoryError("HIP out of memory")
        return size / 100

    monkeypatch.setattr(probing, "_time_steps", time_steps)
    probe = Probe(network(), nn.functional.cross_entropy, make_batch, training(), CPU)
    rates = measure_speeds(probe, [8, 16], is_enough=lambda _: False).rates
    assert rates == {8: 100, 16: 100}
    assert calls == [8, 16, 16]


def test_measuring_stops_when_its_time_is_up(monkeypatch):
    probe = Probe(network(), nn.functional.cross_entropy, make_batch, training(), CPU)
    monkeypatch.setattr(probing, "BUDGET_SECONDS", (0.0, 60.0))
    rates = measure_speeds(probe, [8, 16], is_enough=lambda _: False).rates
    assert rates.keys() == {8}
    rates = measure_speeds(probe, [8, 16], is_enough=lambda _: False, num_samples=10**9).rates
    assert rates.keys() == {8, 16}


def test_its_budget_is_a_hundredth_of_the_training_within_limits():
    assert [find_budget(seconds) for seconds in (0, 60, 2000, 10**6)] == [5, 5, 20, 60]


def test_memory_of_a_step_grows_with_its_batch_and_weights_do_not_count():
    probe = Probe(network(), nn.functional.cross_entropy, make_batch, training(), CPU)
    small, large = (count_saved_bytes(probe, num) for num in (8, 64))
    assert 6 < large / small <= 8
    assert small < sum(p.nbytes for p in network().parameters()) + 8 * 16 * 4 * 8


def test_free_memory_is_that_of_the_host_or_of_its_control_group(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:  4 kB\n")
    assert free_bytes(CPU, root=tmp_path) == 4096
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    assert free_bytes(CPU, root=tmp_path) == 4096
    (group / "memory.max").write_text("3000\n")
    (group / "memory.current").write_text("1000\n")
    assert free_bytes(CPU, root=tmp_path) == 2000


def test_an_unreadable_file_is_treated_as_missing(tmp_path):
    remembered = Remembered(tmp_path, {"device": "cpu"})
    remembered.save("rates", {"model": "m"}, {"8": 1.0})
    assert remembered.find("rates", {"model": "m"}) == {"8": 1.0}
    assert remembered.find("rates", {"model": "n"}) is None
    assert Remembered(tmp_path, {"device": "gpu"}).find("rates", {"model": "m"}) is None
    (path,) = (tmp_path / "measured").iterdir()
    path.write_text("{")
    assert remembered.find("rates", {"model": "m"}) is None
