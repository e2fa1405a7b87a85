"""The layout of images in memory: when it is measured, what is kept, and that numbers stay."""

from dataclasses import replace

import pytest
import torch

from worker.checkpoints.checkpoint import CheckpointStore
from worker.trainer.autotune import layout, step_trials
from worker.trainer.autotune.layout import (
    FORMATS,
    TRIAL_STEPS,
    asked_layout,
    choose_layout,
    describe_layouts,
    tune_layout,
)
from worker.trainer.autotune.remembered import Remembered

CPU = torch.device("cpu")
LONG = TRIAL_STEPS * 20


@pytest.mark.parametrize(
    ("times", "rule", "chosen"),
    [
        ({"contiguous": 1.0, "channels_last": 0.9}, "contiguous", "channels_last"),
        ({"contiguous": 1.0, "channels_last": 0.96}, "contiguous", "contiguous"),
        ({"contiguous": 0.96, "channels_last": 1.0}, "channels_last", "channels_last"),
        ({"contiguous": 0.9, "channels_last": 1.0}, "channels_last", "contiguous"),
    ],
)
def test_the_rule_is_overridden_only_by_a_clearly_faster_layout(times, rule, chosen):
    assert choose_layout(times, rule=rule) == chosen


def test_the_message_contains_the_measurements():
    text = describe_layouts({"contiguous": 0.0125, "channels_last": 0.01}, chosen="channels_last")
    assert text == (
        "the memory layout of images is channels_last: "
        "a step takes 12.5 ms in contiguous, 10.0 ms in "
        "channels_last"
    )


def is_channels_last(setup):
    images, _ = setup.batches.get(0, 0)
    laid = [p for p in setup.model.parameters() if p.dim() == 4] + [images]
    found = {tensor.is_contiguous(memory_format=torch.channels_last) for tensor in laid}
    assert len(found) == 1, "the model and its images lie alike"
    return found.pop()


@pytest.fixture
def settle(tmp_path, make_job, make_event_log, start, monkeypatch):
    """Settles the layout of a job whose steps take what a test says, by layout."""
    event_log = make_event_log("layout.jsonl")
    monkeypatch.setattr(layout, "KERNEL_SECONDS", {"cpu": 0.0})
    made = []

    def call(*, seconds=None, num_steps=LONG, asked=None, difference=0.0, **options):
        _, setup = start(make_job(model={"name": "amdnet"}))
        setup = replace(setup, plan=replace(setup.plan, steps=num_steps))

        def time_step(setup, _forward, *, device):
            name = "channels_last" if is_channels_last(setup) else "contiguous"
            made.append(name)
            return seconds[name], (1.0, 1.0 + (difference if name == "contiguous" else 0.0))

        if seconds is not None:
            monkeypatch.setattr(layout, "time_step", time_step)
            monkeypatch.setattr(step_trials, "time_step", time_step)
        tune_layout(
            setup,
            asked=asked,
            device=CPU,
            remembered=Remembered(tmp_path / "measured", {}),
            event_log=event_log,
            **options,
        )
        return setup

    call.made = made
    call.text = lambda: (tmp_path / "layout.jsonl").read_text()
    return call


FASTER = {"contiguous": 0.01, "channels_last": 0.02}


def test_a_short_training_follows_the_rule_and_measures_nothing(settle):
    setup = settle(seconds=FASTER, num_steps=LONG - 1)
    assert setup.spec.training.memory_format == "channels_last"
    assert is_channels_last(setup)
    settle(seconds=FASTER, num_steps=10 * LONG, steps_made=9 * LONG + 1)
    assert settle.made == []


def test_measuring_layouts_must_be_worth_finding_kernels(settle, monkeypatch):
    monkeypatch.setattr(layout, "KERNEL_SECONDS", {"cpu": 1.0})
    setup = settle(seconds=FASTER, num_steps=800)
    # Two steps, which told that 800 of them take 16 s.
    assert settle.made == ["channels_last"] * 2
    assert setup.spec.training.memory_format == "channels_last"
    setup = settle(seconds=FASTER, num_steps=4_000)
    assert setup.spec.training.memory_format == "contiguous"


def test_the_faster_layout_is_used_and_remembered(settle):
    for _ in range(2):
        setup = settle(seconds=FASTER)
        assert setup.spec.training.memory_format == "contiguous"
        assert not is_channels_last(setup)
        tried = len(settle.made)
    assert len(settle.made) == tried == TRIAL_STEPS
    assert "the memory layout of images is contiguous: a step takes 10.0 ms" in settle.text()


def test_a_choice_with_different_results_is_never_kept(settle):
    setup = settle(seconds=FASTER, difference=0.5)
    assert setup.spec.training.memory_format == "channels_last"
    assert is_channels_last(setup)


def test_the_layout_in_the_spec_is_used(settle):
    setup = settle(seconds=FASTER, asked="channels_last")
    assert settle.made == []
    assert is_channels_last(setup)


def test_the_rule_applies_if_the_other_layout_does_not_fit_into_memory(settle, monkeypatch):
    def run_out(setup, _forward, *, device):
        if is_channels_last(setup):
            return 1.0, (1.0, 1.0)
        raise torch.OutOfMemoryError("HIP out of memory")

    monkeypatch.setattr(layout, "time_step", run_out)
    monkeypatch.setattr(step_trials, "time_step", run_out)
    setup = settle()
    assert setup.spec.training.memory_format == "channels_last"
    assert is_channels_last(setup)


def test_real_steps_in_both_layouts_agree_and_have_no_effect(settle, start, make_job):
    _, before = start(make_job(model={"name": "amdnet"}))
    setup = settle()
    assert "a step takes" in settle.text()
    kept = before.model.state_dict()
    for name, tensor in setup.model.state_dict().items():
        assert torch.equal(tensor, kept[name]), name
    assert all(parameter.grad is None for parameter in setup.model.parameters())


@pytest.mark.parametrize("memory_format", FORMATS)
def test_a_job_and_its_resumption_train_in_the_requested_layout(
    make_job, start, losses, memory_format
):
    training = {"memory_format": memory_format}
    straight = make_job("straight", model={"name": "amdnet"}, training=training)
    loop, setup = start(straight)
    assert asked_layout(setup.spec) == memory_format
    assert is_channels_last(setup) is (memory_format == "channels_last")
    loop.run()
    cut = make_job("cut", model={"name": "amdnet"}, training=training)
    first, _ = start(cut)
    first.advance(8)
    first._save(is_best=False, metrics={})
    newest = CheckpointStore(cut.checkpoints_dir).manifests()[-1]
    # The spec in the checkpoint has the layout, whatever the order says by now.
    resumed, setup = start(make_job("cut", model={"name": "amdnet"}, order={"resume": newest.name}))
    assert setup.spec.training.memory_format == memory_format
    resumed.run()
    assert losses(cut) == losses(straight)


def test_other_tasks_have_no_layout(make_table_job, start):
    _, setup = start(make_table_job())
    assert asked_layout(setup.spec) is None
    assert setup.lay_out is None
