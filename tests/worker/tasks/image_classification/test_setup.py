"""What an image job asks to be measured."""

import zipfile

import pytest
import torch

from redkiln.spec.job_spec import Training
from worker.jobdir import LocalDataset
from worker.process.failed import TrainingFailed
from worker.tasks.image_classification.setup import may_step_with_one
from worker.trainer import devices, precision
from worker.trainer.autotune import opened, precision_trial
from worker.trainer.autotune.batch_size import Speeds


def test_speeds_do_not_depend_on_the_number_of_classes(make_job, start, monkeypatch):
    settle, keys = opened.tune_batch_size, []

    def note(*args, key, **options):
        keys.append(dict(key))
        settle(*args, key=key, **options)

    monkeypatch.setattr(opened, "tune_batch_size", note)
    _, setup = start(make_job())
    assert setup.model.head.out_features == 3
    assert 3 not in keys[0].values()
    assert keys[0]["name"] == "mnist-cnn"
    assert keys[0]["options"]["image_size"] == 12


@pytest.fixture
def tried(monkeypatch):
    """A CPU with bf16 that is 1.3 times as fast as fp32; what was tried on it, and how large."""
    tried = []

    def measure(probe, sizes, *, is_enough):
        tried.append((probe.training.precision, *sizes))
        rate = 1.3 if probe.training.precision == "bf16" else 1.0
        return Speeds(dict.fromkeys(sizes, rate))

    monkeypatch.setattr(precision_trial, "measure_speeds", measure)
    monkeypatch.setattr(precision, "CPU_BF16_PIXELS", 100)
    monkeypatch.setattr(devices, "cpu_has_bf16", lambda: True)
    return tried


def test_a_cpu_with_bf16_is_measured_with_the_jobs_own_model(make_job, start, tried):
    _, setup = start(make_job(training={"epochs": 100, "precision": "auto", "batch_size": 8}))
    assert setup.spec.training.precision == "bf16"
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
def test_bf16_is_not_measured_if_it_cannot_help(make_job, start, tried, training, taken):
    _, setup = start(make_job(training={"batch_size": 8, **training}))
    assert setup.spec.training.precision == taken
    assert not tried


@pytest.mark.parametrize(
    ("device", "batch_size", "accumulation", "num_ranks", "num_train", "expected"),
    [
        ("cpu", 8, 1, 1, 900, False),
        ("cpu", 8, 4, 1, 900, False),
        ("cpu", 8, 5, 1, 900, True),
        ("cpu", 8, 4, 2, 900, True),
        ("cpu", 16, 1, 8, 900, False),
        ("cpu", 8, 1, 8, 900, True),
        # Batch norm sees the samples of all GPUs.
        ("cuda:0", 8, 1, 8, 900, False),
        ("cuda:0", 8, 8, 8, 900, False),
        ("cuda:0", 8, 8, 1, 900, True),
        # Ranks share a multiple of the batch measured on one device.
        ("cpu", "auto", 1, 8, 900, False),
        ("cuda:0", "auto", 1, 8, 900, False),
        ("cpu", "auto", 2, 8, 900, True),
        ("cuda:0", "auto", 2, 8, 900, False),
        ("cuda:0", "auto", 8, 8, 900, True),
        # Too few samples for a multiple, and for a choice.
        ("cpu", "auto", 1, 8, 54, True),
        ("cuda:0", "auto", 1, 8, 54, False),
        ("cuda:0", "auto", 8, 8, 54, False),
        ("cpu", "auto", 1, 1, 1, True),
    ],
)
def test_a_possible_single_sample_batch_is_detected(
    device, batch_size, accumulation, num_ranks, num_train, expected
):
    training = Training(batch_size=batch_size, accumulation=accumulation)
    found = may_step_with_one(
        training, num_train=num_train, num_ranks=num_ranks, device=torch.device(device)
    )
    assert found == expected


@pytest.fixture
def many(tmp_path, files, make_index):
    """The same three classes, 300 training images each: enough for a choice of batch sizes."""
    names = files(train=300)
    path, index_path = tmp_path / "many.zip", tmp_path / "many.json"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in names.items():
            archive.writestr(name, content)
    index_path.write_text(make_index(names).model_dump_json())
    return LocalDataset(
        name="many",
        kind="archive",
        path=str(path),
        index_path=str(index_path),
        fingerprint="a" * 64,
    )


def test_ranks_share_an_automatic_batch_of_enough_samples(make_job, start, many):
    training = {"batch_size": "auto", "validation_fraction": 0}
    job = {"model": {"name": "cifar-fast"}, "dataset": many, "training": training}
    _, setup = start(make_job(order={"num_ranks": 8}, **job))
    assert setup.spec.training.batch_size == 16


def test_many_ranks_on_a_cpu_are_refused_one_sample_each(make_job, start):
    job = {"model": {"name": "cifar-fast"}, "training": {"batch_size": 8}}
    with pytest.raises(TrainingFailed) as caught:
        start(make_job(order={"num_ranks": 8}, **job))
    assert "at least 2 samples in a micro step of each process" in caught.value.failure.message
