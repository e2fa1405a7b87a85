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


README = """
# main.py
import fade_v11_plus
fade_v11_plus.apply_fade_patches()

# ... use torch.cuda normally!
import torch
print(torch.cuda.get_device_properties(0))
"""
"""The program of FADE's README under "Usage" (read 2026-11-24), word for word."""
TORCH = """
from types import SimpleNamespace as N
properties = N(name="Radeon RX 6800 XT", multi_processor_count=36, warp_size=32)
cuda = N(is_available=lambda: True, get_device_properties=lambda _: properties)
"""


def run(program, tmp_path, torch=TORCH):
    (tmp_path / "torch.py").write_text(torch)
    return subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": f"{HOOK_DIR}:{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_program_of_fades_readme_runs_unchanged(tmp_path):
    done = run(README, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "multi_processor_count=36, warp_size=32" in done.stdout


def test_the_corrected_properties_are_those_of_hip(tmp_path):
    program = (
        "import fade_v11_plus as fade\nprint(fade.get_corrected_device_properties().warp_size)"
    )
    assert run(program, tmp_path).stdout == "32\n"


@pytest.mark.parametrize(
    ("torch", "wanted"),
    [
        (TORCH, "Multiprocessors: 36\nLanes of a wave: 32\n\nNo patch of Redkiln"),
        (TORCH.replace("True", "False"), "torch opens no GPU"),
    ],
)
def test_the_test_of_fade_prints_the_real_numbers(tmp_path, torch, wanted):
    done = run("import fade_v11_plus as fade\nfade.test_fade_effectiveness()", tmp_path, torch)
    assert done.returncode == 0
    assert wanted in done.stdout
