import sys
from types import SimpleNamespace

import pytest

from worker.hardware.doctor.evidence import Torch
from worker.hardware.doctor.gather import read_torch
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.program import ASK_TORCH, TorchFacts
from worker.hardware.rocm_version import read_rocm_version


@pytest.mark.parametrize(
    ("version", "wanted"),
    [
        (SimpleNamespace(hip="7.15.26333", rocm="10.0.0"), "10.0.0"),
        (SimpleNamespace(hip="7.2.26015-fc0010cf6a"), "7.2.26015-fc0010cf6a"),
        (SimpleNamespace(hip=None, rocm=None), None),
    ],
)
def test_the_release_is_rocms_where_torch_reports_it(version, wanted):
    assert read_rocm_version(version) == wanted


def test_the_doctor_names_rocms_release_and_not_hips():
    torch = read_torch({"torch_version": "2.13.0", "hip_version": "7.15", "rocm_version": "10.0.0"})

    assert torch.rocm_release == "10.0.0"
    assert Torch("2.10.0", hip="7.2.4").rocm_release == "7.2.4"


def test_hip_7_15_of_rocm_10_counts_as_wheels_for_single_architectures():
    assert PatchFacts("rocm", rocm="10.0.0").is_therock
    assert not PatchFacts("rocm", rocm="7.2.4").is_therock


def test_a_programs_own_interpreter_reports_rocms_release(monkeypatch, capsys):
    version = SimpleNamespace(hip="7.15.26333", rocm="10.0.0")
    cuda = SimpleNamespace(is_available=lambda: False)
    torch = SimpleNamespace(__version__="2.13.0", version=version, cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", torch)

    exec(ASK_TORCH, {})  # the text is our own

    assert TorchFacts.model_validate_json(capsys.readouterr().out).rocm == "10.0.0"
