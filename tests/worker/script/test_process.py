"""What stays with a script as a real process: the job's order in, its events out."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from redkiln.failure import JobFailure
from tests.worker.job_dirs import write_job
from worker.agent.attempt.classify import Death, judge
from worker.jobdir import EXIT_DONE, EXIT_FAILED

SECONDS = 120
ON_A_KERNEL = """
import sys
from worker.script.bounds import confine
confine.Landlock = type("Landlock", (), {"version": int(sys.argv.pop(1))})
from worker.script.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
"""With what the kernel's Landlock is said to be; what confines the script asks the real one."""


@pytest.fixture
def run(tmp_path):
    """Run code as a job's script; its exit status, and the events by kind."""

    def run(code, *, landlock=None, **order):
        script = {"command": ["python", "-c", textwrap.dedent(code)]}
        job_dir = write_job(
            tmp_path / "job",
            {"task": "script", "script": script},
            dataset=None,
            cache_dir=str(tmp_path / "cache"),
            **order,
        )
        job_dir.checkpoints_dir.mkdir()
        job_dir.out_dir.mkdir()
        own = ["-m", "worker.script"]
        if landlock is not None:
            own = ["-c", ON_A_KERNEL, str(landlock)]
        done = subprocess.run(
            [sys.executable, *own, str(job_dir.root)],
            env={**os.environ, "REDKILN_PARENT_PID": str(os.getpid())},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
        lines = [json.loads(line) for line in job_dir.events_path.read_text().splitlines()]
        events = {}
        for line in lines:
            events.setdefault(line["kind"], []).append(line["data"])
        return done.returncode, events

    return run


@pytest.mark.parametrize(
    ("words", "num_gpus", "code", "row", "fix"),
    [
        ("HIP error: invalid device function", 1, "no_gpu", 1, "Install the right build"),
        ("HIP out of memory. Tried to allocate 2 GiB", 1, "out_of_memory", 16, "smaller batches"),
        ("No HIP GPUs are available", 0, "script_failed", None, "redkiln run --gpus 1"),
    ],
)
def test_the_failure_of_a_known_exception_has_its_fix(run, words, num_gpus, code, row, fix):
    status, events = run(f"raise RuntimeError({words!r})", num_gpus=num_gpus)
    assert status == EXIT_FAILED
    (failure,) = events["failure"]
    assert (failure["code"], failure["details"].get("doctor_row")) == (code, row)
    assert fix in failure["message"]
    assert failure["details"]["line"] == f"RuntimeError: {words}"
    announced = JobFailure.model_validate(failure)
    assert judge(Death(status, announced=announced)) == announced


@pytest.mark.parametrize(
    ("landlock", "words"),
    [
        (0, "this kernel has no Landlock, so the script can access other files"),
        (4, "this kernel's Landlock (version 4) cannot prevent the script from sending signals"),
        (6, None),
    ],
)
def test_missing_kernel_protection_is_a_warning_on_the_job(run, landlock, words):
    status, events = run("print('runs')", landlock=landlock)
    assert status == EXIT_DONE
    told = [data["message"] for data in events.get("warning", []) if data["code"] == "no_landlock"]
    assert len(told) == (words is not None)
    assert all(message.startswith(words) for message in told)


def test_a_script_does_not_start_without_the_required_confinement(run, tmp_path):
    status, events = run("print('never')", landlock=4, script_confinement="signals")
    assert status == EXIT_FAILED
    (failure,) = events["failure"]
    assert failure["code"] == "bad_input"
    assert "this worker runs no scripts" in failure["message"]
    assert not (tmp_path / "job" / "script").exists()


def test_results_next_to_the_code_are_a_warning_because_they_are_deleted(run):
    status, events = run("""
        import os, pathlib
        pathlib.Path("model.pt").write_text("weights")
        pathlib.Path(os.environ["REDKILN_OUT"], "kept.pt").write_text("weights")
    """)
    assert status == EXIT_DONE
    told = [data for data in events["warning"] if data["code"] == "files_next_to_code"]
    (warning,) = told
    assert "wrote a file next to its code, which Redkiln deletes: model.pt. " in warning["message"]
