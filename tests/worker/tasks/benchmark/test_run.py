import json
import os
import signal
import subprocess
import sys
import threading
from functools import partial

import psutil
import pytest

from redkiln.views.benchmark import load_result
from tests.waiting import wait_for
from worker.jobdir import EXIT_DONE, EXIT_FAILED, EXIT_STOPPED, JobDir, Order, OrderPaths
from worker.process.lifetime import StopSignal
from worker.tasks.train import run_job

TINY = {
    "tests": ["matmul", "training"],
    "sizes": [64],
    "precisions": ["fp32"],
    "batch_size": 1,
    "image_size": 32,
    "samples": 3,
    "seconds": 10,
}


def write_benchmark(root, cache_dir, *, device="cpu", **measure):
    order = Order(
        job_id="job_1",
        job_name="bench-1",
        attempt_id="att_1",
        spec={"task": "benchmark", "measure": {**TINY, **measure}},
        device=device,
        threads=1,
        paths=OrderPaths(cache_dir=cache_dir),
    )
    job_dir = JobDir(root)
    job_dir.root.mkdir()
    job_dir.order_path.write_text(order.model_dump_json())
    return job_dir


@pytest.fixture
def make_benchmark(tmp_path, cache_dir):
    return partial(write_benchmark, tmp_path / "job", cache_dir)


@pytest.fixture(scope="module")
def measured(tmp_path_factory, cache_dir):
    """The directory of a benchmark that has ended."""
    job_dir = write_benchmark(tmp_path_factory.mktemp("measured") / "job", cache_dir)
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    return job_dir


def test_a_benchmark_writes_its_files_and_result_without_an_export(measured, events):
    job_dir = measured
    assert [(f.name, f.kind, f.verified) for f in job_dir.load_outputs()] == [
        ("benchmark.json", "benchmark", None),
        ("benchmark.png", "figure", None),
        ("report.md", "report", None),
    ]
    assert not job_dir.trained_path.exists()
    result = load_result(job_dir.out_dir / "benchmark.json")
    assert result.find("matmul/64/fp32")
    assert result.find("training/resnet18/fp32/channels_last")
    assert result.comparisons[0].skipped.startswith("no patch changes how a CPU computes")
    last = events(job_dir)[-1]
    assert last["kind"] == "result"
    assert last["data"]["metrics"]["matmul/fp32_tflops"] > 0
    assert last["data"]["timings"]["measuring"] > 0


def test_a_benchmark_reports_progress_and_results(measured, events):
    job_dir = measured
    phases = [e["data"]["phase"] for e in events(job_dir, "phase")]
    assert phases == ["preparing", "measuring"]
    progress = [e["data"] for e in events(job_dir, "progress")]
    assert progress[0]["activity"] == "matrix product 64 x 64"
    assert [p["fraction"] for p in progress] == sorted(p["fraction"] for p in progress)
    assert (progress[0]["step"], progress[0]["steps"]) == (0, 3)
    assert (progress[-1]["step"], progress[-1]["fraction"]) == (3, 1.0)
    texts = [e["data"]["text"] for e in events(job_dir, "message")]
    assert texts[0].startswith("There is no GPU")
    assert any(text.startswith("ResNet-18 step, fp32, contiguous: ") for text in texts)
    resolved = events(job_dir, "resolved")[0]["data"]
    assert "auto" not in json.dumps(resolved["spec"]["measure"])
    assert resolved["environment"]["device"] == "cpu"


def test_a_missing_gpu_fails_instead_of_measuring_the_cpu(make_benchmark, events, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    job_dir = make_benchmark(device="cuda:0")
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    assert events(job_dir)[-1]["data"]["code"] == "no_gpu"


ENDLESS = {"seconds": 3600, "samples": 1000}


def wait_until_measuring(job_dir):
    path = job_dir.events_path
    wait_for(lambda: path.exists() and '"activity":' in path.read_text())


def test_a_cancelled_benchmark_stops_between_two_calls(make_benchmark):
    job_dir = make_benchmark(tests=["matmul"], sizes=[2048], **ENDLESS)
    stop, before = StopSignal(), signal.getsignal(signal.SIGTERM)

    def cancel():
        wait_until_measuring(job_dir)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=cancel, daemon=True)
    stop.install()
    try:
        thread.start()
        assert run_job(job_dir, stop) == EXIT_STOPPED
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not job_dir.outputs_path.exists()


def test_sigterm_stops_a_benchmark_that_trains_and_leaves_no_process(make_benchmark):
    job_dir = make_benchmark(tests=["training"], **ENDLESS)
    process = subprocess.Popen(
        [sys.executable, "-m", "worker.trainer", str(job_dir.root)],
        env={**os.environ, "REDKILN_PARENT_PID": str(os.getpid())},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_measuring(job_dir)
        assert process.poll() is None
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == EXIT_STOPPED
        assert not [child for child in children if child.is_running()]
    finally:
        process.kill()
        process.wait()
    assert not job_dir.outputs_path.exists()
