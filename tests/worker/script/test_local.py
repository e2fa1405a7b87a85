"""Scripts without a queue, handed to the worker's code as `redkiln run --local` does."""

import json
import signal
import textwrap

import pytest

from redkiln.views.hardware import GpuFacts
from tests.wheels import WHEEL, write_wheel
from worker.hardware import program
from worker.hardware.patches.allocator import VARIABLES
from worker.hardware.program import TorchFacts
from worker.script import local
from worker.script.__main__ import EXIT_INTERRUPTED, main

GPU = GpuFacts(gfx="gfx1030", node=1, uuid="GPU-aa", is_apu=False)
ROCM = TorchFacts(version="2.10.0", rocm="7.2.1", arch_list=("gfx1030",), num_gpus=1)
CPU = TorchFacts(version="2.10.0")
TELL = """
import json, os
with open(os.path.join(os.environ["REDKILN_OUT"], "told.json"), "w") as file:
    json.dump({"cwd": os.getcwd(), "environ": dict(os.environ)}, file)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run code in a folder of the user's and return its exit status; its files are in `run.out`."""
    code_dir = tmp_path / "code"
    code_dir.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(local, "ask_torch", lambda *_, **__: CPU)

    def run(code, *, data=None, **script):
        (code_dir / "train.py").write_text(textwrap.dedent(code))
        full = {"command": ["python", "train.py"], **script}
        spec = {"task": "script", "script": full}
        given = ["--data", str(data)] if data else []
        paths = ["--out", str(run.out), "--code", str(code_dir)]
        return main(["local", *paths, "--spec", json.dumps(spec), *given])

    run.out, run.code_dir = tmp_path / "out" / "mine", code_dir
    return run


def told(run):
    return json.loads((run.out / "told.json").read_text())


def test_a_local_script_gets_a_jobs_folders_and_variables(run, tmp_path):
    data = tmp_path / "rows.csv"
    data.touch()
    assert run(TELL, data=data, env={"MINE": "1"}) == 0
    found = told(run)
    own = run.out.parent / ".mine-redkiln"
    assert found["cwd"] == str(run.code_dir)
    environ = {name: value for name, value in found["environ"].items() if "REDKILN_" in name}
    assert environ == {
        "REDKILN_DATA": str(data),
        "REDKILN_OUT": str(run.out),
        "REDKILN_CHECKPOINTS": str(own / "checkpoints"),
        "REDKILN_RESUME": "0",
        "REDKILN_EVENTS": str(own / "events.jsonl"),
    }
    assert found["environ"]["MINE"] == "1"


def test_the_users_variables_are_kept_but_not_the_services_keys(run, tmp_path, monkeypatch):
    own = {"HF_TOKEN": "mine", "XDG_CACHE_HOME": "cache", "TMPDIR": str(tmp_path)}
    for name, value in {**own, "REDKILN_KEY": "rk_secret"}.items():
        monkeypatch.setenv(name, value)
    assert run(TELL) == 0
    environ = told(run)["environ"]
    own["HOME"] = str(tmp_path / "home")
    assert {name: environ.get(name) for name in own} == own
    assert "REDKILN_KEY" not in environ
    assert run(TELL, env={"HF_TOKEN": "another"}) == 0
    assert told(run)["environ"]["HF_TOKEN"] == "another"


def test_a_second_call_resumes_from_the_first_ones_checkpoints(run, capfd):
    code = """
        import os, sys
        import redkiln
        state = os.path.join(os.environ["REDKILN_CHECKPOINTS"], "state")
        if redkiln.is_resumed():
            print("continues from", open(state).read())
            sys.exit(0)
        open(state, "w").write("seven")
        sys.exit(5)
    """
    assert run(code) == 5
    first = capfd.readouterr()
    assert "resuming" not in first.out + first.err
    assert "the script exited with status 5" in first.err
    assert run(code) == 0
    second = capfd.readouterr()
    assert "continues from seven" in second.out
    kept = run.out.parent / ".mine-redkiln" / "checkpoints"
    assert f"resuming from {kept}; remove this folder to start over" in second.err
    (kept / "state").unlink()
    assert run(code) == 5, "it starts over"


