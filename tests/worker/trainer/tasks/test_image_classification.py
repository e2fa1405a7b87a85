"""What an image job asks to be measured."""

import pytest

from worker.trainer import devices, precision
from worker.trainer.tasks import image_classification
from worker.trainer.trials import cpu_bf16


def test_speeds_do_not_depend_on_the_number_of_classes(make_job, start, monkeypatch):
    settle, keys = image_classification.settle_batch_size, []

    def note(*args, key, **options):
        keys.append(dict(key))
        settle(*args, key=key, **options)

    monkeypatch.setattr(image_classification, "settle_batch_size", note)
    _, work = start(make_job())
    assert work.model.head.out_features == 3
    assert 3 not in keys[0].values()
    assert keys[0]["name"] == "mnist-cnn"
    assert keys[0]["options"]["image_size"] == 12


@pytest.fixture
def tried(monkeypatch):
    """A CPU with bf16 that is 1.3 times as fast as fp32; what was tried on it, and how large."""
    tried = []

    def rate(probe, sizes, *, is_enough):
        tried.append((probe.training.precision, *sizes))
        return dict.fromkeys(sizes, 1.3 if probe.training.precision == "bf16" else 1.0)

    monkeypatch.setattr(cpu_bf16, "measure_rates", rate)
    monkeypatch.setattr(precision, "CPU_BF16_PIXELS", 100)
    monkeypatch.setattr(devices, "cpu_has_bf16", lambda: True)
    return tried


def test_a_cpu_with_bf16_is_tried_with_the_jobs_own_model(make_job, start, tried):
    _, work = start(make_job(training={"epochs": 100, "precision": "auto", "batch_size": 8}))
    assert work.spec.training.precision == "bf16"
    assert set(tried) == {("bf16", 8), ("fp32", 8)}


@pytest.mark.parametrize(
    ("training", "taken"),
    [
        ({"epochs": 100, "precision": "fp32"}, "fp32"),
        ({"epochs": 100, "precision": "bf16"}, "bf16"),
        # A trial would be too much of it.
        ({"epochs": 1, "precision": "auto"}, "bf16"),
    ],
)
def test_it_is_not_tried_where_there_is_nothing_to_win(make_job, start, tried, training, taken):
    _, work = start(make_job(training={"batch_size": 8, **training}))
    assert work.spec.training.precision == taken
    assert not tried
