"""The whole trainer on a device that is not the CPU (`standin_gpu`), in one process."""

import json
import subprocess
import sys

import pytest
import torch

from tests.worker.job_dirs import write_job
from tests.worker.tasks.object_detection.conftest import write_shapes
from tests.worker.tasks.semantic_segmentation.conftest import write_masked
from tests.worker.trainer.text.conftest import TOPICS, topic_splits, write_text_table
from worker.jobdir import EXIT_DONE


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    """A process with the device, and the file with what it says."""
    log_path = tmp_path_factory.mktemp("device") / "log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.trainer.standin_jobs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:
        yield process, log_path
        process.stdin.close()


@pytest.fixture
def run_on_the_device(device):
    """Carry out orders one after another; return what each found."""

    def run(*orders):
        process, log_path = device
        process.stdin.write(json.dumps(orders) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, log_path.read_text()[-6000:]
        return json.loads(line)

    return run


@pytest.fixture
def make_device_job(make_job):
    def make(name, **training):
        training = {"compile": "off", **training}
        job_dir = make_job(name, order={"device": "cuda:0"}, training=training)
        return job_dir, str(job_dir.root)

    return make


def test_a_job_trains_pauses_resumes_and_splits_its_batches_on_a_gpu(
    make_job, make_device_job, run_on_the_device, start, events, losses
):
    on_cpu = make_job("cpu", training={"compile": "off"})
    loop, _ = start(on_cpu)
    loop.run()
    job_dir, root = make_device_job("device")
    full, full_root = make_device_job("full", batch_size=24)

    half, half_root = make_device_job("half", precision="fp16")
    disk, disk_root = make_device_job("disk")

    paused, resumed, split, *_ = run_on_the_device(
        {"root": root, "stop_after": 6},
        {"root": root},
        {"root": full_root, "stop_after": 2, "spare_bytes": 600_000},
        {"root": half_root},
        {"root": disk_root, "home": "disk"},
    )

    assert (paused["step"], resumed["step"]) == (6, 12)
    assert paused["devices"] == resumed["devices"] == ["cuda:0"]
    assert 0 < paused["peak_bytes"] < 1_000_000
    # The numbers are those of the CPU, before and after the checkpoint.
    # They are the same with scaled losses, and with images that are read ahead.
    for same in (job_dir, half, disk):
        assert losses(same) == pytest.approx(losses(on_cpu), rel=1e-3), same.root
    said = [event["data"]["text"] for event in events(job_dir, "message")]
    assert sum("operators on it, 0 on the CPU" in text for text in said) == 2
    (resolved, _) = events(job_dir, "resolved")
    assert resolved["data"]["environment"]["gpu"] == "Stand-in GPU"
    # A batch that does not fit is split until it does, also when memory ends in the backward pass.
    assert split["step"] == 2
    assert split["accumulation"] > 1
    assert "backward" in split["refused"]
    assert "2 micro steps of 12" in events(full, "warning")[0]["data"]["message"]


def test_what_needs_no_job_works_on_a_gpu(run_on_the_device):
    mixed, scaled, read, tested = run_on_the_device(
        {"kind": "mix"}, {"kind": "scale"}, {"kind": "read"}, {"kind": "check"}
    )
    assert "all tensors to be on the same device" in mixed["error"]
    assert scaled["skipped"] == [False, True, False]
    assert scaled["state"]["scale"] == 32768
    # A step waits for the copy of its batch, and the stand-in finds one that does not.
    assert read["sums"] == [1, 3, 5, 7, 9, 11, 13, 15, 17]
    assert "has not waited" in read["error"]
    assert tested["device"]["gfx"] == "gfx1100"
    assert tested["bad"] == []
    assert {"gemm", "attention_backward", "convolution_forward", "sgd"} <= set(tested["areas"])
    assert set(tested["trials"]) == {"copy", "matmul", "convolution", "attention"}
    assert all(trial["error"] <= trial["allowed"] for trial in tested["trials"].values())


TEXT = {
    "task": "text-classification",
    "dataset": "topics",
    "model": {"options": {"dim": 16, "layers": 1, "heads": 2, "max_length": 20}},
    "training": {"epochs": 1, "batch_size": 16, "precision": "fp32", "compile": "off"},
}


@pytest.fixture
def make_text_job(tmp_path, cache_dir):
    dataset = write_text_table(tmp_path / "a.parquet", topic_splits(), classes=sorted(TOPICS))

    def make(name, order):
        return write_job(tmp_path / name, TEXT, dataset=dataset, cache_dir=str(cache_dir), **order)

    return make


def test_jobs_of_every_kind_run_from_order_to_export_on_a_gpu(
    make_job, make_text_job, make_table_job, run_on_the_device, start, events, losses
):
    short = {"training": {"epochs": 1, "compile": "off"}}
    makers = {
        "images": lambda name, order: make_job(name, order=order, **short),
        "texts": make_text_job,
        "tables": lambda name, order: make_table_job(name, order=order, **short),
    }
    jobs = {kind: make(f"{kind}-device", {"device": "cuda:0"}) for kind, make in makers.items()}
    ended = run_on_the_device(*({"root": str(job.root), "kind": "whole"} for job in jobs.values()))
    assert [events(job_dir, "failure") for job_dir in jobs.values()] == [[]] * 3
    assert [(end["status"], end["is_trained"]) for end in ended] == [(EXIT_DONE, True)] * 3
    for kind, job_dir in jobs.items():
        # What an exporter without a GPU gets before training, it can open and run.
        sent = torch.load(job_dir.root / "rehearsal.pt", weights_only=False).exportable
        assert sent.module(*sent.examples.values()).device.type == "cpu", kind
        on_cpu = makers[kind](f"{kind}-cpu", {})
        start(on_cpu)[0].run()
        # Sums are rounded in another order, and Adam divides by gradients that are almost zero.
        assert losses(job_dir) == pytest.approx(losses(on_cpu), rel=0.05), kind
        said = [event["data"]["text"] for event in events(job_dir, "message")]
        assert any("operators on it, 0 on the CPU" in text for text in said), kind


DENSE = {
    "dataset": "shapes",
    "training": {
        "epochs": 1,
        "batch_size": 4,
        "optimizer": {"name": "sgd", "lr": 0.001},  # Adam divides by gradients that are almost zero
        "precision": "fp32",
        "compile": "off",
        "memory_format": "contiguous",
        "augment": {"scale": 0.3, "brightness": 0.2},
    },
}
BOXES = {"augment": {**DENSE["training"]["augment"], "mosaic": 0.5}}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("task", "model", "write", "training"),
    [
        ("object-detection", "dense-nano", write_shapes, {**DENSE["training"], **BOXES}),
        ("semantic-segmentation", "unet-nano", write_masked, DENSE["training"]),
    ],
)
def test_a_network_of_boxes_or_masks_trains_on_a_gpu_as_on_a_cpu(
    tmp_path, cache_dir, run_on_the_device, start, events, losses, task, model, write, training
):
    dataset = write(tmp_path / "set", num_train=12, num_test=2)
    spec = {**DENSE, "task": task, "model": model, "training": training}
    jobs = {
        device: write_job(
            tmp_path / device[:4], spec, dataset=dataset, cache_dir=str(cache_dir), device=device
        )
        for device in ("cpu", "cuda:0")
    }
    run_on_the_device({"root": str(jobs["cuda:0"].root)})
    start(jobs["cpu"])[0].run()
    on_cpu, on_device = losses(jobs["cpu"]), losses(jobs["cuda:0"])
    assert len(on_cpu) == 2
    assert events(jobs["cuda:0"], "failure") == []
    assert on_device == pytest.approx(on_cpu, rel=1e-3)
