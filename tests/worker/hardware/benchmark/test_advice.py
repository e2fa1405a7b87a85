from datetime import UTC, datetime

import pytest

from redkiln.views.benchmark import BenchmarkResult, Comparison, Machine, Measurement, Pair, Rate
from worker.hardware.benchmark.advice import best_rates, recommend

MACHINE = Machine(
    hostname="bench", kind="gpu", device="a GPU", cpu="a CPU", num_cores=8, num_threads=8
)
UNITS = {"matmul": "TFLOP/s", "training": "images/s"}


def measured(measurement_id, value, *, spread=0.01, n=15, seconds=0.01, **fields):
    test, kind, precision, *layout = [*measurement_id.split("/"), None]
    is_precise = test in ("matmul", "training")
    return Measurement(
        id=measurement_id,
        test=test,
        title=measurement_id.replace("/", " "),
        unit=UNITS.get(test, "GB/s"),
        precision=precision if is_precise else None,
        layout=layout[0] if test == "training" else None,
        size=int(kind) if test == "matmul" else None,
        rate=Rate(value=value, spread=spread, num_samples=n),
        seconds=seconds,
        **fields,
    )


def result(*measurements, comparisons=()):
    return BenchmarkResult(
        at=datetime(2026, 11, 21, tzinfo=UTC),
        seconds=1.0,
        machine=MACHINE,
        measurements=list(measurements),
        comparisons=list(comparisons),
    )


def step(precision, layout, value, **fields):
    return measured(f"training/resnet18/{precision}/{layout}", value, **fields)


def compared(*ratios, name="patches", spread=0.01, agrees=True, gap=1e-4):
    pairs = [
        Pair.model_validate(
            {"id": f"t{n}", "title": f"test {n}", "unit": "images/s", "without": 100.0,
             "with": 100.0 * ratio, "spread": spread, "num_samples": 15}
        )
        for n, ratio in enumerate(ratios)
    ]  # fmt: skip
    return Comparison(
        name=name, title="The patches", pairs=pairs, largest_difference=gap, agrees=agrees
    )


@pytest.mark.parametrize(
    ("case", "code", "words"),
    [
        (
            [step("fp32", "contiguous", 500.0), step("bf16", "contiguous", 950.0)],
            "use_precision",
            "bf16 gives 1.90x here (950 against 500 images/s): train in bf16",
        ),
        (
            [step("fp32", "contiguous", 500.0), step("bf16", "contiguous", 305.0)],
            "use_precision",
            "bf16 gives 0.61x here (305 against 500 images/s): stay with fp32",
        ),
        (
            [step("fp32", "contiguous", 500.0), step("bf16", "contiguous", 510.0)],
            "use_precision",
            "stay with fp32",
        ),
        (
            [step("fp32", "contiguous", 500.0, spread=0.3), step("bf16", "contiguous", 600.0)],
            "use_precision",
            "stay with fp32",
        ),
        (
            [
                step("fp32", "contiguous", 500.0),
                step("bf16", "contiguous", 950.0),
                step("fp16", "contiguous", 980.0),
            ],
            "use_precision",
            "train in bf16",
        ),
        (
            [
                step("fp32", "contiguous", 500.0),
                step("bf16", "contiguous", 700.0),
                step("fp16", "contiguous", 980.0),
            ],
            "use_precision",
            "train in fp16",
        ),
        (
            [step("fp16", "contiguous", 1000.0), step("fp16", "channels_last", 920.0)],
            "channels_last",
            "channels_last loses 8% in fp16 (920 against 1,000 images/s): off",
        ),
        (
            [step("fp16", "contiguous", 1000.0), step("fp16", "channels_last", 1120.0)],
            "channels_last",
            "channels_last gains 12% in fp16 (1,120 against 1,000 images/s): on",
        ),
        (
            [step("fp16", "contiguous", 1000.0), step("fp16", "channels_last", 1010.0)],
            "channels_last",
            "makes no difference",
        ),
        (
            [
                step("fp16", "contiguous", 1000.0, spread=0.2),
                step("fp16", "channels_last", 1120.0),
            ],
            "channels_last",
            "makes no difference",
        ),
        (
            [measured("copies/pinned", 25.0), measured("copies/unpinned", 8.3)],
            "pin_memory",
            "unpinned host-to-device copies are 3.0x slower (8.3 against 25.0 GB/s)",
        ),
        (
            [measured("matmul/4096/fp16", 30.0, peak=100.0)],
            "low_share_of_peak",
            "fp16 products reach 30% of the computed peak (30 of 100 TFLOP/s)",
        ),
        (
            [
                step("bf16", "contiguous", 1000.0, seconds=0.02),
                measured("allreduce/46800000", 12.0, seconds=0.004),
            ],
            "allreduce",
            "takes 4.0 ms, 20% of a step (20.0 ms): several GPUs are worthwhile",
        ),
        (
            [
                step("bf16", "contiguous", 1000.0, seconds=0.02),
                measured("allreduce/46800000", 5.0, seconds=0.01),
            ],
            "allreduce",
            "50% of a step (20.0 ms): raise the batch size",
        ),
        (
            [measured("memory/copy", 800.0, spread=0.4), measured("memory/triad", 800.0)],
            "unsteady",
            "1 of 2 tests vary by more than 15% (memory copy: 40%)",
        ),
        (
            [measured("matmul/8192/fp32", 1.0, n=1)],
            "few_samples",
            "too slow to be sampled 3 times",
        ),
    ],
)
def test_recommendations_follow_from_the_numbers_and_quote_them(case, code, words):
    found = {item.code: item for item in recommend(result(*case))}
    assert words in found[code].text
    assert found[code].numbers


