"""Expandable segments are tried in a child, once for each card."""

import sys
from datetime import UTC, datetime

import pytest
import torch

from worker.hardware.segments import prove_segments
from worker.hardware.selftest import segments
from worker.hardware.selftest.segments import probe

NOW = datetime(2026, 11, 24, tzinfo=UTC)
SAYS = """
import os
open({log!r}, "a").write("x")
names = ("PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
assert {{os.environ[name] for name in names}} == {{"expandable_segments:True"}}
{body}
"""
RIGHT = """print('{"errors": {"first copy": 0, "growth": 0, "read-back": 0}}')"""


def prove(tmp_path, body, *, gpu="0000:03:00.0"):
    code = SAYS.format(log=str(tmp_path / "tried"), body=body)
    return prove_segments(
        gpu, "gfx1201", versions=("2.14", "10.2"), environment={}, cache_dir=tmp_path, now=NOW,
        command=[sys.executable, "-S", "-c", code],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "verdict", "detail"),
    [
        (RIGHT, "passed", "first copy and growth and read-back correct"),
        (RIGHT.replace('growth": 0', 'growth": 1'), "failed", "wrong numbers"),
        ("import os; os.abort()", "failed", "signal 6"),
        ("""print('{"error": "torch ignored the setting"}')""", "failed", "ignored the setting"),
    ],
)
def test_the_way_in_which_the_child_ends_is_the_verdict(tmp_path, body, verdict, detail):
    found = prove(tmp_path, body)
    assert found.verdict == verdict
    assert detail in found.detail


def test_a_card_is_tried_once_and_another_one_of_its_kind_again(tmp_path):
    for _ in range(2):
        prove(tmp_path, RIGHT)
    assert (tmp_path / "tried").read_text() == "x"
    prove(tmp_path, RIGHT, gpu="0000:43:00.0")
    assert (tmp_path / "tried").read_text() == "xx"


def test_memory_that_keeps_its_numbers_passes():
    found = probe(torch.device("cpu"), rounds=40)
    assert found.errors == {"first copy": 0.0, "growth": 0.0, "read-back": 0.0}


def test_a_live_block_that_reads_as_zeros_is_found(monkeypatch):
    full, made = torch.full, []

    def lose_the_first(*arguments, **options):
        block = full(*arguments, **options)
        made.append(block)
        if len(made) == 20:
            made[0].zero_()
        return block

    monkeypatch.setattr(segments.torch, "full", lose_the_first)
    assert probe(torch.device("cpu"), rounds=40).errors["growth"] == 1.0
