import sys
from pathlib import Path

import pytest

from redkiln.views.doctor import DoctorReport
from tests.waiting import wait_for
from worker.agent import doctor
from worker.agent.children.children import Spawner
from worker.agent.doctor import DoctorRounds, drop_secrets
from worker.agent.inventory import Inventory
from worker.hardware.health.death_book import NAME

ROOT = Path(__file__).parents[3]
REPORT = '{"at": "2026-05-01T00:00:00Z", "hostname": "station", "checks": []}'


@pytest.fixture
def build(tmp_path):
    rounds = []

    def build(script, report=lambda _: None):
        made = DoctorRounds(
            Spawner(),
            worker_dir=tmp_path,
            inventory=Inventory(torch_version="2.13.0", hip_version="7.2", rocm_version="7.2"),
            report=report,
            source_dir=ROOT,
            command=[sys.executable, "-c", script],
        )
        rounds.append(made)
        return made

    yield build
    for made in rounds:
        made.halt()


def test_the_childs_output_is_the_report_and_no_files_are_left(build, tmp_path):
    assert build(f"print('''{REPORT}''')").look().hostname == "station"
    assert list(tmp_path.iterdir()) == []


def test_the_child_receives_torchs_inventory(build):
    script = (
        "import json, sys; told = json.load(open(sys.argv[-1])); "
        f"print({REPORT!r}) if told['torch_version'] == '2.13.0' else None"
    )
    assert build(script).look() is not None


@pytest.mark.parametrize("script", ["print('nonsense')", "raise SystemExit(2)"])
def test_unreadable_output_gives_no_report(build, script):
    assert build(script).look() is None


def test_a_death_makes_the_doctor_run_at_once(build, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(doctor, "CHANGE_SECONDS", 0.02)
    told = []
    rounds = build(f"print('''{REPORT}''')", report=told.append)
    rounds.start()
    wait_for(lambda: len(told) == 1)
    (tmp_path / NAME).write_text("{}\n")
    wait_for(lambda: len(told) == 2)
    assert all(isinstance(report, DoctorReport) for report in told)


def test_secrets_are_kept_from_the_child():
    assert drop_secrets({"REDKILN_WORKER_KEY": "x", "HF_TOKEN": "y", "HSA_X": "z"}) == {
        "HSA_X": "z"
    }


def test_the_real_doctor_runs(tmp_path):
    rounds = DoctorRounds(
        Spawner(),
        worker_dir=tmp_path,
        inventory=Inventory(torch_version="2.13.0+cpu"),
        report=lambda _: None,
        source_dir=ROOT,
    )
    report = rounds.look()
    assert report.versions["torch"] == "2.13.0+cpu"