@pytest.mark.parametrize(
    "case",
    [
        [],
        [step("bf16", "contiguous", 950.0)],
        [step("fp32", "contiguous", 950.0)],
        [measured("copies/pinned", 25.0), measured("copies/unpinned", 24.0)],
        [measured("copies/pinned", 25.0)],
        [measured("matmul/4096/fp16", 80.0, peak=100.0)],
        [measured("matmul/1024/fp16", 10.0, peak=100.0)],
        [measured("matmul/4096/fp16", 10.0)],
        [measured("allreduce/46800000", 12.0)],
    ],
)
def test_without_findings_there_are_no_recommendations(case):
    assert recommend(result(*case)) == []


def test_a_recommended_precision_is_a_setting_of_a_spec():
    case = [step("fp32", "contiguous", 500.0), step("bf16", "channels_last", 950.0)]
    (found,) = [item for item in recommend(result(*case)) if item.code == "use_precision"]
    assert found.setting == "training.precision: bf16"
    assert found.numbers == {"bf16_ratio": 1.9}


def test_a_step_sampled_once_supports_no_recommendation():
    case = [step("fp32", "contiguous", 500.0, n=1), step("bf16", "contiguous", 950.0)]
    assert {item.code for item in recommend(result(*case))} == {"few_samples"}


@pytest.mark.parametrize(
    ("comparison", "words"),
    [
        (compared(1.21, 1.0), "The patches gain 10% (test 0 1.21x, test 1 1.00x): on"),
        (compared(0.81, 1.0), "The patches lose 10% (test 0 0.81x, test 1 1.00x): off"),
        (compared(1.01), "The patches make no difference beyond the noise"),
        (compared(1.2, spread=0.5), "make no difference beyond the noise"),
        (compared(1.9, agrees=False, gap=0.5), "results differ by 5.0e-01"),
    ],
)
def test_a_comparison_is_judged_by_the_mean_of_its_tests(comparison, words):
    (found,) = recommend(result(comparisons=[comparison]))
    assert words in found.text


def test_small_batches_on_a_cpu_recommend_no_precision_setting():
    steps = (step("fp32", "contiguous", 18.0), step("bf16", "contiguous", 8.0))
    machine = MACHINE.model_copy(update={"kind": "cpu"})
    (found,) = recommend(result(*steps).model_copy(update={"machine": machine}))
    assert found.text.endswith("fp32 for batches this small; larger batches may differ")
    assert found.setting is None


def test_a_skipped_comparison_is_not_judged():
    skipped = Comparison(name="patches", title="The patches", skipped="there is no GPU")
    assert recommend(result(comparisons=[skipped])) == []


def test_the_best_rates_summarise_a_machine():
    found = best_rates(
        result(
            measured("matmul/1024/fp16", 40.0),
            measured("matmul/4096/fp16", 80.0),
            measured("memory/copy", 800.0),
            step("bf16", "contiguous", 950.0),
            measured("copies/pinned", 25.0),
        )
    )
    assert found == {
        "matmul/fp16_tflops": 80.0,
        "memory/copy_gb_per_second": 800.0,
        "training/bf16_images_per_second": 950.0,
        "copies/pinned_gb_per_second": 25.0,
    }
