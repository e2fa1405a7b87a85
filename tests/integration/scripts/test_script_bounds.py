"""Bounds of scripts through the real queue: time, memory, processes."""

from pathlib import Path

import psutil
import pytest

from redkiln.status import JobStatus
from worker.script.bounds.sandbox import find_obstacle

pytestmark = pytest.mark.integration

MIB = 2**20


def running_with(mark):
    """Processes whose command line holds a mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if mark in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue  # it has ended meanwhile
    return found


def run_over_limit(site, code, **limits):
    """Run code that leaves a bound, and see its job end for it."""
    job_id = site.run_script("python", "-c", code, script={"limits": limits})
    job = site.wait_for_end(job_id)
    assert (job.status, job.reason.code) == (JobStatus.FAILED, "over_limit")
    for name, bound in limits.items():
        assert f"script.limits.{name} is {bound}" in job.reason.message


def test_a_script_that_runs_too_long_may_save_before_it_ends(scripts):
    code = """
        import os, signal, sys, time
        def save(*_):
            open(os.environ["REDKILN_OUT"] + "/saved", "w").close()
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        while True:
            time.sleep(0.1)
    """
    job_id = scripts.run_script("python", "-c", code, resources={"max_duration_seconds": 8})
    job = scripts.wait_for_end(job_id)
    assert (job.status, job.reason.code) == (JobStatus.FAILED, "max_duration")
    assert "saved" in scripts.artifact_names(job_id)


def test_the_error_of_a_script_out_of_memory_has_its_usage(scripts):
    code = f"import time; held = b'x' * {300 * MIB}; time.sleep(60)"
    run_over_limit(scripts, code, memory_bytes=100 * MIB)


def test_a_script_that_starts_too_many_processes_is_ended_with_all_of_them(scripts):
    code = """
        import subprocess, time
        children = [subprocess.Popen(["sleep", "4713"]) for _ in range(40)]
        time.sleep(60)
    """
    run_over_limit(scripts, code, processes=16)
    assert not running_with("sleep 4713")


def test_what_a_script_leaves_in_shared_memory_goes_with_it(scripts):
    code = """
        import time
        from multiprocessing import resource_tracker, shared_memory
        left = shared_memory.SharedMemory(create=True, size=10**6)
        resource_tracker.unregister(left._name, "shared_memory")
        print("left", left.name, flush=True)
        time.sleep(3)
    """
    job_id = scripts.run_script("python", "-c", code)
    scripts.wait_for(lambda: "left" in scripts.log(job_id))
    path = Path("/dev/shm", scripts.log(job_id).split()[-1])
    assert path.exists() is (find_obstacle() is not None), "in a namespace it is the script's own"
    assert scripts.wait_for_end(job_id).status is JobStatus.SUCCEEDED
    assert not path.exists()


def test_a_bomb_of_forks_is_defused(scripts):
    # It ends by itself otherwise: 256 processes, which begin their own sessions.
    code = """
        import contextlib, os, time  # a bomb of forks
        for _ in range(8):
            with contextlib.suppress(OSError):
                if os.fork() == 0:
                    os.setsid()
        time.sleep(60)
    """
    run_over_limit(scripts, code, processes=64)
    assert not running_with("a bomb of forks")
    assert scripts.wait_for_end(scripts.run_script("true")).status is JobStatus.SUCCEEDED
