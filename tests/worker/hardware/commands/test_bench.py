import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from redkiln.tasks import parse_spec
from redkiln.views.benchmark import BenchmarkResult
from redkiln.views.hardware import PatchOutcome
from worker.hardware.commands.bench import add_arguments, build_order, build_suite_options

ROOT = Path(__file__).parents[4]
COMMAND = [sys.executable, "-m", "worker.hardware", "bench", "--device", "cpu", "--quick"]
PATCH = PatchOutcome(name="sdma", outcome="applied", why="copies hang")


def parse(*arguments):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("arguments", "device", "resources", "seconds"),
    [
        ((), "cpu", {"device": "cpu"}, 180),
        (("--quick",), "cuda:0", {"device": "gpu"}, 30),
        (("--gpus", "4", "--seconds", "9"), "cuda:0", {"device": "gpu", "gpus": 4}, 9),
    ],
)
def test_the_options_become_an_order_that_the_trainer_reads(
    tmp_path, arguments, device, resources, seconds
):
    order = build_order(parse(*arguments), device=device, patches=[PATCH], folder=tmp_path)
    assert order.spec["resources"] == resources
    assert parse_spec(order.spec).measure.seconds == seconds
    assert (order.device, order.dataset, order.patches) == (device, None, [PATCH])


def test_tests_and_precisions_can_be_chosen(tmp_path):
    chosen = parse("--quick", "--test", "memory", "--test", "matmul", "--precision", "bf16")
    order = build_order(chosen, device="cpu", patches=[], folder=tmp_path)
    measure = parse_spec(order.spec).measure
    assert (measure.tests, measure.precisions) == (["memory", "matmul"], ["bf16"])
    assert measure.samples == 7


# Not the convolutions of a training step: on one thread, some CPUs take a minute for those in bf16.
def test_a_machine_is_measured_without_a_queue(tmp_path):
    few = ("--seconds", "1", "--threads", "1", "--test", "matmul", "--precision", "fp32")
    done = subprocess.run(
        [*COMMAND, *few, "--json", "--out", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = BenchmarkResult.model_validate(json.loads(done.stdout))
    assert result.machine.kind == "cpu"
    assert "There is no GPU" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        "benchmark.json",
        "benchmark.png",
        "report.md",
    }


def test_an_interrupt_ends_the_trainer_too():
    process = subprocess.Popen(COMMAND, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        assert line.startswith("There is no GPU")
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        deadline = time.monotonic() + 10
        while any(child.is_running() for child in children):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_the_suites_options_are_passed_on(tmp_path):
    given = parse("--suite", "ai", "--quick", "--onnx", "--precision", "bf16",
                  "--networks", "lstm", "u-net", "--out", str(tmp_path))  # fmt: skip
    assert build_suite_options(given, "cuda:0") == [
        "--device", "cuda:0", "--precision", "bf16", "--out", str(tmp_path), "--quick", "--onnx",
        "--networks", "lstm", "u-net",
    ]  # fmt: skip
