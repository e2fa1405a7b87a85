"""What `redkiln run` prints while a script runs: its output, and lines about its job."""

import io
import os
import pty
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from redkiln.cli.script import follow
from redkiln.cli.script.follow import CheckpointCount, ScriptOutput


def join(monkeypatch, *, is_shared=True):
    """Return an output whose stdout and stderr are one stream, and that stream.

    pytest sets stdout before each test, so a fixture cannot do this.
    """
    sent = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(sent, write_through=True))
    monkeypatch.setattr(follow, "_share_a_place", lambda: is_shared)
    session = SimpleNamespace(note=lambda text: sent.write(f"{text}\n".encode()))
    return ScriptOutput(session), sent


def test_checkpoints_are_summed_up_once_a_minute_and_at_the_end():
    now = [0.0]
    count = CheckpointCount(clock=lambda: now[0])
    lines = []
    for step in range(1, 151):  # one a second
        now[0] += 1
        lines.append(count.add(step))
    assert [line for line in lines if line] == [
        "60 checkpoints so far, the last at step 60",
        "120 checkpoints so far, the last at step 120",
    ]
    assert count.sum_up() == "150 checkpoints so far, the last at step 150"
    assert count.sum_up() is None


@pytest.mark.parametrize(
    ("is_shared", "expected"),
    [
        (True, b"epoch 1 loss 0.5\n[warning: x]\n km\n"),
        (False, b"epoch 1 loss 0.5[warning: x]\n km\n"),
    ],
)
def test_a_line_ends_the_scripts_own_line_if_both_are_seen_together(
    monkeypatch, is_shared, expected
):
    output, sent = join(monkeypatch, is_shared=is_shared)
    output.print_log([b"epoch 1", b" loss 0.5", b""])
    output.note("warning: x", style="yellow")
    output.print_log([b" km\n"])
    assert sent.getvalue() == expected


def test_a_complete_line_is_not_followed_by_an_empty_one(monkeypatch):
    output, sent = join(monkeypatch)
    output.print_log([b"epoch 1\n"])
    output.note("reconnected", style="green")
    assert sent.getvalue() == b"epoch 1\n[reconnected]\n"


def test_one_terminal_is_recognised_and_a_redirected_stdout_too(tmp_path, monkeypatch):
    parent, child = pty.openpty()
    with os.fdopen(child, "w") as terminal, (tmp_path / "log").open("w") as file:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(sys, "stdout", terminal)
        assert follow._share_a_place()
        monkeypatch.setattr(sys, "stdout", file)
        assert not follow._share_a_place()
    os.close(parent)


def test_many_checkpoints_are_one_line_in_the_output(redkiln, fake):
    fake.task = "script"
    Path("train.py").touch()
    made = [
        event
        for step in (11, 12, 13)
        for event in (("checkpoint", {"step": step}), ("committed", {"step": step}))
    ]
    fake.events = [("submitted", {"name": "flowers"}), *made, ("succeeded", {})]
    done = redkiln("run", "--", "x")
    assert len(re.findall("checkpoint (?:at|of) step|checkpoints so far", done.err)) == 1
    assert "[3 checkpoints so far, the last at step 13]\n" in done.err
