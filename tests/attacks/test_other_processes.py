"""A script tries to end, slow down or reach what else the worker's user runs."""

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from contextlib import ExitStack

import psutil
import pytest

from redkiln.tasks.script import Limits
from tests.waiting import wait_for
from worker.process.failed import TrainingFailed
from worker.script.bounds import bounds as bounds_module
from worker.script.bounds.bounds import Bounds, decide_sandbox, describe_openness
from worker.script.bounds.calls import build_filter
from worker.script.bounds.first_process import FirstProcessPipe
from worker.script.bounds.limits import LimitWatch
from worker.script.bounds.nameless import measure_nameless
from worker.script.bounds.processes import find_descendants
from worker.script.bounds.sandbox import find_obstacle
from worker.script.program.paths import ScriptPaths

SANDBOX = pytest.param(
    True, marks=pytest.mark.skipif(find_obstacle() is not None, reason=str(find_obstacle()))
)
FILTER = pytest.param(
    False, marks=pytest.mark.skipif(build_filter() is None, reason="libseccomp is missing")
)
ATTACKS = {
    "processor time": "resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1))",
    "open files": "resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))",
    "priority": "os.setpriority(os.PRIO_PROCESS, pid, 19)",
    "priority of a group": "os.setpriority(os.PRIO_PGRP, 0, 19)",
    "priority of the user": "os.setpriority(os.PRIO_USER, os.getuid(), 19)",
    "scheduler": "os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))",
}


@pytest.fixture
def paths(tmp_path):
    paths = ScriptPaths(tmp_path / "script")
    paths.prepare()
    return paths


@pytest.fixture
def victim():
    process = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
    yield process
    process.kill()
    process.wait()


def is_running(mark):
    return any(
        mark in " ".join(process.info["cmdline"] or ())
        for process in psutil.process_iter(["cmdline"])
    )


def run(paths, has_sandbox, code, *arguments):
    bounds = Bounds(paths, Limits(), has_sandbox=has_sandbox)
    words = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    command = bounds.command(words)
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, cwd=paths.code_dir
    )


