"""CPU time of each test, as the property `cpu_seconds` of pytest's report (`--junitxml`).

Counted are this process and the children that ended during the test, the set-up and the end of
fixtures included. Tests with real processes also count what runs on, such as a shared stack.
"""

import contextlib
import resource
import time

import pytest

PROPERTY = "cpu_seconds"
BEGAN = pytest.StashKey[float]()
LONG_LIVED = ("integration", "page")
"""Marks of tests whose processes outlive them; looking at them costs 10 ms a test."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[BEGAN] = _cpu_seconds(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    """Add the property to the last of a test's three reports, from which it is written."""
    if call.when == "teardown" and BEGAN in item.stash:
        spent = _cpu_seconds(item) - item.stash[BEGAN]
        item.user_properties[:] = [(PROPERTY, f"{max(0.0, spent):.3f}")]
    return (yield)


def _cpu_seconds(item):
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = time.process_time() + children.ru_utime + children.ru_stime
    if any(item.get_closest_marker(name) for name in LONG_LIVED):
        spent += _spent_by_the_living()
    return spent


def _spent_by_the_living():
    """Return the CPU time of all processes below this one, their ended children's included."""
    import psutil  # here, because the environment of `make vision` has no psutil

    spent = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent += sum(process.cpu_times()[:4])
    return spent
