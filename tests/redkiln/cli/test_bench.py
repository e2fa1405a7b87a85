import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from redkiln.views.benchmark import (
    BenchmarkResult,
    Comparison,
    Machine,
    Measurement,
    Pair,
    Rate,
    Recommendation,
)
from tests.redkiln.views.test_suite import make_result, make_test


def result(*, value=20.0, device="RX 7900 XTX"):
    return BenchmarkResult(
        at=datetime(2026, 11, 21, tzinfo=UTC),
        seconds=90.0,
        machine=Machine(
            hostname="bench",
            kind="gpu",
            device=device,
            gfx="gfx1100",
            cpu="a CPU",
            num_cores=8,
            num_threads=8,
            versions={"torch": "2.13.0"},
        ),
        measurements=[
            Measurement(
                id="matmul/4096/fp16",
                test="matmul",
                title="matrix product 4096, fp16",
                unit="TFLOP/s",
                precision="fp16",
                size=4096,
                rate=Rate(value=value, spread=0.021, num_samples=15),
                seconds=0.01,
                peak=40.0,
            ),
            Measurement(
                id="allreduce/46800000",
                test="allreduce",
                title="all-reduce of gradients",
                unit="GB/s",
                skipped="needs several GPUs; this job has one",
            ),
        ],
        comparisons=[
            Comparison(
                name="patches",
                title="Redkiln's patches",
                pairs=[
                    Pair.model_validate(
                        {"id": "a", "title": "a step", "unit": "images/s", "without": 100.0,
                         "with": 125.0, "spread": 0.01, "num_samples": 15}
                    )
                ],
                largest_difference=1e-4,
                agrees=True,
            )
        ],
        recommendations=[
            Recommendation(
                code="use_precision",
                text="fp16 gives 1.90x here",
                setting="training.precision: fp16",
            )
        ],
    )  # fmt: skip


def document(measured):
    return measured.model_dump_json(by_alias=True).encode()


@pytest.fixture
def bench_service(fake):
    fake.task = "benchmark"
    fake.files = {
        "benchmark.json": ("benchmark", document(result())),
        "report.md": ("report", b"# Report\n"),
    }
    fake.events = [("started", {"number": 1}), ("result", {"metrics": {}})]
    return fake


def test_bench_submits_watches_prints_and_keeps_the_files(redkiln, bench_service, tmp_path):
    done = redkiln("bench", "--out", tmp_path / "numbers")
    assert done.code == 0
    ((spec, _),) = bench_service.submitted
    assert spec == {"task": "benchmark"}
    assert "RX 7900 XTX (gfx1100), torch 2.13.0" in done.out
    assert "matrix product 4096, fp16" in done.out
    assert "20 TFLOP/s" in done.out
    assert "50 %" in done.out
    assert "1.25x" in done.out
    assert "needs several GPUs" in done.out
    assert "fp16 gives 1.90x here  training.precision: fp16" in done.out
    assert (tmp_path / "numbers" / "benchmark.json").read_bytes() == document(result())
    assert str(tmp_path / "numbers") in done.out


@pytest.mark.parametrize(
    ("options", "spec"),
    [
        (("--gpus", "2"), {"task": "benchmark", "resources": {"gpus": 2}}),
        (
            ("--set", "measure.seconds=600"),
            {"task": "benchmark", "measure": {"seconds": 600}},
        ),
    ],
)
def test_options_become_the_spec(redkiln, bench_service, tmp_path, options, spec):
    assert redkiln("bench", "--out", tmp_path / "numbers", *options).code == 0
    assert bench_service.submitted[0][0] == spec


def test_quick_measures_the_essentials_and_can_be_adjusted(redkiln, bench_service, tmp_path):
    redkiln("bench", "--quick", "--set", "measure.samples=3", "--out", tmp_path / "numbers")
    measure = bench_service.submitted[0][0]["measure"]
    assert (measure["seconds"], measure["samples"], measure["compare"]) == (30.0, 3, False)


def test_json_is_the_whole_result_and_nothing_else(redkiln, bench_service, tmp_path):
    done = redkiln("bench", "--json", "--out", tmp_path / "numbers")
    assert BenchmarkResult.model_validate(done.json) == result()
    assert done.json["comparisons"][0]["pairs"][0]["with"] == 125.0


