import pytest

from redkiln.tasks.script import ScriptSpec
from worker.jobdir import Order
from worker.script import confine, run
from worker.trainer.failed import TrainingFailed
from worker.trainer.lifetime import StopSignal


def test_nothing_is_done_for_a_script_where_the_kernel_cannot_do_what_is_wanted(
    job_dir, report, monkeypatch
):
    class Old:
        version = 4

    monkeypatch.setattr(confine, "Landlock", Old)
    spec = {"task": "script", "script": {"command": ["true"]}}
    order = Order(
        job_id="job_1",
        job_name="x",
        attempt_id="att_1",
        spec=spec,
        device="cpu",
        threads=1,
        cache_dir="cache",
        script_confinement="signals",
    )
    with pytest.raises(TrainingFailed, match="this worker runs no scripts"):
        run._run(job_dir, order, ScriptSpec.model_validate(spec), stop=StopSignal(), report=report)
    assert not (job_dir.root / "script").exists()
