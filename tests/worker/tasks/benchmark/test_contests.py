import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch

from redkiln.tasks.benchmark import Measure
from redkiln.views.benchmark import BenchmarkResult, Comparison, Machine, Pair
from redkiln.views.hardware import PatchOutcome
from worker.hardware.benchmark.comparison import run_contest
from worker.hardware.benchmark.plan import DeviceFacts, resolve_measure
from worker.hardware.patches.trials import load_trials
from worker.tasks.benchmark.contests import (
    choose_key_tests,
    find_kernel_cache_dir,
    list_contests,
    save_trials,
)

GPU = DeviceFacts("gpu", free_bytes=2**34, num_gpus=1)
CPU = DeviceFacts("cpu", free_bytes=2**34)
APPLIED = PatchOutcome(
    name="sdma",
    outcome="applied",
    why="copies hang",
    environment={"HSA_ENABLE_SDMA": "0"},
    settings={"torch.backends.cudnn.benchmark": "False"},
)
ENVIRON = {"PATH": "/bin", "HSA_ENABLE_SDMA": "0", "PYTORCH_TUNABLEOP_ENABLED": "0"}


def contests(facts=GPU, *, device="cuda:0", outcomes=(APPLIED,), is_hip=True, **asked):
    return list_contests(
        resolve_measure(Measure(**asked), facts),
        facts,
        device=torch.device(device),
        threads=1,
        outcomes=outcomes,
        environ=ENVIRON,
        is_hip=is_hip,
        tunings_dir=Path("/cache"),
    )


def test_the_patches_are_compared_with_an_environment_that_lacks_them():
    (contest, cases) = contests()[0]
    assert contest.without == {"PATH": "/bin", "PYTORCH_TUNABLEOP_ENABLED": "0"}
    assert contest.with_ == {**contest.without, "HSA_ENABLE_SDMA": "0"}
    assert contest.with_arguments == ("--settings", json.dumps(APPLIED.settings))
    assert "--settings" not in contest.arguments
    assert [case["id"] for case in json.loads(contest.arguments[-1])] == [c.id for c in cases]


def test_on_amd_tuned_products_and_the_layout_are_compared_separately():
    names = [contest.name for contest, _ in contests()]
    assert names == ["patches", "tunableop", "channels_last"]
    (tuned, products) = contests()[1]
    assert {case.test for case in products} == {"matmul"}
    assert "PYTORCH_TUNABLEOP_ENABLED" not in tuned.without
    assert tuned.with_["PYTORCH_TUNABLEOP_ENABLED"] == "1"
    assert tuned.with_["HSA_ENABLE_SDMA"] == tuned.without["HSA_ENABLE_SDMA"] == "0"
    (layout, cases) = contests()[2]
    assert {case.precision for case in cases} == {"fp16", "bf16"}
    assert layout.with_["PYTORCH_MIOPEN_SUGGEST_NHWC"] == "1"
    assert layout.with_arguments == ("--layout", "channels_last")


@pytest.mark.parametrize(
    ("prefers", "listed"), [({}, None), ({"TORCH_BLAS_PREFER_HIPBLASLT": "0"}, "0")]
)
def test_tuning_checks_numbers_and_leaves_out_a_library_that_is_wrong(monkeypatch, prefers, listed):
    for name, value in prefers.items():
        monkeypatch.setitem(ENVIRON, name, value)
    tuned, _ = contests()[1]
    assert tuned.with_["PYTORCH_TUNABLEOP_NUMERICAL_CHECK"] == "1e-2_1e-2"
    assert tuned.with_.get("PYTORCH_TUNABLEOP_HIPBLASLT_ENABLED") == listed


def test_elsewhere_only_the_patches_are_compared():
    assert [contest.name for contest, _ in contests(is_hip=False)] == ["patches"]


@pytest.mark.parametrize(
    ("facts", "outcomes", "words"),
    [
        (CPU, [APPLIED], "no patch changes how a CPU computes"),
        (GPU, [], "no patch changes how this GPU computes"),
    ],
)
def test_without_an_applied_patch_the_comparison_is_skipped_with_a_reason(facts, outcomes, words):
    (comparison,) = contests(facts, outcomes=outcomes, is_hip=False)
    assert words in comparison.skipped
    assert comparison.patches == list(outcomes)


def test_nothing_is_compared_unless_requested():
    assert contests(compare=False) == []


def test_the_key_tests_are_few_and_of_each_kind():
    measure = resolve_measure(Measure(precisions=["fp16"]), GPU)
    assert [case.id for case in choose_key_tests(measure, GPU)] == [
        "matmul/4096/fp16",
        "convolution/step/fp16/contiguous",
        "training/resnet18/fp16/contiguous",
    ]


def test_if_all_products_are_large_the_smallest_is_the_key_test():
    measure = resolve_measure(Measure(sizes=[8192, 16384], tests=["matmul"]), GPU)
    assert {case.size for case in choose_key_tests(measure, GPU)} == {8192}


def test_the_folder_of_kernels_is_the_one_set_by_the_patch():
    environment = {"TRITON_CACHE_DIR": "/cache/gfx1100/triton"}
    caches = PatchOutcome(name="kernel_caches", outcome="applied", why="", environment=environment)
    assert find_kernel_cache_dir([APPLIED, caches]) == Path("/cache/gfx1100")
    assert find_kernel_cache_dir([APPLIED]) is None


def test_a_comparison_of_a_single_patch_becomes_its_trial(tmp_path):
    pair = Pair.model_validate(
        {"id": "a", "title": "a product", "unit": "TFLOP/s", "without": 10.0, "with": 12.5,
         "spread": 0.02, "num_samples": 15}
    )  # fmt: skip
    comparisons = [
        Comparison(name=name, title=name, pairs=[pair], largest_difference=0.0, agrees=True)
        for name in ("patches", "tunableop")
    ]
    machine = Machine(hostname="b", kind="gpu", device="d", cpu="c", num_cores=1, num_threads=1)
    result = BenchmarkResult(
        at=datetime(2026, 11, 21, tzinfo=UTC), seconds=1, machine=machine, comparisons=comparisons
    )
    assert save_trials(result, tmp_path) == ["tunableop"]
    (trial,) = load_trials(tmp_path).values()
    assert (trial.patch, trial.ratio, trial.num_pairs) == ("tunableop", 0.8, 15)
    assert trial.has_won


def test_two_processes_of_the_same_environment_compute_the_same():
    measure = resolve_measure(
        Measure(tests=["matmul", "training"], sizes=[32], precisions=["fp32"], batch_size=1,
                image_size=32), CPU,
    )  # fmt: skip
    (contest, cases) = list_contests(
        measure,
        GPU,
        device=torch.device("cpu"),
        threads=1,
        outcomes=[APPLIED],
        environ={**os.environ, "HSA_ENABLE_SDMA": "0"},
        is_hip=True,
        tunings_dir=Path("/cache"),
    )[0]
    made = run_contest(contest, cases, rounds=3, seconds=60)
    assert made.skipped is None
    assert [pair.id for pair in made.pairs] == [
        "matmul/32/fp32",
        "training/resnet18/fp32/contiguous",
    ]
    assert (made.largest_difference, made.agrees) == (0.0, True)
