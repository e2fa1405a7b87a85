"""The stack as a person starts it: everything comes up, and nothing is left behind."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from native.processes import SOURCE_DIR, PartFailed
from native.stack import Stack, find_free_port
from redkiln.client import Client
from tests.integration.conftest import FAKES
from tests.waiting import wait_for

pytestmark = pytest.mark.integration


class Command:
    """`python -m native ...` in a separate folder, as a shell would run it."""

    def __init__(self, folder, *command):
        self.folder = folder
        port = find_free_port("127.0.0.1")
        self.output = folder / "output"
        environment = {
            **os.environ,
            "PYTHONPATH": str(SOURCE_DIR),
            "REDKILN_BIND": f"127.0.0.1:{port}",
            "REDKILN_STATE_DIR": str(folder / "data"),
            "REDKILN_THREADS": "1",
            **FAKES,  # of `up`; the demo starts its own, whose trainer is real
        }
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.url = f"http://127.0.0.1:{port}"

    def descendants(self):
        return psutil.Process(self.process.pid).children(recursive=True)

    def wait_for_text(self, text):
        wait_for(lambda: text in self.output.read_text() or self.process.poll() is not None)
        assert text in self.output.read_text()


@pytest.fixture
def run(tmp_path):
    commands = []

    def run(*arguments, program=("-m", "native")):
        commands.append(Command(tmp_path, *program, *arguments))
        return commands[-1]

    yield run
    for command in commands:
        command.process.kill()
        command.process.wait()


def assert_all_gone(processes):
    wait_for(lambda: not any(process.is_running() for process in processes), seconds=30)


def test_up_says_where_it_is_refuses_a_second_stack_and_ctrl_c_stops_everything(run):
    up = run("up")
    up.wait_for_text(f"{up.url}/docs")
    second = run("up")
    assert second.process.wait(60) == 1
    assert "Another stack is using" in second.output.read_text()
    wait_for(lambda: len(up.descendants()) >= 4)  # the last is the worker's spare
    processes = up.descendants()
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(30) == 0
    assert up.output.read_text().endswith("\nStopping ...\nStopped.\n")
    assert_all_gone(processes)
    assert {path.name for path in (up.folder / "data" / "logs").glob("*.log")} == {
        "redis.log", "service.log", "worker.log",
    }  # fmt: skip


def test_state_survives_a_restart_a_crashed_worker_starts_again_and_kill_9_leaves_nothing(run):
    up = run("up")
    up.wait_for_text("/docs")
    with Client(up.url, admin_key(up)) as client:
        job_id = client.submit({"dataset": "builtin:digits", "training": {"epochs": 200}}).id
        wait_for(lambda: client.job(job_id).status == "running")
        (worker,) = [p for p in up.descendants() if p.cmdline()[-2:] == ["-m", "worker"]]
        worker.kill()
        up.wait_for_text("worker ended with status -9; restarting it")
        wait_for(lambda: len(client.job(job_id).attempts) == 2)
    processes = up.descendants()
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(60) == 130
    assert_all_gone(processes)
    again = run("up")
    again.wait_for_text("/docs")
    with Client(again.url, admin_key(again)) as client:
        wait_for(lambda: len(client.job(job_id).attempts) == 3)
    processes = wait_for(lambda: len(again.descendants()) >= 4 and again.descendants())
    again.process.kill()  # and nothing else, while a job runs
    assert_all_gone(processes)


def admin_key(command):
    return (command.folder / "data" / "keys" / "admin.key").read_text().strip()


def write_demo(environment, **training):
    """The words of the demo with settings of its stack, and other training if that is given."""
    return (
        "-c",
        f"""
from functools import partial

import native.demo
from native.__main__ import main

native.demo.Stack = partial(native.demo.Stack, environment={environment!r})
build_spec = native.demo.build_spec

def build_longer(data):
    spec = build_spec(data)
    return {{**spec, "training": {{**spec["training"], **{training!r}}}}}

native.demo.build_spec = build_longer

raise SystemExit(main())
""",
    )


@pytest.mark.parametrize("moment", ["Starting Redis", ", step "])
def test_ctrl_c_ends_the_demo_wherever_it_is(run, moment):
    # A fake trainer: the whole demo below imports torch often enough.
    demo = run("demo", program=write_demo(FAKES, epochs=500))
    demo.wait_for_text(moment)
    processes = demo.descendants()
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(60) == 130
    assert_all_gone(processes)
    assert not lingering(demo.folder)


def lingering(folder):
    """Processes that were started after the look and still have to do with the folder."""
    return [
        process.info["cmdline"]
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or [])
    ]


def test_the_demo_ends_with_a_measured_model(run):
    # Two threads would wait for each other where other tests run.
    demo = run("demo", program=write_demo({"REDKILN_THREADS": "1"}))
    assert demo.process.wait(240) == 0
    said = demo.output.read_text()
    assert "test images correct" in said
    out = demo.folder / "demo-out"
    assert {"model.onnx", "manifest.json", "parity.npz", "report.md", "trainer.log"} <= {
        path.name for path in out.iterdir()
    }
    assert not lingering(demo.folder)


def test_a_part_that_cannot_start_says_why(tmp_path):
    broken = {"REDKILN_BIND": "127.0.0.1:0", "REDKILN_DATABASE_URL": "sqlite:////no/such/folder/x"}
    with pytest.raises(PartFailed, match="service ended with status"):
        Stack(tmp_path, environment=broken).start()
    assert not lingering(tmp_path)
