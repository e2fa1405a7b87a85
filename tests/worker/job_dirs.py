"""Job directories as the agent leaves them for a trainer."""

import numpy as np

from worker.jobdir import JobDir, Order, OrderLimits, OrderPaths


def write_job(root, spec, *, dataset, **order):
    """A job directory at `root`; what is there of an earlier attempt stays.

    Args:
        order: Fields of the order, of its paths or of its limits.
    """
    paths, limits = (
        {name: order.pop(name) for name in kind.model_fields if name in order}
        for kind in (OrderPaths, OrderLimits)
    )
    written = Order(
        job_id="job_1",
        attempt_id="att_1",
        spec=spec,
        dataset=dataset,
        paths=OrderPaths(**paths),
        limits=OrderLimits(**limits),
        **{"job_name": root.name, "device": "cpu", "threads": 1, **order},
    )
    job_dir = JobDir(root)
    job_dir.root.mkdir(exist_ok=True)
    job_dir.order_path.write_text(written.model_dump_json())
    return job_dir


def load_arrays(path):
    """Return the arrays of an .npz file, which is closed again."""
    with np.load(path) as file:
        return dict(file)
