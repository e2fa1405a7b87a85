"""The doctor on the command line: of the service, or of this machine where none answers."""

import json
import sys
import tarfile

import pytest

from redkiln.views.doctor import EXIT_STATUSES, Diagnosis

AT = "2026-05-01T12:00:00Z"
SECRET = "hf_AbCdEfGhIjKlMnOpQrSt"


def check(**changes):
    told = {"id": "x", "row": 0, "title": "a check", "verdict": "ok", "severity": "note"}
    return told | changes


def report(*checks):
    return {"at": AT, "hostname": "station", "versions": {"torch": "2.13"}, "checks": list(checks)}


BLOCKED = check(
    row=4,
    title="permission on the nodes",
    verdict="bad",
    severity="blocks",
    evidence=f"Permission denied with {SECRET}",
    cause="not in the group",
    fix='group_add: ["992"]',
)
SLOWED = check(title="broker", verdict="bad", severity="slows", evidence="away", fix="start it")


def diagnosis(verdict="ok", *, service=(), worker=None):
    workers = [{"worker_id": "wrk_1", "hostname": "box", "told_at": AT, "report": worker}]
    return {"verdict": verdict, "service": report(*service), "workers": workers}


def test_each_machine_is_shown_with_its_fixes(redkiln, fake):
    fake.diagnosis = diagnosis("blocked", service=[SLOWED], worker=report(BLOCKED))
    done = redkiln("doctor")
    assert done.code == 2
    assert f"service {fake.url}  works, but something slows it" in done.out
    assert "worker box" in done.out
    assert done.out.startswith('First on station: group_add: ["992"]')
    assert 'fix      group_add: ["992"]' in done.out


@pytest.mark.parametrize("verdict", ["ok", "slow", "blocked"])
def test_the_exit_status_is_the_worst_verdict(redkiln, fake, verdict):
    fake.diagnosis = diagnosis(verdict)
    assert redkiln("doctor").code == EXIT_STATUSES[verdict]


def test_a_worker_without_a_report_is_listed(redkiln, fake):
    fake.diagnosis = diagnosis()
    assert "no report yet" in redkiln("doctor").out


def test_json_is_the_services_answer(redkiln, fake):
    fake.diagnosis = diagnosis("blocked", worker=report(BLOCKED))
    done = redkiln("doctor", "--json")
    assert Diagnosis.model_validate(done.json).workers[0].report.is_blocked
    assert done.code == 2


def test_a_bundle_has_no_secrets(redkiln, fake, tmp_path):
    fake.diagnosis = diagnosis("blocked", worker=report(BLOCKED))
    path = tmp_path / "doctor.tar.gz"
    done = redkiln("doctor", "--bundle", path, "--key", "my-own-key-1")
    assert "Read it before" in done.err
    with tarfile.open(path) as archive:
        (member,) = archive
        text = archive.extractfile(member).read().decode()
    assert SECRET not in text
    assert json.loads(text)["workers"][0]["report"]["checks"][0]["fix"] == BLOCKED["fix"]


def test_without_a_service_this_machine_is_examined(redkiln, monkeypatch, tmp_path, capfd):
    inventory = f"print({json.dumps({'torch_version': '2.13.0+cpu', 'gpus': []})!r})"
    monkeypatch.setenv("REDKILN_WORKER_DIR", str(tmp_path))
    monkeypatch.setenv("REDKILN_TOPOLOGY_DIR", str(tmp_path / "topology"))
    monkeypatch.setenv("REDKILN_DRM_DIR", str(tmp_path / "drm"))
    monkeypatch.setenv("REDKILN_INVENTORY_COMMAND", json.dumps([sys.executable, "-c", inventory]))
    done = redkiln("--url", "http://127.0.0.1:9", "doctor")
    assert "Examining this machine instead." in done.err
    assert "torch 2.13.0+cpu" in capfd.readouterr().out
    assert done.code in EXIT_STATUSES.values()


def test_without_a_worker_installed_an_unreachable_service_is_an_error(redkiln, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert redkiln("--url", "http://127.0.0.1:9", "doctor").code == 3


def test_compat_passes_its_options_to_the_worker(redkiln, capfd):
    assert redkiln("compat", "--gfx", "gfx803").code == 2
    assert "No published build" in capfd.readouterr().out


def test_compat_without_a_worker_names_the_command_in_the_container(redkiln, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    done = redkiln("compat")
    assert done.code != 0
    assert "docker compose exec worker python -m worker.hardware compat" in done.err
