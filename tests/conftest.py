"""How all tests run: what is imported before the first one is never garbage."""

import gc
import os

import pytest

from tests.cpu_time import pytest_runtest_makereport, pytest_runtest_setup  # noqa: F401  hooks

# torch.compile would start a pool of processes that import torch: 30 s of CPU time for two tests.
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

ALLOCATIONS = 20_000
"""Objects that are made before the collector looks at the youngest; Python's default is 700."""


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Keep pytest-rerunfailures from asking xdist's controller how often each test has crashed.

    The controller, which decides whether a crashed test runs again, reads the question byte by
    byte while its other threads run. Each test waited 40 ms for the answer.
    """
    if hasattr(config, "workerinput") and hasattr(config, "failures_db"):
        config.failures_db._get = lambda *_: 0


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Keep the garbage collector away from the modules and tests that stay until the end.

    They are a million objects, of which every full collection would look at each. Collecting the
    tests takes 13 s of CPU time instead of 21 in each process.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(ALLOCATIONS, 10, 10)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Put the tests of two ranks first and together, so that one process starts one pair for all.

    Spread over three processes, they started three pairs, each of 12 to 15 s of CPU time.
    """
    items.sort(key=lambda item: "rank_pair" not in item.fixturenames)
