import json

import pytest
import torch

from redkiln.views.hardware import PatchOutcome
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.train import run_job
from worker.trainer.patches import apply_patches, has_variable

SEARCH = PatchOutcome(
    name="convolution_search",
    outcome="applied",
    why="inputs keep one shape",
    settings={"torch.backends.cudnn.benchmark": "True"},
)
NOISE = PatchOutcome(
    name="miopen_log", outcome="applied", why="noise", environment={"MIOPEN_LOG_LEVEL": "3"}
)
MISSING = PatchOutcome(
    name="attention",
    outcome="applied",
    why="no kernels",
    settings={"torch.backends.cudnn.benchmark": "True", "torch.backends.no.such": "True"},
)
USER = PatchOutcome(
    name="channels_last", outcome="user", why="yours", user={"PYTORCH_MIOPEN_SUGGEST_NHWC": "1"}
)


@pytest.fixture(autouse=True)
def as_it_was():
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    yield
    torch.backends.cudnn.benchmark = before


def test_settings_are_applied_in_this_process():
    assert apply_patches([SEARCH, NOISE]) == [SEARCH, NOISE]
    assert torch.backends.cudnn.benchmark


def test_a_patch_with_a_setting_this_torch_lacks_is_skipped_entirely():
    (found,) = apply_patches([MISSING])
    assert (found.outcome, found.settings) == ("skipped", {})
    assert "torch.backends.no.such" in found.why
    assert "no kernels" in found.why
    assert not torch.backends.cudnn.benchmark


def test_a_variable_counts_whether_set_by_patch_or_user():
    assert has_variable([NOISE, USER], "PYTORCH_MIOPEN_SUGGEST_NHWC")
    assert not has_variable([NOISE], "PYTORCH_MIOPEN_SUGGEST_NHWC")


def test_an_attempt_lists_its_patches_in_its_environment(make_job, events):
    patches = [item.model_dump() for item in (NOISE, MISSING, USER)]
    job_dir = make_job(training={"epochs": 1}, order={"patches": patches})
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    (resolved,) = events(job_dir, "resolved")
    told = resolved["data"]["environment"]["patches"]
    assert [(item["name"], item["outcome"]) for item in told] == [
        ("miopen_log", "applied"),
        ("attention", "skipped"),
        ("channels_last", "user"),
    ]
    assert told[0]["environment"] == {"MIOPEN_LOG_LEVEL": "3"}
    trained = json.loads(job_dir.trained_path.read_text())
    assert trained["environment"]["patches"] == told
