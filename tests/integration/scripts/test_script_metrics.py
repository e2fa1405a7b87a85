"""What is seen of scripts that know nothing of Redkiln, through the real queue."""

import pytest

from redkiln.status import JobStatus

pytestmark = pytest.mark.integration


def test_scalars_for_tensorboard_become_metrics(scripts):
    # Records as its writers make them; those themselves bring torch along.
    code = """
        import os, struct
        def message(number, content):
            return bytes([number << 3 | 2, len(content)]) + content
        runs = os.environ["REDKILN_OUT"] + "/runs"
        os.mkdir(runs)
        with open(runs + "/events.out.tfevents.1.host", "wb") as file:
            for step in range(1, 21):
                value = message(1, b"train/loss") + bytes([2 << 3 | 5])
                value += struct.pack("<f", 1 / step)
                event = bytes([2 << 3, step]) + message(5, message(1, value))
                file.write(struct.pack("<Q", len(event)) + b"sum1" + event + b"sum2")
    """
    job = scripts.wait_for_end(scripts.run_script("python", "-c", code))
    assert job.status is JobStatus.SUCCEEDED, scripts.log(job.id)
    (series,) = scripts.client.metrics(job.id)
    assert (series.name, series.steps) == ("train/loss", list(range(1, 21)))
    assert series.values == pytest.approx([1 / step for step in range(1, 21)])
    assert job.progress.step == 20
    kept = scripts.artifact_names(job.id)
    assert any(name.startswith("runs/events.out.tfevents") for name in kept)


def test_telemetry_counts_what_a_script_and_its_children_use(scripts):
    code = """
        import subprocess, sys, time
        child = "held = b'x' * 200_000_000; print('held', flush=True); input()"
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", child], **options) as process:
            process.stdout.readline()
            time.sleep(4)
    """
    job = scripts.wait_for_end(scripts.run_script("python", "-c", code))
    assert job.status is JobStatus.SUCCEEDED, scripts.log(job.id)
    (memory,) = scripts.client.telemetry(job.id, names=["host/memory_used_bytes"])
    assert max(memory.values) > 200_000_000


def test_lines_of_output_become_metrics_and_the_time_that_is_left(scripts):
    code = """
        import time
        for step in range(1, 61):
            print(f"step {step}/60: loss {1 / step:.4f}", flush=True)
            time.sleep(0.1)
    """
    pattern = r"step (?P<step>\d+)/(?P<steps>\d+): loss (?P<loss>[0-9.]+)"
    job_id = scripts.run_script("python", "-c", code, script={"metrics_pattern": pattern})

    def time_left():
        progress = scripts.client.job(job_id).progress
        return progress is not None and progress.eta_seconds and progress

    progress = scripts.wait_for(time_left)
    assert progress.steps == 60
    assert 0 < progress.fraction < 1
    job = scripts.wait_for_end(job_id)
    assert job.status is JobStatus.SUCCEEDED
    assert (job.progress.step, job.progress.fraction) == (60, 1.0)
    (series,) = scripts.client.metrics(job_id)
    assert (series.name, series.steps) == ("loss", list(range(1, 61)))
    assert series.values[-1] == pytest.approx(0.0167)
