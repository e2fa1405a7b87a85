from types import SimpleNamespace

import pytest
import torch

from worker.trainer.autotune import estimate
from worker.trainer.autotune.estimate import announce_estimate, describe_estimate, describe_time
from worker.trainer.autotune.remembered import Remembered


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (59.6, "60 s"), (120, "2 min"), (1080, "18 min"), (9000, "2.5 h")],
)
def test_times_have_the_unit_that_suits_them(seconds, text):
    assert describe_time(seconds) == text


def test_a_long_training_is_announced_with_what_is_shorter():
    others = {"amdnet": 120.0, "huge": 5000.0}
    assert describe_estimate("resnet18", 1200, 0.9, place="this CPU", others=others) == (
        "training takes about 18 min on this CPU: 1,200 steps of resnet18, 0.9 s each, without "
        "evaluations. To shorten it, set `model: amdnet` (about 2 min), `quality: fast`, or fewer "
        "epochs"
    )


def test_the_fast_quality_is_not_suggested_to_a_job_that_has_it():
    text = describe_estimate("tabm", 100, 1, place="this CPU", others={}, folds=5)
    assert "Each of the 5 folds takes nearly as long again. To shorten it" in text
    text = describe_estimate("amdnet", 100, 1, place="this CPU", others={}, is_fast=True)
    assert text.endswith("without evaluations. To shorten it, set fewer epochs")


class Log:
    def __init__(self):
        self.messages = []

    def message(self, text):
        self.messages.append(text)


@pytest.fixture
def announce(monkeypatch, tmp_path):
    """Announces a job of 100 steps of so many seconds; returns the messages and the estimate."""

    def announce(step_seconds, *, steps_made=0):
        monkeypatch.setattr(estimate, "key_of", lambda setup: {"job": step_seconds})
        monkeypatch.setattr(estimate, "replace", lambda setup, model: model)
        monkeypatch.setattr(
            estimate,
            "measure_step_seconds",
            lambda setup, device: 0.1 if setup == "a small network" else step_seconds,
        )
        log = Log()
        seconds = announce_estimate(
            SimpleNamespace(
                plan=SimpleNamespace(steps=100),
                spec=SimpleNamespace(model=SimpleNamespace(name="resnet18"), num_folds=0),
                smaller_models={"amdnet": lambda: "a small network"},
            ),
            steps_made=steps_made,
            device=torch.device("cpu"),
            remembered=Remembered(tmp_path, {}),
            event_log=log,
        )
        return log.messages, seconds

    return announce


def test_a_short_training_is_not_announced(announce):
    assert announce(0.5) == ([], 50)
    assert announce(1.0, steps_made=50) == ([], 100)


def test_the_time_of_a_smaller_model_is_measured(announce):
    (message,), seconds = announce(2.0)
    assert seconds == 200
    assert "about 3 min on this CPU" in message
    assert "`model: amdnet` (about 10 s)" in message


def test_a_device_without_memory_for_a_step_gets_no_estimate(announce):
    assert announce(None) == ([], None)
