import json
from pathlib import Path

import pytest

from redkiln.version import __version__

JOB_ID = "job_0123456789abcdefghijkl"


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs",),
        ("job", "last"),
        ("artifacts", "last"),
        ("metrics", "last"),
        ("metrics", "last", "--telemetry"),
        ("gpus",),
        ("datasets",),
        ("datasets", "list"),
        ("tasks",),
        ("tasks", "show", "image-classification"),
        ("workers",),
        ("--key", "rk_admin", "keys"),
        ("keys", "show", "anna", "--key", "rk_admin"),
        ("keys", "create", "anna", "--key", "rk_admin"),
        ("keys", "revoke", "anna", "--key", "rk_admin"),
        ("keys", "rotate", "anna", "--key", "rk_admin"),
        ("audit",),
        ("notices",),
        ("storage",),
        ("storage", "retention"),
        ("version",),
        ("delete", "last"),
        ("download", "last"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_every_command_prints_json_and_nothing_else(redkiln, arguments, is_first):
    done = redkiln("--json", *arguments) if is_first else redkiln(*arguments, "--json")
    assert done.code == 0
    json.loads(done.out)


@pytest.mark.parametrize("command", ["logs", "events", "watch"])
def test_streaming_commands_print_one_json_object_a_line(redkiln, command):
    done = redkiln(command, "last", "--json")
    assert done.code == 0
    assert all(isinstance(line, dict) for line in done.lines)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("jobs",), ["flowers", "succeeded", "97.8 %", JOB_ID]),
        (
            ("job", "last"),
            [
                "flowers",
                "succeeded",
                "RX 580 (CL:1) with tinygrad 0.14",
                "42 s",
                "model.onnx",
                "verified against torch",
            ],
        ),
        (("artifacts", "last"), ["model.onnx", "95.0 kB", "yes"]),
        (("metrics", "last"), ["train/loss", "0.5"]),
        (("metrics", "last", "--telemetry"), ["gpu/0/power_watts", "200 W", "312 W"]),
        (("gpus",), ["Radeon RX 7900 XTX", "gfx1100", "98 %", "24.0 GiB", "312 W", JOB_ID]),
        (("gpus", "--arch", "gfx942"), ["No live worker has a GPU"]),
        (("events", "last"), ["training", "rehearsed the export in 1.2 s"]),
        (("audit", "--of-key", "anna"), ["anna", "flowers", "/cancel", JOB_ID, "forbidden"]),
        (("notices",), [JOB_ID, "failed", "ntfy://ntfy.sh", "8"]),
        (("tasks",), ["image-classification"]),
        (("tasks", "show"), ["training.epochs", "export.opset", "20", "builtin:digits"]),
        (("workers",), ["box", "yes", "CPU", "RX 580 (tinygrad CL:1, slot 2)"]),
        (("version",), ["redkiln 0.1.0", "http://127.0.0.1"]),
        (("logs", "last"), ["first line"]),
        (("logs", "last", "--tail", "1"), ["second line"]),
    ],
)
def test_without_json_commands_print_words(redkiln, arguments, words):
    done = redkiln(*arguments)
    assert done.code == 0
    for word in words:
        assert word in done.out


def test_output_outside_a_terminal_has_no_colours_and_no_cursor_moves(redkiln):
    for arguments in (("jobs",), ("watch", "last"), ("job", "last")):
        assert "\x1b" not in redkiln(*arguments).out


def test_a_job_is_found_by_name_by_the_start_of_its_id_and_as_last(redkiln):
    for named in ("flowers", JOB_ID, "job_012345", "0123456", "last"):
        assert redkiln("job", named, "--json").json["id"] == JOB_ID


def test_an_unknown_job_is_a_usage_error(redkiln):
    done = redkiln("watch", "roses")
    assert done.code == 2
    assert "There is no job 'roses'. List" in done.err
    assert "Did you mean flowers?" in redkiln("job", "flow").err


@pytest.mark.parametrize(
    ("typed", "meant"), [("push", "`redkiln datasets push`"), ("subit", "'submit'")]
)
def test_a_command_of_a_group_that_is_typed_without_it_is_named(redkiln, typed, meant):
    done = redkiln(typed)
    assert done.code == 2
    assert f"No such command '{typed}'. Did you mean {meant}" in done.err


def test_an_error_in_json_has_its_code_and_its_exit_status(redkiln):
    done = redkiln("job", "roses", "--json")
    assert done.code == 2
    assert done.json["error"]["exit_code"] == 2