def test_another_output_folder_starts_over(run):
    code = TELL + "open(os.environ['REDKILN_CHECKPOINTS'] + '/state', 'w').close()\n"
    run(code)
    run.out = run.out.with_name("other")
    run(code)
    assert told(run)["environ"]["REDKILN_RESUME"] == "0"


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("import sys; sys.exit(0)", 0, "the results are in"),
        ("import sys; sys.exit(77)", 77, "exited with status 77"),
        ("raise ValueError", 1, "exited with status 1"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, "SIGKILL"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", 130, "SIGINT"),
        ("import os; os.abort()", 134, "SIGABRT"),
    ],
)
def test_the_exit_status_is_the_programs(run, code, status, words, capfd):
    assert run(code) == status
    assert words in capfd.readouterr().err.splitlines()[-1]


def test_a_missing_program_is_reported(run, capfd):
    assert run("", command=["no-such-program"]) == local.EXIT_FAILED
    assert "redkiln: no-such-program cannot be run" in capfd.readouterr().err


def test_after_ctrl_c_during_preparation_no_program_starts(run, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "ask_torch", interrupt)
    assert run(TELL) == EXIT_INTERRUPTED
    assert not (run.out / "told.json").exists()


def test_after_sigterm_during_preparation_no_program_starts(run, monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(local, "ask_torch", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit) as caught:
        run(TELL)
    assert caught.value.code == 128 + signal.SIGTERM
    assert not (run.out / "told.json").exists()
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.integration
def test_requirements_are_layered_on_installed_packages_and_reused(run, capfd):
    write_wheel(run.code_dir / WHEEL)
    code = "import numpy, tiny_own; print('has', tiny_own.VERSION)"
    lines = ["--no-index", f"./{WHEEL}"]
    for _ in range(2):
        assert run(code, requirements=lines) == 0
        assert "has 1.0" in capfd.readouterr().out
    assert run(code) == 1, "they are those of the call that named them"
    assert sorted(path.name for path in run.code_dir.iterdir()) == [WHEEL, "train.py"]


@pytest.mark.integration
def test_unavailable_requirements_are_reported_and_nothing_runs(run, capfd):
    lines = ["--no-index", "no-such-package-of-anybody"]
    assert run(TELL, requirements=lines) == local.EXIT_FAILED
    assert "no-such-package-of-anybody" in capfd.readouterr().err
    assert not (run.out / "told.json").exists()


@pytest.fixture
def on_rocm(monkeypatch):
    monkeypatch.setattr(local, "ask_torch", lambda *_, **__: ROCM)
    monkeypatch.setattr(program, "discover_gpus", lambda: [GPU])


def test_hardware_patches_apply_before_the_first_line(run, on_rocm, capfd, monkeypatch):
    expected = program.decide_for_program(
        ROCM, environ={}, cache_dir=local.CACHE_DIR.expanduser() / "kernels", probe_command=[]
    )
    set_here = {name: value for patch in expected for name, value in patch.environment.items()}
    assert set_here
    for name in set_here:
        monkeypatch.delenv(name, raising=False)  # torch's compiler sets some in its own process
    code = TELL + "import torch\nprint('flash', torch.backends.cuda.flash_sdp_enabled())\n"
    assert run(code) == 0
    shown = capfd.readouterr()
    assert "flash False" in shown.out
    assert "torch.backends.cuda.enable_flash_sdp=False" in shown.err
    environ = told(run)["environ"]
    assert set_here.items() <= environ.items()


def test_a_users_variable_takes_precedence_over_a_patch(run, on_rocm, monkeypatch):
    own = "max_split_size_mb:512"
    assert run(TELL) == 0
    assert told(run)["environ"][VARIABLES[0]] != own
    monkeypatch.setenv(VARIABLES[0], own)
    assert run(TELL) == 0
    assert {told(run)["environ"][name] for name in VARIABLES} == {own}
