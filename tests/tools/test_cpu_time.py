"""What the report of a test says about its CPU time."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests import cpu_time

BUSY = "import time\nwhile time.process_time() < 0.1: pass"


def report(item, when):
    """Let the hook make the report of a phase."""
    steps = cpu_time.pytest_runtest_makereport(item, SimpleNamespace(when=when))
    next(steps)
    with pytest.raises(StopIteration, match="the report"):
        steps.send("the report")


def test_a_report_has_the_cpu_time_of_children():
    item = SimpleNamespace(
        stash=pytest.Stash(),
        user_properties=[],
        get_closest_marker=lambda _: None,
    )
    cpu_time.pytest_runtest_setup(item)
    report(item, "setup")
    assert item.user_properties == []
    subprocess.run([sys.executable, "-S", "-c", BUSY], check=True)
    report(item, "call")
    report(item, "teardown")
    properties = dict(item.user_properties)
    assert float(properties["cpu_seconds"]) >= 0.1
