"""`redkiln run`: what it sends, what it shows, what it leaves, and how it ends."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from redkiln.cli.arguments.specfile import SpecSource
from redkiln.tasks import parse_spec

JOB_ID = "job_0123456789abcdefghijkl"
LEAVES = {"model.txt": ("file", b"weights"), "plots/loss.txt": ("file", b"loss")}


@pytest.fixture
def project(fake):
    """The current folder with a program in it, and a job that will have run it."""
    fake.task, fake.files = "script", dict(LEAVES)
    fake.events = [("submitted", {"name": "flowers"}), ("succeeded", {})]
    fake.log = b"epoch 1\nepoch 2\n"
    Path("train.py").write_text("print('hello')\n")
    Path(".env").write_text("TOKEN=1\n")
    Path(".gitignore").write_text("*.log\n")
    Path("old.log").touch()
    return Path.cwd()


def spec_of(fake):
    ((spec, _),) = fake.submitted
    return spec


def test_the_folders_code_is_sent_and_its_program_queued(redkiln, fake, project):
    done = redkiln("run", "--", "python", "train.py", "--out", "{out}", "--help")
    assert done.code == 0
    ((sha256, body),) = fake.bundles.items()
    with tarfile.open(fileobj=io.BytesIO(body)) as packed:
        assert packed.getnames() == [".gitignore", "train.py"]
    assert spec_of(fake) == {
        "task": "script",
        "script": {
            "command": ["python", "train.py", "--out", "{out}", "--help"],
            "bundle": sha256,
        },
    }
    assert "code: 2 files" in done.err
    assert "left out: .env (may contain secrets), old.log (ignored by .gitignore)" in done.err


def test_the_help_sets_a_field_that_scripts_have(redkiln):
    shown = " ".join(redkiln("run", "-h").out.replace("│", " ").split())
    (example,) = re.findall(r"e\.g\. (\S+=\S+)\. Repeatable", shown)
    source = SpecSource({"task": "script", "script": {"command": ["ls"]}}, {})
    source.assign([example])
    parse_spec(source.value)


@pytest.mark.parametrize(
    "words", [["python", "trian.py"], ["python", "-u", "trian.py"], ["trian.py"]]
)
def test_a_program_that_is_not_in_the_code_is_refused_at_once(redkiln, fake, project, words):
    done = redkiln("run", "--", *words)
    assert done.code == 2
    assert "There is no file trian.py in the folder of the code" in done.err
    assert "did you mean 'train.py'?" in " ".join(done.err.split())
    assert (fake.submitted, fake.bundles) == ([], {})


@pytest.mark.parametrize("words", [["python", "-m", "trainer.py"], ["python", "/opt/fit.py"]])
def test_other_programs_are_looked_for_on_the_worker(redkiln, fake, project, words):
    assert redkiln("run", "--detach", "--", *words).code == 0
    assert spec_of(fake)["script"]["command"] == words


@pytest.mark.parametrize(("num_files", "num_bytes"), [(20, 10), (1, 5_000_000)])
def test_much_data_next_to_the_code_is_named_with_what_to_do(
    redkiln, fake, project, num_files, num_bytes
):
    Path("photos").mkdir()
    for number in range(num_files):
        Path(f"photos/{number}.JPG").write_bytes(bytes(num_bytes))
    done = redkiln("run", "--", "python", "train.py")
    shown = " ".join(done.err.split())
    assert f"{num_files} of these files are data" in shown
    assert "--code FOLDER, or name data in .redkilnignore; `--dataset PATH`" in shown
    Path(".redkilnignore").write_text("photos/\n")
    assert "are data" not in redkiln("run", "--", "python", "train.py").err


def test_a_python_file_is_run_by_python(redkiln, fake, project):
    Path("fit").mkdir()
    Path("fit/tool.py").touch(mode=0o755)
    done = redkiln("run", "train.py", "8 epochs")
    assert spec_of(fake)["script"]["command"] == ["python", "train.py", "8 epochs"]
    assert "so this runs: python train.py '8 epochs'" in done.err
    fake.submitted.clear()
    redkiln("run", "fit/tool.py")
    assert spec_of(fake)["script"]["command"] == ["fit/tool.py"]


def test_every_option_ends_up_in_the_spec(redkiln, fake, project):
    Path("requirements.txt").write_text("einops==0.8.1  # shapes\n\n# more\n")
    done = redkiln(
        "run", "--gpus", "2", "-r", "requirements.txt", "--name", "mine", "-e", "A=b=c",
        "--dataset", "flowers", "--set", "script.limits.processes=64", "--detach", "--", "./go",
    )  # fmt: skip
    assert done.code == 0
    spec = spec_of(fake)
    del spec["script"]["bundle"]
    assert spec == {
        "task": "script",
        "name": "mine",
        "dataset": "flowers",
        "resources": {"device": "gpu", "gpus": 2},
        "script": {
            "command": ["./go"],
            "requirements": ["einops==0.8.1"],
            "env": {"A": "b=c"},
            "limits": {"processes": 64},
        },
    }


@pytest.mark.parametrize(
    ("options", "word", "message"),
    [
        ((), "{data}/x.csv", "The command uses {data}, but the job has no data set"),
        ((), "{uot}/x.csv", "Unknown placeholder {uot}; did you mean {out}?"),
        (("-d", "../nosuch"), "{data}", "--dataset ../nosuch: there is no such file or folder"),
        (("-d", "nosuch.csv"), "{data}", "--dataset nosuch.csv: there is no such file or folder"),
    ],
)
def test_data_that_are_not_there_are_refused_before_code_is_sent(
    redkiln, fake, project, options, word, message
):
    done = redkiln("run", *options, "--", "python", "train.py", word)
    assert (done.code, fake.requests) == (2, [])
    assert message in done.err


def test_the_output_is_shown_and_the_files_are_fetched(redkiln, project):
    done = redkiln("run", "--", "python", "train.py")
    assert "epoch 1\nepoch 2\n" in done.out
    assert Path("out/flowers/model.txt").read_bytes() == b"weights"
    assert Path("out/flowers/plots/loss.txt").read_bytes() == b"loss"
    assert json.loads(Path("out/flowers/job.json").read_text())["id"] == JOB_ID
    assert "flowers succeeded" in done.err


def test_a_warning_shown_with_the_output_is_only_counted_at_the_end(redkiln, fake, project):
    warning = {"code": "unread", "message": "metrics.csv has no header"}
    fake.events.insert(2, ("warning", warning))
    fake.warnings = [warning]
    done = redkiln("run", "python", "train.py")
    assert done.err.count("metrics.csv has no header") == 1
    assert "  1 warning above; read it again: redkiln job job_" in done.err


def test_a_second_run_sends_no_code_again(redkiln, fake, project):
    redkiln("run", "--", "python", "train.py")
    redkiln("run", "--", "python", "train.py")
    first, second = (spec["script"]["bundle"] for spec, _ in fake.submitted)
    assert first == second
    assert [method for method, path, _ in fake.requests if "bundles" in path] == [
        "GET", "PUT", "GET",
    ]  # fmt: skip


@pytest.mark.parametrize(("status", "code"), [("failed", 1), ("cancelled", 4)])
def test_files_of_a_job_that_did_not_succeed_are_fetched_too(redkiln, fake, project, status, code):
    fake.status = status
    fake.reason = {"code": "script_failed", "message": "it ended with status 3"}
    fake.events[-1] = (status, {})
    done = redkiln("run", "-o", "left", "--", "python", "train.py")
    assert done.code == code
    assert Path("left/model.txt").read_bytes() == b"weights"
    assert "it ended with status 3" in done.err


def test_a_failed_job_says_how_to_continue_from_its_checkpoints(redkiln, fake, project):
    fake.status = "failed"
    fake.events[-1] = ("failed", {})
    done = redkiln("run", "--", "python", "train.py", "--out", "{out}")
    said = f"add --from: redkiln run --from {JOB_ID} -- python train.py --out '{{out}}'"
    assert said in " ".join(done.err.split())
    fake.status, fake.events[-1] = "succeeded", ("succeeded", {})
    assert "--from" not in redkiln("run", "--", "python", "train.py").err


def test_a_run_can_start_with_the_checkpoints_of_another(redkiln, fake, project):
    assert redkiln("run", "--from", "last", "--detach", "--", "python", "train.py").code == 0
    assert spec_of(fake)["script"]["start_from"] == f"job:{JOB_ID}"
    program = ("--detach", "--", "python", "train.py", "--data", "{data}")
    for given, taken in (
        ((), "flowers"),
        (("--dataset", "builtin:doodles"), "builtin:doodles"),
    ):
        fake.submitted.clear()
        assert redkiln("run", "--from", "last", *given, *program).code == 0
        assert spec_of(fake)["dataset"] == taken
    done = redkiln("run", "--from", "last", "--local", "--", "python", "train.py")
    assert (done.code, "--from needs the queue" in done.err) == (2, True)


def test_a_failed_job_without_files_leaves_no_folder(redkiln, fake, project):
    fake.status, fake.files = "failed", None
    assert redkiln("run", "--", "python", "train.py").code == 1
    assert not Path("out").exists()


def test_with_detach_the_job_is_only_queued(redkiln, fake, project):
    done = redkiln("run", "--detach", "--", "python", "train.py")
    assert done.code == 0
    assert f"queued flowers as {JOB_ID}" in done.out
    assert not Path("out").exists()
    assert not any("logs" in path or "artifacts" in path for _, path, _ in fake.requests)


def test_ctrl_c_detaches_and_says_how_to_return(redkiln, fake, project, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("redkiln.cli.script.run.follow_script", interrupt)
    done = redkiln("run", "--", "python", "train.py")
    assert done.code == 130
    assert f"redkiln watch {JOB_ID}" in done.err
    assert f"redkiln download {JOB_ID}" in done.err
    assert len(fake.submitted) == 1
    assert not any("cancel" in path for _, path, _ in fake.requests)


def test_with_json_stdout_has_only_json(redkiln, project):
    done = redkiln("run", "--json", "--", "python", "train.py")
    assert done.code == 0
    last = done.lines[-1]
    assert (last["type"], last["status"], last["folder"]) == ("result", "succeeded", "out/flowers")
    assert sorted(last["files"]) == ["out/flowers/model.txt", "out/flowers/plots/loss.txt"]
    assert redkiln("run", "--json", "--detach", "--", "x").json["id"] == JOB_ID


def test_a_mistake_is_reported_with_its_option(redkiln, fake, project):
    done = redkiln("run", "-e", "1A=b", "--", "python", "train.py")
    assert done.code == 2
    assert "--env" in done.err
    assert "'1A' is not a valid variable name" in done.err
    assert redkiln("run", "-e", "A", "--", "x").code == 2
    assert redkiln("run", "-r", "nothing.txt", "--", "x").code == 2
    assert fake.submitted == []


def test_a_folder_that_is_not_also_a_data_set_name_is_sent(redkiln, fake, project, image_folder):
    assert redkiln("run", "-d", image_folder.name, "--", "x").code == 0
    ((name, _, _),) = fake.uploads
    assert (name, spec_of(fake)["dataset"]) == ("flowers", "ds_1")


def test_a_name_of_both_folder_and_data_set_means_the_data_set(
    redkiln, fake, project, image_folder
):
    known = {"id": "ds_9", "name": "flowers", "status": "ready", "kind": "archive"}
    fake.datasets["ds_9"] = {**known, "created_at": "2026-11-21T09:00:00Z"}
    done = redkiln("run", "-d", "flowers", "--", "x")
    assert spec_of(fake)["dataset"] == "flowers"
    assert fake.uploads == []
    assert "write ./flowers for the folder" in done.err
    fake.submitted.clear()
    redkiln("run", "-d", "./flowers", "--", "x")
    assert len(fake.uploads) == 1


def test_a_script_reads_data_that_no_task_can_train_on(redkiln, fake, project):
    Path("../rides.csv").write_text("temp_c,km\n22.2,4\n")
    reason = "column 'temp_c' mixes types; set --column temp_c=categorical"
    fake.dataset_errors = [{"code": "mixed_types", "message": reason}]
    fake.warnings = [{"code": "dataset_refused", "message": "rides was refused for training"}]
    done = redkiln("run", "-d", "../rides.csv", "--", "python", "train.py", "{data}")
    assert (done.code, spec_of(fake)["dataset"]) == (0, "ds_1")
    assert (
        "rides cannot be used by `redkiln train` (column 'temp_c' mixes types), but the script "
        "reads it as it was sent. All reasons: redkiln datasets show ds_1" in done.err
    )
    assert "--column" not in done.err
    assert "was refused for training" not in done.err
    assert "1 warning above" in done.err


def test_a_service_that_runs_no_scripts_refuses_before_data_are_sent(
    redkiln, fake, project, image_folder
):
    fake.allows_scripts = False
    done = redkiln("run", "-d", "./flowers", "--", "x")
    assert (done.code, fake.uploads, fake.submitted) == (2, [], [])
    assert "start it with REDKILN_SCRIPTS=on" in done.err


# --local

LOCAL = """
import json, os, sys
names = ("REDKILN_DATA", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "A", "B")
told = {"arguments": sys.argv[1:], **{name: os.environ.get(name) for name in names}}
open(os.environ["REDKILN_OUT"] + "/told.json", "w").write(json.dumps(told))
sys.exit(3)
"""


@pytest.fixture
def at_home(project, monkeypatch):
    """The worker's caches are kept below the home folder."""
    monkeypatch.setenv("HOME", str(project / "home"))
    return project


