"""`import fade_v11_plus` in a program, with and without Redkiln in its interpreter."""

import json
import subprocess
import sys

import pytest

from worker.hardware.commands.run import HOOK_DIR
from worker.hardware.hook import fade_v11_plus
from worker.hardware.hook.fade_v11_plus import REFUSED, apply_fade_patches

PROGRAM = """
import sys, types
sys.modules["torch"] = types.ModuleType("torch")
import fade_v11_plus
report = fade_v11_plus.apply_fade_patches()
import os
assert not {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} & set(os.environ)
print(report)
"""


@pytest.fixture
def lean(monkeypatch):
    """An interpreter with torch and without Redkiln."""
    monkeypatch.setitem(sys.modules, "torch", fade_v11_plus)
    monkeypatch.setattr(fade_v11_plus, "_apply_with_redkiln", lambda: "")
    for name in (*REFUSED, "REDKILN_TORCH_SETTINGS"):
        monkeypatch.delenv(name, raising=False)


def test_a_program_without_redkiln_imports_it_from_the_hooks_folder():
    done = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM],
        env={
            "PYTHONPATH": str(HOOK_DIR),
            "FADE_FORCE_WARP_SIZE": "64",
            "REDKILN_TORCH_SETTINGS": json.dumps({"torch.backends.cudnn.benchmark": "True"}),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "FADE_FORCE_WARP_SIZE=64 is refused: a wave of RDNA has 32 lanes" in done.stdout
    assert "torch.backends.cudnn.benchmark=True" in done.stdout


@pytest.mark.parametrize("name", REFUSED)
def test_a_forced_number_is_refused_with_its_reason(lean, monkeypatch, name):
    monkeypatch.setenv(name, "64")
    assert apply_fade_patches().refused == {f"{name}=64": REFUSED[name]}


def test_without_patches_it_says_so(lean):
    assert "No patch" in str(apply_fade_patches())


def test_with_redkiln_the_full_report_is_given(lean, monkeypatch):
    monkeypatch.setattr(fade_v11_plus, "_apply_with_redkiln", lambda: "Patches for this hardware")
    assert str(apply_fade_patches()) == "Patches for this hardware"


def test_torch_has_to_be_imported_before(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(RuntimeError, match="import torch before"):
        apply_fade_patches()
