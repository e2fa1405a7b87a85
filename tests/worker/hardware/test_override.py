import json
import sys
from datetime import UTC, datetime, timedelta

import pytest

from worker.hardware.override import (
    ProbeKey,
    ProbeResult,
    find_result,
    judge_probe,
    name_lent,
    run_probe,
    save_result,
    variable_of,
)
from worker.hardware.selftest import probe

NOW = datetime(2026, 11, 21, tzinfo=UTC)
CANDIDATE = {variable_of(1): "10.3.0"}
KEY = ProbeKey(gfx="gfx1031", value="10.3.0", torch="2.10", rocm="7.2")


def said(**output):
    return json.dumps(output).encode()


@pytest.mark.parametrize(
    ("status", "stdout", "verdict", "word"),
    [
        (0, said(errors={"product": 1e-6, "convolution": 2e-5}), "passed", "correct in a probe"),
        (0, said(errors={"product": 1e-6, "convolution": 0.4}), "failed", "convolution 4.0e-01"),
        (0, said(errors={"product": None}), "failed", "product not finite"),
        (0, said(gfx="gfx1030", errors={"product": 1e-6}), "passed", "correct in a probe"),
        (0, said(gfx="gfx1100", errors={"product": 1e-6}), "failed", "ran on gfx1100 instead of"),
        (0, said(error="torch opens no GPU under it"), "failed", "opens no GPU"),
        (0, said(errors={}), "failed", "computed nothing"),
        (0, b"Segmentation", "failed", "cannot be parsed"),
        (-11, b"", "failed", "signal 11"),
        (1, b"", "failed", "status 1"),
        (None, b"", "failed", "hung"),
    ],
)
def test_only_right_numbers_pass(status, stdout, verdict, word):
    result = judge_probe(status=status, stdout=stdout, lent="gfx1030")
    assert result.verdict == verdict
    assert word in result.detail


def run(command, **environment):
    return run_probe(command, environment={**environment, **CANDIDATE}, lent=name_lent(CANDIDATE))


def test_the_child_gets_only_the_candidate_environment():
    script = (
        "import json, os;"
        "ok = os.environ.get('HSA_OVERRIDE_GFX_VERSION_1') == '10.3.0';"
        "wrong = not ok or 'HOME' in os.environ or os.environ['ROCR_VISIBLE_DEVICES'] != '0';"
        "print(json.dumps({'gfx': 'gfx1030', 'errors': {'product': float(wrong)}}))"
    )
    command = [sys.executable, "-c", script]
    assert run(command, ROCR_VISIBLE_DEVICES="0").verdict == "passed"
    assert run(command, ROCR_VISIBLE_DEVICES="1").verdict == "failed"


def test_a_child_that_crashes_or_does_not_start_has_failed():
    script = "import os; os.kill(os.getpid(), 6)"
    assert "signal 6" in run([sys.executable, "-c", script]).detail
    assert "could not be started" in run(["/no/such/program"]).detail


def test_the_real_probe_passes_on_the_cpu():
    command = [sys.executable, "-m", "worker.hardware.selftest.probe", "--device", "cpu"]
    assert run(command).verdict == "passed"


def test_the_real_probe_reports_a_missing_gpu(monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert probe.main([]) == 0
    result = judge_probe(status=0, stdout=capsys.readouterr().out.encode(), lent="gfx1030")
    assert "no GPU" in result.detail


def test_a_verdict_is_stored_by_target_and_versions(tmp_path):
    result = judge_probe(status=-6, stdout=b"", lent="gfx1030")
    assert find_result(tmp_path, KEY, now=NOW) is None
    save_result(tmp_path / "new", KEY, result, now=NOW)
    assert find_result(tmp_path / "new", KEY, now=NOW) == result
    for change in ({"rocm": "7.3"}, {"torch": "2.11"}, {"value": "11.0.0"}, {"gfx": "gfx1032"}):
        assert find_result(tmp_path / "new", KEY.model_copy(update=change), now=NOW) is None


def test_a_failure_counts_for_a_day_and_a_pass_for_ever(tmp_path):
    later = NOW + timedelta(days=2)
    for verdict, found in (("failed", False), ("passed", True)):
        save_result(tmp_path, KEY, ProbeResult(verdict=verdict, detail="x"), now=NOW)
        assert (find_result(tmp_path, KEY, now=later) is not None) is found