def test_local_runs_the_program_here_with_its_folders(redkiln, fake, at_home, capfd):
    Path("train.py").write_text(LOCAL)
    Path("data").mkdir()
    done = redkiln(
        "run", "--local", "--gpus", "0", "-d", "data", "-e", "A=1", "--set", "script.env.B=two",
        "--set", "script.limits.processes=64", "--name", "mine", "--", "python", "train.py",
        "{data}", "{out}", "-x",
    )  # fmt: skip
    assert done.code == 3, capfd.readouterr().err
    told = json.loads(Path("out/mine/told.json").read_text())
    assert told == {
        "arguments": [str(at_home / "data"), str(at_home / "out" / "mine"), "-x"],
        "REDKILN_DATA": str(at_home / "data"),
        "HIP_VISIBLE_DEVICES": "-1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "A": "1",
        "B": "two",
    }
    assert "ignored by --local: script.limits" in done.err
    assert fake.requests == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-d", "flowers"), "--dataset flowers: there is no such file or folder"),
        (("--code", "nothing"), "--code nothing: there is no such folder"),
        (("--set", "script.limits.processes=1"), "--set script.limits.processes=1"),
        (("--set", "script.comand=x"), "did you mean 'command'"),
    ],
)
def test_local_refuses_invalid_options_before_creating_anything(redkiln, at_home, arguments, words):
    done = redkiln("run", "--local", *arguments, "--", "python", "train.py")
    assert done.code == 2
    assert words in done.err
    assert not Path("out").exists()


