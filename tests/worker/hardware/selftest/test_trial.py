import json

import pytest
import torch

from worker.hardware.selftest import trial
from worker.hardware.selftest.trial import CASES, main, try_case, try_copy

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", CASES)
def test_the_cpu_is_right(name):
    found = try_case(CASES[name](), CPU)
    assert 0.0 < found["error"] <= found["allowed"]


def test_a_copy_is_exact(monkeypatch):
    monkeypatch.setattr(trial, "COPY_NUMBERS", 1000)
    assert try_copy(CPU)["error"] == 0.0


def test_the_result_is_one_line_of_json(capsys, monkeypatch):
    monkeypatch.setattr(trial, "COPY_NUMBERS", 1000)
    assert main(["copy"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"error", "allowed", "seconds"}
