"""A job that runs out of memory with whole batches, next to the same job without that."""

import pytest


def train_with_little_memory(make, start, losses, run_out_of_memory, *, events, training):
    """Train with room for half of a batch of 8; the curve is that of whole batches."""
    whole = make("whole", training=training)
    start(whole)[0].run()
    job_dir = make("small", training=training)
    loop, setup = start(job_dir)
    run_out_of_memory(setup.model, limit=4)
    loop.run()
    assert setup.spec.training.accumulation == 2
    assert [one["data"]["code"] for one in events(job_dir, "warning")] == ["out_of_memory"]
    assert losses(job_dir) == pytest.approx(losses(whole), rel=1e-4)
