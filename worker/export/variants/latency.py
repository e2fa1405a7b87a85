"""Times the variants of a model, alternately, so that a busy machine slows all of them."""

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from redkiln.predict.session import name_input, open_session
from worker.export.target import Arrays
from worker.export.variants.result import Latency

BATCHES = (1, 32)
MOST_ROUNDS = 30
FEWEST_ROUNDS = 5
SECONDS = 1.5
"""Time for all variants together in one setting."""


def time_variants(
    paths: Mapping[str, Path], samples: Mapping[int, Arrays], *, threads: int
) -> dict[str, list[Latency]]:
    """Return the times of each variant with one thread and with all, for each batch size.

    Args:
        paths: Files by name.
        samples: The model's inputs by batch size.
        threads: Number of all threads.
    """
    found: dict[str, list[Latency]] = {name: [] for name in paths}
    for num_threads in sorted({1, threads}):
        sessions = {name: open_session(path, threads=num_threads) for name, path in paths.items()}
        for batch, feed in samples.items():
            times: dict[str, list[float]] = {name: [] for name in paths}
            feeds = {name: name_input(one, feed) for name, one in sessions.items()}
            for name, session in sessions.items():
                session.run(None, feeds[name])  # the first call allocates
            ends_at = time.perf_counter() + SECONDS
            for done in range(MOST_ROUNDS):
                if done >= FEWEST_ROUNDS and time.perf_counter() > ends_at:
                    break
                for name, session in sessions.items():
                    began = time.perf_counter()
                    session.run(None, feeds[name])
                    times[name].append(1000 * (time.perf_counter() - began))
            for name, some in times.items():
                median, p95 = np.quantile(some, (0.5, 0.95))
                found[name].append(
                    Latency(
                        batch=batch,
                        threads=num_threads,
                        median_ms=round(float(median), 4),
                        p95_ms=round(float(p95), 4),
                    )
                )
    return found