@pytest.mark.parametrize("has_sandbox", [SANDBOX, FILTER])
def test_a_script_cannot_limit_or_slow_down_other_processes(paths, victim, has_sandbox):
    done = run(
        paths,
        has_sandbox,
        f"""
        import os, resource, sys
        pid = int(sys.argv[1])
        for name, attack in {ATTACKS!r}.items():
            try:
                exec(attack)
                print("did", name)
            except OSError as error:
                print("refused", name)
        try:
            os.sched_setaffinity(pid, {{0}})
        except OSError:
            pass
        """,
        victim.pid,
    )
    done_attacks = {line for line in done.stdout.splitlines() if line.startswith("did")}
    allowed = {f"did priority of {who}" for who in ("a group", "the user")} if has_sandbox else ()
    assert done_attacks <= set(allowed), done.stderr
    assert done.stdout.count("\n") == len(ATTACKS)
    assert os.getpriority(os.PRIO_PROCESS, victim.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    assert os.sched_getscheduler(victim.pid) == os.SCHED_OTHER
    assert os.sched_getaffinity(victim.pid) == os.sched_getaffinity(0)
    assert victim.poll() is None


@pytest.mark.parametrize("has_sandbox", [SANDBOX, FILTER])
def test_a_script_may_still_limit_itself_and_pin_its_threads(paths, has_sandbox):
    done = run(
        paths,
        has_sandbox,
        """
        import os, resource, threading
        resource.setrlimit(resource.RLIMIT_CPU, (100, 100))
        os.nice(5)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0))
        threading.Thread(target=print, args=("alive",)).start()
        """,
    )
    assert (done.stdout, done.returncode) == ("alive\n", 0), done.stderr


@pytest.mark.parametrize("has_sandbox", [SANDBOX])
def test_a_script_sees_no_sockets_shared_memory_or_processes(paths, tmp_path, has_sandbox):
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(str(tmp_path / "s"))
        server.listen()
        shared = stack.enter_context(open("/dev/shm/redkiln-attack", "w"))  # noqa: PTH123
        stack.callback(os.unlink, shared.name)
        done = run(
            paths,
            has_sandbox,
            """
            import os, socket, sys
            with socket.socket(socket.AF_UNIX) as client:
                print(client.connect_ex(sys.argv[1]))
            print(os.path.exists(sys.argv[2]), os.path.exists("/run/docker.sock"))
            print(len([name for name in os.listdir("/proc") if name.isdecimal()]))
            open("/dev/shm/own", "w").close()
            open("/tmp/redkiln-own", "w").close()
            """,
            tmp_path / "s",
            shared.name,
        )
    assert done.stdout.splitlines() == ["2", "False False", "2"], done.stderr
    assert done.returncode == 0, done.stderr
    assert not os.path.exists("/dev/shm/own")  # noqa: PTH110
    assert not os.path.exists("/tmp/redkiln-own")  # noqa: PTH110


@pytest.mark.parametrize("has_sandbox", [SANDBOX])
def test_what_a_script_leaves_ends_with_it(paths, has_sandbox):
    report = FirstProcessPipe()
    code = """
    import os, signal, time
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            open("pid", "w").write("begun")
            time.sleep(471.1)
        os._exit(0)
    while not os.path.exists("pid"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGSEGV)
    """
    words = [sys.executable, "-c", textwrap.dedent(code)]
    command = Bounds(paths, Limits(), has_sandbox=has_sandbox).command(words, report=report.target)
    done = subprocess.run(
        command, cwd=paths.code_dir, pass_fds=[report.target], check=False, timeout=60
    )
    report.close_target()
    end = report.read_end()
    assert done.returncode == 128 + signal.SIGSEGV
    assert (end.status, end.left) == (-signal.SIGSEGV, 1)
    assert not is_running("471.1")


@pytest.mark.parametrize("has_sandbox", [SANDBOX])
def test_a_sandbox_ends_with_the_process_that_started_it(paths, has_sandbox):
    command = Bounds(paths, Limits(), has_sandbox=has_sandbox).command(["sleep", "472.2"])
    starter = (
        "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); "
        "print(flush=True); time.sleep(60)"
    )
    outer = subprocess.Popen([sys.executable, "-c", starter, *command], cwd=paths.code_dir)
    wait_for(lambda: is_running("472.2"))
    outer.kill()
    outer.wait()
    wait_for(lambda: not is_running("472.2"))


@pytest.mark.parametrize("has_sandbox", [SANDBOX, FILTER])
def test_a_script_cannot_hide_what_it_keeps_in_files_without_a_name(paths, has_sandbox):
    code = """
    import ctypes, os, time
    prctl = ctypes.CDLL(None).prctl
    prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    os.write(os.memfd_create("hidden"), bytes(3_000_000))
    with open("removed", "wb") as file:
        os.unlink("removed")
        file.write(bytes(2_000_000))
        file.flush()
        with open("partial", "w") as answer:
            answer.write(str(prctl(3, 0, 0, 0, 0)))  # PR_GET_DUMPABLE
        os.rename("partial", "written")
        time.sleep(60)
    """
    words = [sys.executable, "-c", textwrap.dedent(code)]
    command = Bounds(paths, Limits(), has_sandbox=has_sandbox).command(words)
    script = subprocess.Popen(command, cwd=paths.code_dir)
    try:
        wait_for((paths.code_dir / "written").exists)
        pids = [script.pid, *find_descendants(script.pid).pids]
        assert 5_000_000 <= measure_nameless(pids) < 6_000_000
        assert (paths.code_dir / "written").read_text() == "1", "it may be looked at"
    finally:
        script.kill()
        script.wait()


@pytest.mark.parametrize("has_sandbox", [SANDBOX])
@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_what_a_script_stores_in_its_own_shared_memory_counts(paths, folder, has_sandbox):
    limits = Limits(disk_bytes=4 * 2**20)
    (paths.root / "other").write_bytes(os.urandom(2 * 2**20))
    code = """
    import os, sys, time
    with open(sys.argv[1] + "/named", "wb") as named, open(sys.argv[1] + "/removed", "wb") as other:
        os.unlink(other.name)
        for file in (named, other):
            file.write(bytes(1_200_000))
            file.flush()
        print("written", flush=True)
        time.sleep(60)
    """
    watch = LimitWatch(limits, paths.root)
    words = [sys.executable, "-c", textwrap.dedent(code), folder]
    command = Bounds(paths, limits, has_sandbox=has_sandbox).command(words)
    with subprocess.Popen(command, cwd=paths.code_dir, stdout=subprocess.PIPE) as script:
        assert script.stdout.readline() == b"written\n"
        failure = watch.check(find_descendants(os.getpid()))
        script.kill()
    assert failure is not None
    used = int(re.search("used ([0-9]+) bytes of disk space", failure.message).group(1))
    assert 4_400_000 < used < 5_400_000, "each file counts once"


def test_a_worker_that_requires_namespaces_refuses_scripts_without(monkeypatch):
    monkeypatch.setattr(bounds_module, "find_obstacle", lambda: "no bwrap")
    assert not decide_sandbox("auto")
    assert not decide_sandbox("off")
    with pytest.raises(TrainingFailed, match="SCRIPT_ISOLATION=required: no bwrap"):
        decide_sandbox("required")
    assert "can connect to sockets" in describe_openness("auto")


def test_abstract_sockets_in_reach_of_a_script_in_namespaces_are_named(monkeypatch):
    monkeypatch.setattr(bounds_module, "find_obstacle", lambda: None)
    assert "can connect to abstract sockets" in describe_openness("auto", version=5)
    assert describe_openness("auto", version=6) is None
