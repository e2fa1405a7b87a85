"""Ranks of trials, forked from one process that has imported torch."""

import pytest

from tests.forked import WarmProcess

RANKS = ("worker.hardware.selftest.peer_rank", "worker.hardware.benchmark.allreduce")


@pytest.fixture(scope="session")
def warm_ranks():
    process = WarmProcess(RANKS)
    yield process
    process.close()


@pytest.fixture
def fork_ranks(warm_ranks, monkeypatch):
    """Forks the ranks of a trial; a cold one imports torch for 2 s of CPU time."""
    monkeypatch.setattr("worker.hardware.children.subprocess", warm_ranks.subprocess)
