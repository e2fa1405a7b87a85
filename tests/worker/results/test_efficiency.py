import pytest

from worker.export.card.efficiency_section import PARTS, render_efficiency
from worker.results.efficiency import EfficiencyFacts, judge


def facts(*, seconds=None, **changes):
    base = {
        "device": "cuda",
        "precision": "bf16",
        "batch_size": 128,
        "seconds": {"start": 2.0, "steps": 100.0, "checkpoints": 1.0, **(seconds or {})},
        "num_steps": 1000,
    }
    return EfficiencyFacts(**{**base, **changes})


# A step of 101 ms, of which the bare step is 100 ms.
FAST = {"bare_step_seconds": 0.1, "flops_per_step": 10**12}


@pytest.mark.parametrize(
    ("changes", "bound", "settings"),
    [
        # More epochs would reduce the share of preparation, but not improve the model.
        ({"seconds": {"start": 300.0}}, "start", []),
        ({"seconds": {"first steps": 300.0}}, "start", []),
        ({"seconds": {"evaluation": 60.0}}, "evaluation", ["training.validation_fraction"]),
        ({"seconds": {"checkpoints": 20.0}}, "checkpoints", ["training.checkpoint_seconds"]),
        (
            {"seconds": {"steps": 50.0, "data": 50.0}, "reads_images": True},
            "data",
            ["training.augment", "model.options.image_size", "REDKILN_THREADS"],
        ),
        # Tables and texts have no such fields.
        ({"seconds": {"steps": 50.0, "data": 50.0}}, "data", ["REDKILN_THREADS"]),
        # What `auto` weighed is not advised against.
        (
            {"device": "cpu", "precision": "fp32", "can_bf16": True, "is_precision_measured": True},
            "compute",
            [],
        ),
        # A CPU computes, whatever share of an unknown peak that is.
        ({"device": "cpu", "precision": "fp32"}, "compute", []),
        (
            {"device": "cpu", "precision": "fp32", "can_bf16": True},
            "compute",
            ["training.precision"],
        ),
        # Steps of 2 ms at 2 % of the peak are launches.
        (
            {"num_steps": 50_000, "flops_per_step": 10**10, "peak_tflops": 200.0},
            "launch",
            ["training.batch_size", "training.compile"],
        ),
        (
            {"num_steps": 50_000, "memory_share": 0.9, "may_compile": False},
            "launch",
            [],
        ),
        # Half of the bare step, and batches are ready in time: it is the host.
        (
            {"bare_step_seconds": 0.05, "flops_per_step": 10**12, "peak_tflops": 100.0},
            "host",
            ["training.batch_size", "training.compile"],
        ),
        ({**FAST, "peak_tflops": 20.0}, "compute", ["resources.gpus"]),
        ({**FAST, "peak_tflops": 200.0}, "memory", ["training.compile"]),
        (
            {**FAST, "peak_tflops": 200.0, "precision": "fp32", "can_bf16": True},
            "memory",
            ["training.precision", "training.compile"],
        ),
        ({**FAST, "why_no_peak": "not in the table"}, "unknown", []),
    ],
)
def test_the_limit_of_a_training_and_its_changes_are_found(changes, bound, settings):
    found = judge(facts(**changes))
    assert found.bound_by == bound
    assert [change.setting for change in found.changes] == settings
    assert found.verdict


def test_shares_follow_from_the_times():
    found = judge(facts(**FAST, peak_tflops=50.0))
    assert found.samples_per_second == pytest.approx(128 / 0.101)
    assert found.bare_share == pytest.approx(0.1 / 0.101)
    assert found.tflops == pytest.approx(1 / 0.101)
    assert found.peak_share == pytest.approx(found.tflops / 50)


def test_a_process_without_steps_is_not_judged():
    assert judge(facts(num_steps=0)) is None
    assert judge(facts(seconds={"steps": 0.0, "checkpoints": 0.0})) is None


def test_the_section_distinguishes_known_and_unknown_facts():
    known = render_efficiency(judge(facts(**FAST, peak_tflops=50.0)))
    assert known.startswith("## Efficiency\n\nThe steps themselves take most of the time at 20% of")
    assert "1,267 samples/s" in known
    assert "Share of the bare step: 99% (100.00 ms" in known
    assert "Share of the device's peak: 20% (9.9 TFLOP/s of 50 in bf16)" in known
    assert "| steps: forward, backward, update | 100.0 | 97.1% |" in known
    unknown = render_efficiency(
        judge(
            facts(
                device="cpu",
                why_not_bare="the training was too short to spend more time on it",
                why_no_peak="the peak of a CPU is unknown",
            )
        )
    )
    assert "Share of the bare step: unknown (the training was too short" in unknown
    assert "Share of the device's peak: unknown (the peak of a CPU is unknown)" in unknown


def test_every_part_of_the_time_has_a_description():
    seconds = dict.fromkeys(PARTS, 1.0)
    text = render_efficiency(judge(facts(seconds=seconds)))
    assert all(words in text for words in PARTS.values())


def test_a_small_step_is_shown_in_a_suitable_unit():
    text = render_efficiency(judge(facts(bare_step_seconds=0.1, flops_per_step=28 * 10**6)))
    assert "0.277 GFLOP/s" in text


def test_the_trainers_memory_is_shown_with_the_size_of_its_data():
    text = render_efficiency(judge(facts(host_peak_bytes=1536 * 2**20, data_bytes=92 * 2**20)))
    assert (
        "Peak host memory of the trainer: 1,536 MiB, including torch; the data set takes 92.0 MiB"
        in text
    )
    small = render_efficiency(judge(facts(host_peak_bytes=1536 * 2**20, data_bytes=9 * 2**10)))
    assert "the data set takes less than 0.1 MiB as training reads it" in small
    assert "host memory" not in render_efficiency(judge(facts()))
