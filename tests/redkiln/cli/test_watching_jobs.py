from datetime import datetime, timedelta

import pytest

JOB_ID = "job_0123456789abcdefghijkl"


@pytest.mark.parametrize(
    ("status", "is_verified", "code", "words"),
    [
        ("succeeded", True, 0, "succeeded, model verified"),
        ("succeeded", False, 5, "UNVERIFIED"),
        ("failed", None, 1, "failed"),
        ("cancelled", None, 4, "was cancelled"),
    ],
)
def test_the_exit_status_says_how_a_job_ended(redkiln, fake, status, is_verified, code, words):
    fake.status, fake.is_verified = status, is_verified
    done = redkiln("watch", "last")
    assert done.code == code
    assert words in done.out


def test_a_failed_job_says_why_and_where_its_log_is(redkiln, fake):
    fake.status = "failed"
    fake.reason = {"code": "out_of_memory", "message": "the GPU has no memory [left]"}
    done = redkiln("watch", "last")
    assert "the GPU has no memory [left] (out_of_memory)" in done.out
    assert f"redkiln logs {JOB_ID}" in done.out


def test_warnings_are_among_the_last_lines(redkiln, fake):
    fake.is_verified = False
    fake.warnings = [{"code": "unverified", "message": "differs by 0.1, 0.001 allowed"}]
    done = redkiln("watch", "last")
    assert "warning: differs by 0.1, 0.001 allowed" in done.out.splitlines()[-1]


def test_a_warning_that_was_printed_live_is_only_counted_at_the_end(redkiln, fake):
    seen, late = {"code": "a", "message": "few rows"}, {"code": "b", "message": "is large"}
    fake.events.insert(2, ("warning", seen))
    fake.warnings = [seen, late]
    lines = redkiln("watch", "last").out.splitlines()
    assert [line for line in lines if "few rows" in line] == ["warning: few rows"]
    assert lines[-2:] == [
        "  warning: is large",
        f"  1 warning above; read it again: redkiln job {JOB_ID}",
    ]
    assert "  warning: few rows" in redkiln("job", "last").out.splitlines()


def test_without_a_terminal_each_event_is_a_line(redkiln):
    done = redkiln("watch", "last")
    lines = done.out.splitlines()
    assert lines[0] == f"flowers ({JOB_ID}): succeeded"
    assert "rehearsed the export in 1.2 s" in lines
    assert any("epoch 4/3" in line and "val accuracy 97.8 %" in line for line in lines)


def test_a_broken_stream_is_reported_and_resumed(redkiln, fake):
    fake.cut_after = [2]
    done = redkiln("watch", "last")
    assert done.code == 0
    assert "connection lost" in done.out
    assert "reconnected" in done.out
    assert done.out.count("rehearsed the export") == 1


def test_json_lines_start_and_end_with_the_job(redkiln):
    lines = redkiln("watch", "last", "--json").lines
    assert lines[0]["type"] == lines[-1]["type"] == "job"
    assert [line["event"]["seq"] for line in lines if line["type"] == "event"] == [1, 2, 3, 4, 5, 6]


def test_ctrl_c_detaches_and_says_how_to_return(redkiln, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("redkiln.client.Client.watch", interrupt)
    done = redkiln("watch", "last")
    assert done.code == 130
    assert f"redkiln watch {JOB_ID}" in done.err


def test_the_time_of_a_job_is_its_running_time_without_pauses(redkiln, fake):
    first, second = fake.view()["attempts"][0], dict(fake.view()["attempts"][0])
    ends = datetime.fromisoformat(first["finished_at"])
    second |= {"id": "att_2", "number": 2}
    second["started_at"] = (ends + timedelta(hours=2)).isoformat()
    second["finished_at"] = (ends + timedelta(hours=2, seconds=18)).isoformat()
    fake.attempts = [first, second]
    for command in ("watch", "job"):
        out = redkiln(command, "last").out
        assert "succeeded, model verified, ran 1 min 00 s" in out
        assert " h " not in out


@pytest.mark.parametrize(
    ("task", "verified", "words"),
    [
        ("image-classification", None, "not compared with torch"),
        ("image-classification", False, "failed the check against torch"),
        ("script", None, "not compared with outputs of the script"),
        ("script", False, "failed the check"),
        ("script", True, "verified against outputs of the script"),
    ],
)
def test_the_page_of_a_job_says_what_its_model_was_compared_with(
    redkiln, fake, task, verified, words
):
    fake.task, fake.is_verified = task, verified
    lines = [line.rstrip() for line in redkiln("watch", "last").out.splitlines()]
    assert any(line.endswith(f"model.onnx, 95.0 kB, {words}") for line in lines)


def test_the_size_of_a_model_includes_the_file_of_its_weights(redkiln, fake):
    fake.files = {"m.onnx": ("model", b"1" * 500), "m.onnx.data": ("file", b"2" * 1500)}
    assert "m.onnx, 2.0 kB with m.onnx.data, verified" in redkiln("watch", "last").out


@pytest.mark.parametrize(("verified", "is_advised"), [(None, True), (False, False), (True, False)])
def test_the_page_of_a_script_says_how_its_model_is_compared(redkiln, fake, verified, is_advised):
    fake.task, fake.is_verified = "script", verified
    assert ("samples.npz next to it" in redkiln("watch", "last").out) == is_advised


def test_the_page_of_a_job_shows_where_its_time_went(redkiln, fake):
    out = redkiln("job", "last").out
    assert "queued 3.0 s, training 40 s, exporting 2.0 s" in out


def test_the_reason_of_a_failure_without_its_own_event_is_printed_once(redkiln, fake):
    fake.status = "failed"
    fake.reason = {"code": "worker_fault", "message": "ImportError: no module named x"}
    fake.events.append(("failed", {"reason": fake.reason}))
    assert redkiln("watch", "last").out.count("ImportError") == 1
    assert "failed: ImportError" in redkiln("events", "last").out
