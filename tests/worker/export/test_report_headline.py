"""What the first lines of the report say, from a trained table to its files."""

import pytest

from worker.jobdir import EXIT_DONE, Order
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

LEAK = "column x predicts the target almost without mistakes"


@pytest.fixture
def make_headline(make_table_job):
    """Trains and exports a table; returns its directory and the report's lines above Results."""

    def make(change_order, **spec):
        job_dir = make_table_job(**spec)
        assert run_job(job_dir, StopSignal()) == EXIT_DONE
        order = Order.model_validate_json(job_dir.order_path.read_bytes())
        job_dir.order_path.write_text(change_order(order).model_dump_json())
        assert export_job(job_dir) == EXIT_DONE
        report = (job_dir.out_dir / "report.md").read_text()
        return job_dir, report.partition("## Results")[0]

    return make


def test_a_leaking_column_is_in_the_headline_and_a_warning_of_the_job(make_headline, events):
    def add_leak(order):
        dataset = order.dataset.model_copy(update={"warnings": [LEAK], "leaks": [LEAK]})
        return order.model_copy(update={"dataset": dataset})

    job_dir, headline = make_headline(add_leak, model="gradient-boosting", training={"steps": 5})
    assert f"**New data may score far worse**: {LEAK}." in headline
    warned = [one["data"] for one in events(job_dir, "warning")]
    assert {"code": "leaking_columns", "message": LEAK} in warned