def test_a_benchmark_that_failed_says_why(redkiln, bench_service, tmp_path):
    bench_service.status = "failed"
    bench_service.reason = {"code": "no_gpu", "message": "the GPU is not visible"}
    done = redkiln("bench", "--out", tmp_path / "numbers")
    assert done.code == 1
    assert "the GPU is not visible" in done.out
    assert not (tmp_path / "numbers").exists()


@pytest.fixture
def two_files(tmp_path):
    paths = (tmp_path / "a.json", tmp_path / "b.json")
    paths[0].write_bytes(document(result()))
    paths[1].write_bytes(document(result(value=30.0, device="MI300X")))
    return paths


def test_two_machines_are_compared_without_a_service(redkiln, two_files):
    done = redkiln("bench", "--url", "http://127.0.0.1:1", "--compare", *two_files)
    assert done.code == 0
    for words in ("RX 7900 XTX", "MI300X", "20 TFLOP/s", "30 TFLOP/s", "1.50x"):
        assert words in done.out


def test_json_has_the_ratios(redkiln, two_files):
    (row,) = redkiln("bench", "--json", "--compare", *two_files).json
    assert (row["id"], row["ratio"]) == ("matmul/4096/fp16", 1.5)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{}", "not a benchmark result of redkiln: at:"),
        (b"not json", "not a benchmark result of redkiln: Invalid JSON"),
        (None, "No such file"),
    ],
)
def test_a_file_without_a_result_is_named_with_the_reason(
    redkiln, two_files, tmp_path, content, words
):
    path = tmp_path / "c.json"
    if content is not None:
        path.write_bytes(content)
    done = redkiln("bench", "--compare", two_files[0], path)
    assert done.code == 2
    assert str(path) in done.err
    assert words in done.err


def test_a_result_of_a_newer_schema_is_refused_rather_than_misread(redkiln, two_files):
    newer = json.loads(two_files[1].read_bytes()) | {"schema_version": 2}
    two_files[1].write_text(json.dumps(newer))
    done = redkiln("bench", "--compare", *two_files)
    assert done.code == 2
    assert "schema 2" in done.err


@pytest.mark.parametrize("has_worker", [True, False])
def test_without_a_service_the_error_says_how_to_measure_this_machine(
    redkiln, monkeypatch, has_worker
):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: has_worker or None)
    done = redkiln("--url", "http://127.0.0.1:9", "bench")
    assert done.code == 3
    assert ("python -m worker.hardware bench" in done.err) is has_worker


def test_two_results_of_the_suite_are_compared(redkiln, tmp_path):
    for name, rate in (("a.json", 10.0), ("b.json", 20.0)):
        result = make_result(make_test(rate=rate))
        (tmp_path / name).write_text(result.model_dump_json())
    done = redkiln("bench", "--compare", tmp_path / "a.json", tmp_path / "b.json")
    assert "2.00x" in done.out


def test_a_result_is_compared_with_a_shipped_one_and_its_source(redkiln, tmp_path):
    path = tmp_path / "mine.json"
    mine = make_test("mobilenet-v2", rate=3030.4)
    path.write_text(make_result(mine, precision="fp32", sizes="full").model_dump_json())
    done = redkiln("bench", "--compare", path, "mi100-ai-benchmark")
    assert "0.50x" in done.out
    assert "ROCm/MIOpen#2048 on 2023-03-26" in " ".join(done.out.split())
    missing = redkiln("bench", "--compare", path, "mi9000")
    assert missing.code == 2
    assert "mi100-ai-benchmark" in missing.err


def test_the_suite_runs_on_this_machine(redkiln, monkeypatch):
    commands = []
    monkeypatch.setattr(
        "redkiln.cli.bench.subprocess.run",
        lambda command, check: commands.append(command) or SimpleNamespace(returncode=0),
    )
    assert redkiln("bench", "--suite", "ai", "--quick", "--onnx").code == 0
    assert commands[0][2:] == ["worker.hardware", "bench", "--suite", "ai", "--quick", "--onnx"]


def test_an_unknown_suite_is_named(redkiln):
    done = redkiln("bench", "--suite", "mlperf")
    assert done.code != 0
    assert "--suite mlperf does not exist" in done.err
