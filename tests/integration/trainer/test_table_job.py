"""Tables through the trainer and the export."""

import numpy as np
import onnxruntime
import pytest

from tests.integration.trainer.runs import events, export_here, losses, run_here, write_job
from worker.jobdir import LocalDataset

pytestmark = pytest.mark.integration


@pytest.fixture
def make_job(tmp_path, trainer_cache):
    def make(name, builtin, *, task, resume=None, **training):
        name_of_data = f"builtin:{builtin}"
        return write_job(
            tmp_path / name,
            {"task": task, "dataset": name_of_data, "training": training},
            dataset=LocalDataset(name=name_of_data, kind="builtin", fingerprint=builtin),
            cache_dir=str(trainer_cache),
            progress_seconds=0.01,
            resume=resume,
        )

    return make


def test_a_stopped_run_resumes_to_the_same_curve_and_is_verified(make_job):
    options = {"task": "tabular-regression", "epochs": 40}
    stopped = make_job("stopped", "diabetes", **options)
    run_here(stopped, stop_at=10)
    newest = events(stopped, "checkpoint")[-1]
    resumed = make_job("stopped", "diabetes", resume=newest["file"], **options)
    run_here(resumed)
    straight = make_job("straight", "diabetes", **options)
    run_here(straight)
    assert losses(resumed) == losses(straight)

    export_here(resumed)
    (result,) = events(resumed, "result")
    assert result["verified"] is True
    assert result["metrics"]["test/r2"] >= 0.3
    assert len(resumed.load_outputs()) == 10
    session = onnxruntime.InferenceSession(resumed.out_dir / "model.onnx")
    (numbers,) = session.get_inputs()
    nothing = np.full((2, numbers.shape[1]), np.nan, np.float32)
    assert np.isfinite(session.run(None, {numbers.name: nothing})[0]).all()