def test_an_unreachable_service_has_its_own_exit_status(redkiln):
    done = redkiln("jobs", "--url", "http://127.0.0.1:9")
    assert done.code == 3
    assert "Cannot reach the service at http://127.0.0.1:9" in done.err
    assert "make up" in done.err


def test_a_missing_key_says_how_to_give_one(redkiln):
    done = redkiln("keys")
    assert done.code == 2
    assert done.err.startswith("Error: no key")
    assert "--key" in done.err


def test_a_target_that_does_not_work_is_named_and_changes_the_exit_status(redkiln):
    done = redkiln("notices", "test")
    assert done.code == 3
    assert "ntfy://ntfy.sh#1: sent" in done.out
    assert "slack://x#2: x answered 404" in done.out


def test_only_the_secret_of_a_rotated_key_is_on_stdout(redkiln):
    done = redkiln("keys", "rotate", "anna", "--key", "rk_admin")
    assert done.out.strip() == "rk_new"


def test_only_a_new_keys_secret_is_on_stdout(redkiln):
    done = redkiln("keys", "create", "anna", "--key", "rk_admin")
    assert done.out == "rk_secret\n"


def test_a_misspelt_command_is_a_usage_error_with_a_suggestion(redkiln):
    done = redkiln("job_s")
    assert done.code == 2
    assert "jobs" in done.err


@pytest.mark.parametrize(
    "command",
    ["train", "submit", "watch", "jobs", "logs", "download", "datasets", "tasks", "keys"],
)
def test_help_teaches_by_example(redkiln, command):
    done = redkiln(command, "--help")
    assert done.code == 0
    assert f"redkiln {command}" in done.out


def test_the_exit_statuses_are_in_the_help(redkiln):
    help_text = redkiln("--help").out
    assert "130" in help_text
    assert "UNVERIFIED" not in help_text
    assert "the model failed its check, in its job" in help_text


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ({"test/loss": 0.5, "test/accuracy": 0.5, "test/accuracy_onnx": 0.978}, "accuracy 97.8 %"),
        ({"test/rmse": 0.5, "test/rmse_onnx": 4.25}, "test rmse 4.25"),
        ({"train/loss": 0.5, "val/accuracy": 0.978}, "val accuracy 97.8 %"),
        ({"loss": 0.5}, ""),
    ],
)
def test_the_list_shows_the_result_of_what_was_exported(redkiln, fake, results, words):
    fake.results = results
    fake.metrics = {"train/loss": 0.5, "val/accuracy": 0.51}
    line = next(line for line in redkiln("jobs").out.splitlines() if JOB_ID in line)
    assert words in line
    assert "0.5" not in line
    assert "51" not in line


def test_the_service_sorts_the_list_so_that_no_job_is_left_out(redkiln, fake):
    done = redkiln("jobs", "--sort", "test/accuracy", "--limit", "7")
    assert JOB_ID in done.out
    assert fake.asked_jobs == [{"sort": "-test/accuracy", "limit": "7"}]


def test_a_metric_that_no_job_has_is_a_usage_error_with_a_choice(redkiln, fake):
    done = redkiln("jobs", "--sort", "test/rmse")
    assert done.code == 2
    assert "no job has this metric. Choose one of: test/accuracy" in done.err
    fake.job_names = {}
    assert redkiln("jobs", "--sort", "test/rmse").code == 0


def test_the_version_needs_no_service(redkiln, fake):
    done = redkiln("--version")
    assert (done.code, done.out) == (0, f"redkiln {__version__}\n")
    assert fake.requests == []


def test_a_script_without_metrics_gets_advice_to_report_them(redkiln, fake):
    fake.metrics, fake.task = {}, "script"
    done = redkiln("metrics", "last")
    assert "redkiln.log(step=step, loss=loss)" in done.err
    assert "(?P<loss>[0-9.]+)" in done.err


@pytest.mark.parametrize("option", ["--quality", "--device"])
def test_a_wrong_choice_is_named_in_plain_words(redkiln, option):
    done = redkiln("train", "builtin:digits", option, "x")
    assert done.code == 2
    said = " ".join(done.err.replace("│", " ").split())
    assert f"Invalid value for '{option}': 'x' is not one of '" in said


@pytest.mark.parametrize(("name", "is_hinted"), [("-7.png", True), ("-8.png", False)])
def test_a_file_whose_name_looks_like_an_option_can_be_written_otherwise(redkiln, name, is_hinted):
    Path("-7.png").touch()
    done = redkiln("predict", "last", name)
    assert done.code == 2
    said = " ".join(done.err.replace("│", " ").split())
    assert ("If you mean the file -7.png, write ./-7.png" in said) is is_hinted
