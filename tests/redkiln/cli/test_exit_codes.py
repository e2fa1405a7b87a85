from datetime import UTC, datetime

import pytest

from redkiln.cli.exit_codes import ExitCode, exit_code_of_job
from redkiln.views.artifact import ArtifactView
from redkiln.views.job import JobView


def ended(task):
    now = datetime(2026, 11, 28, tzinfo=UTC)
    return JobView(
        id="job_1",
        name="a",
        status="succeeded",
        task=task,
        is_terminal=True,
        spec={},
        created_at=now,
    )


def model(verified):
    return ArtifactView.model_construct(kind="model", name="m.onnx", verified=verified)


@pytest.mark.parametrize(
    ("task", "verdicts", "code"),
    [
        ("image-classification", [True], ExitCode.OK),
        ("image-classification", [True, False], ExitCode.UNVERIFIED),
        ("image-classification", [], ExitCode.UNVERIFIED),
        ("script", [], ExitCode.OK),
        ("script", [None], ExitCode.OK),
        ("script", [True], ExitCode.OK),
        ("script", [True, False], ExitCode.UNVERIFIED),
    ],
)
def test_a_model_that_failed_its_check_is_an_error_also_of_a_script(task, verdicts, code):
    assert exit_code_of_job(ended(task), [model(one) for one in verdicts]) is code
