"""The hook in real programs: what it sets, and that nothing else changes."""

import json
import os
import subprocess
import sys
from pathlib import Path

from redkiln.views.hardware import PatchOutcome
from worker.hardware.commands.run import HOOK_DIR, build_environment

FAKE_TORCH = """
from types import SimpleNamespace as N
backends = N(cudnn=N(benchmark=False))
"""
SETTINGS = {"torch.backends.cudnn.benchmark": "True"}


def run(script, tmp_path, *, settings=SETTINGS, paths=(), watched=None):
    fake = tmp_path / "fake" / "torch"
    fake.mkdir(parents=True, exist_ok=True)
    (fake / "__init__.py").write_text(FAKE_TORCH)
    environment = {
        "PYTHONPATH": os.pathsep.join([str(HOOK_DIR), *map(str, paths), str(fake.parent)]),
    }
    if settings is not None:
        environment["REDKILN_TORCH_SETTINGS"] = json.dumps(settings)
    if watched is not None:
        environment["REDKILN_WATCH_GPU"] = str(watched)
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )


SAYS = "import torch; print(torch.backends.cudnn.benchmark)"


def test_torchs_settings_apply_right_after_its_import(tmp_path):
    assert run(SAYS, tmp_path).stdout == "True\n"
    assert run(SAYS, tmp_path, settings=None).stdout == "False\n"


def test_torchs_settings_apply_after_a_find_spec_call_too(tmp_path):
    asks = "import importlib.util; assert importlib.util.find_spec('torch')"
    assert run(f"{asks}; {asks}; {SAYS}; {asks}", tmp_path).stdout == "True\n"


def test_the_programs_own_settings_take_precedence(tmp_path):
    script = f"import torch; torch.backends.cudnn.benchmark = 'mine'; {SAYS}"
    assert run(script, tmp_path).stdout == "mine\n"


def test_a_program_without_torch_does_not_import_it(tmp_path):
    script = "import sys, json; print('torch' in sys.modules)"
    assert run(script, tmp_path).stdout == "False\n"


def test_child_processes_of_a_program_get_the_settings_too(tmp_path):
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SAYS!r}])"
    assert run(script, tmp_path).stdout == "True\n"


def test_a_sitecustomize_of_the_users_still_runs(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text("print('mine')")
    assert run(SAYS, tmp_path, paths=[mine]).stdout == "mine\nTrue\n"


def test_a_setting_missing_from_this_torch_is_reported_without_an_error(tmp_path):
    done = run(SAYS, tmp_path, settings={"torch.no.such": "True", **SETTINGS})
    assert done.stdout == "True\n"
    assert "torch.no.such" in done.stderr


def test_the_hooks_folder_is_always_found_and_has_settings_only_if_torch_needs_them():
    variable = PatchOutcome(name="a", outcome="applied", why="x", environment={"A": "1"})
    setting = PatchOutcome(name="b", outcome="applied", why="x", settings=SETTINGS)
    path = os.pathsep.join([str(HOOK_DIR), "/p"])
    assert build_environment([variable], {"PYTHONPATH": "/p"}) == {"PYTHONPATH": path, "A": "1"}
    both = build_environment([variable, setting], {"PYTHONPATH": "/p"})
    assert both["PYTHONPATH"] == path
    assert json.loads(both["REDKILN_TORCH_SETTINGS"]) == SETTINGS
    assert Path(HOOK_DIR, "sitecustomize.py").exists()


def test_a_watched_program_reports_torch_and_its_gpu_memory(tmp_path):
    told = tmp_path / "told"
    script = f"""
import time, torch
from types import SimpleNamespace as N
def wait(text):
    while text not in open({str(told)!r}).read():
        time.sleep(0.01)
wait('{{"gpu_bytes": 0}}')
torch.cuda = N(
    is_initialized=lambda: True,
    device_count=lambda: 2,
    max_memory_allocated=lambda place: place + 1,
)
wait('{{"gpu_bytes": 3}}')
"""
    told.touch()
    run(script, tmp_path, watched=told)
    assert told.read_text().splitlines() == ['{"gpu_bytes": 0}', '{"gpu_bytes": 3}']
