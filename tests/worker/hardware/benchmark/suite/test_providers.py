"""A provider of ONNX Runtime that fails costs only its own number."""

from dataclasses import replace

import onnxruntime
import pytest
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from tests.worker.hardware.benchmark.suite.test_measure import CPU, TINY
from worker.hardware.benchmark.suite import providers
from worker.hardware.benchmark.suite.measure import measure_workload
from worker.hardware.benchmark.suite.providers import time_providers


class Session:
    """A session whose provider fails when it opens, when it runs, or not at all."""

    def __init__(self, path, providers):
        (self.name,) = providers
        if self.name == "CannotOpen":
            raise Fail("no kernel for Conv\nmore")

    def get_providers(self):
        return ["CPUExecutionProvider" if self.name == "HandsOver" else self.name]

    def get_inputs(self):
        return [type("Input", (), {"name": "x"})]

    def run(self, names, feed):
        if self.name == "CannotRun":
            raise Fail("hipErrorNoBinaryForGpu")


@pytest.fixture
def sessions(monkeypatch):
    names = ["CannotOpen", "CannotRun", "HandsOver", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: names)
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    monkeypatch.setattr(providers, "_export", lambda model, batch, path: path.touch())


def test_a_provider_that_fails_carries_its_reason_and_the_others_are_measured(sessions):
    found = time_providers(torch.nn.Identity(), TINY, seconds=0.0)
    assert list(found.rates) == ["CPUExecutionProvider"]
    assert found.errors == {
        "CannotOpen": "Fail: no kernel for Conv",
        "CannotRun": "Fail: hipErrorNoBinaryForGpu",
    }


def test_torchs_own_rate_survives_a_network_that_cannot_be_exported(sessions, monkeypatch):
    def refuse(model, batch, path):
        raise RuntimeError("no decomposition")

    monkeypatch.setattr(providers, "_export", refuse)
    found = measure_workload(TINY, replace(CPU, with_providers=True))
    assert found.rate.value > 0
    assert (found.providers, found.skipped) == ({}, None)
    assert found.provider_errors == {"export": "RuntimeError: no decomposition"}
