import os
import subprocess
import sys
from pathlib import Path

import pytest

from worker.process.threads import yield_while_waiting

ROOT = Path(__file__).parents[3]


def test_threads_yield_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    yield_while_waiting()
    assert os.environ["GOMP_SPINCOUNT"] == "10000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    yield_while_waiting()
    assert os.environ["GOMP_SPINCOUNT"] == "7"


@pytest.mark.parametrize("entry", ["worker.trainer.__main__", "worker.export.__main__"])
def test_entry_points_load_no_torch_before_threads_are_set(entry):
    code = f"import sys, {entry}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