SAVES = """
import os, signal, sys, time
out = os.environ["REDKILN_OUT"]
def save(*_):
    time.sleep(1.5)
    open(out + "/saved", "w").close()
    sys.exit(7)
signal.signal(signal.SIGINT, save)
signal.signal(signal.SIGTERM, save)
open(out + "/ready", "w").close()
while True:
    time.sleep(0.05)
"""


# A terminal sends Ctrl-C to all of them, and `kill` or a supervisor ends one process.
@pytest.mark.parametrize(("send", "number"), [(os.killpg, "SIGINT"), (os.kill, "SIGTERM")])
def test_a_local_program_ends_by_itself_when_signalled(at_home, send, number):
    Path("train.py").write_text(SAVES)
    command = [sys.executable, "-m", "redkiln", "run", "--local", "--", "python", "train.py"]
    source = str(Path(__file__).parents[3])
    environ = {**os.environ, "PYTHONPATH": source}
    with subprocess.Popen(command, env=environ, start_new_session=True) as child:
        try:
            until = time.monotonic() + 60
            while not Path("out/local/ready").exists() and time.monotonic() < until:
                assert child.poll() is None
                time.sleep(0.05)
            send(child.pid, signal.Signals[number])
            assert child.wait(30) == 7
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
    assert Path("out/local/saved").exists()
