import json
import os
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from redkiln.views.doctor import DoctorReport
from redkiln.views.hardware import DoctorTrial
from service.keys.secret import make_secret
from worker.hardware.__main__ import main
from worker.hardware.doctor.cures.book import CureBook, Tried
from worker.hardware.doctor.finding import Row, bad
from worker.hardware.doctor.gather import SystemPaths
from worker.hardware.health.death_book import DeathBook, SeenDeath

ROOT = Path(__file__).parents[4]
PHOENIX = ROOT.parent / "shared" / "captures" / "kfd" / "lact-phoenix"
KEY = make_secret("key_" + "b" * 22)
ROCM = {
    "torch_version": "2.13.0+rocm7.2",
    "hip_version": "7.2.4",
    "arch_list": ["gfx1030", "gfx1100"],
    "gpus": [{"index": 0, "name": "a card"}],
}
BROKEN_ROW = Row(14, "broken", "a broken row", "", lambda _: bad(
    "blocks", evidence="seen", cause="why", fix="another"))  # fmt: skip


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A worker's folders and settings, and no GPU but those of a made-up tree.

    The machine is this one without its devices, which tests of containers may make meanwhile.
    """
    machine = tmp_path / "machine"
    (machine / "dev").mkdir(parents=True)
    for name in ("proc", "sys", "dev/shm"):
        (machine / name).symlink_to(f"/{name}")
    bare = partial(SystemPaths, root=machine)
    monkeypatch.setattr("worker.hardware.commands.doctor.SystemPaths", bare)
    worker_dir = tmp_path / "worker"
    (worker_dir / "cache/kernels").mkdir(parents=True)
    for name, value in {
        "REDKILN_WORKER_DIR": str(worker_dir),
        "REDKILN_TOPOLOGY_DIR": str(tmp_path / "topology"),
        "REDKILN_DRM_DIR": str(tmp_path / "drm"),
        "REDKILN_LOCK_DIR": str(tmp_path / "locks"),
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.fixture
def inventory(tmp_path):
    path = tmp_path / "inventory.json"
    path.write_text(json.dumps(ROCM))
    return str(path)


def make_card(places):
    node = places / "topology/nodes/1"
    node.mkdir(parents=True)
    (node / "gpu_id").write_text("29772\n")
    (node / "properties").write_text(
        "cpu_cores_count 0\nsimd_count 128\nsimd_per_cu 2\nwave_front_size 32\n"
        "gfx_target_version 120001\nvendor_id 4098\ndevice_id 30032\nlocation_id 768\n"
        "drm_render_minor 128\nunique_id 777\n"
    )


def test_a_machine_without_a_gpu_is_fine(places, inventory, capsys):
    assert main(["doctor", "--json", "--inventory", inventory]) == 0
    report = DoctorReport.model_validate_json(capsys.readouterr().out)
    assert report.versions["rocm"] == "7.2.4"
    assert [check.row for check in report.checks] == [0, 2, 17, 23]


def test_an_unusable_gpu_exits_with_2_and_shows_the_fix(places, inventory, capsys):
    make_card(places)
    assert main(["doctor", "--inventory", inventory]) == 2
    out = capsys.readouterr().out
    assert "something blocks" in out
    assert "gfx1201 at 0000:03:00.0" in out
    assert out.startswith("First")
    assert "kernels for the GPU's arch (row 1)" in out  # below the missing node, which explains it


def test_invalid_settings_are_reported_as_blocking(places, monkeypatch, capsys):
    monkeypatch.setenv("REDKILN_SERVICE_URL", "nowhere")
    assert main(["doctor"]) == 2
    assert "REDKILN_SERVICE_URL must start with" in capsys.readouterr().err


def test_a_bundle_contains_the_evidence_but_no_secret(places, inventory, monkeypatch, capsys):
    make_card(places)
    worker_dir = places / "worker"
    secrets = {
        "REDKILN_WORKER_KEY": KEY,
        "HF_TOKEN": "hf_ZyXwVuTsRqPoNmLkJi",
        "REDKILN_BROKER_URL": "redis://:broker-Pass-77@redis:6379/0",
        "MIOPEN_API_TOKEN": "a value with no form",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIbPxRfi",
        "HIPBLASLT_SOMETHING": "Bearer 0123456789abcdef",
    }
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0")
    job = worker_dir / "jobs/att_1"
    job.mkdir(parents=True)
    words = "\n".join(["epoch 1: loss 0.5", *secrets.values(), "password=in-a-log-99"])
    (job / "trainer.log").write_text(words)
    DeathBook(worker_dir).add(
        SeenDeath(
            at=datetime.now(UTC), attempt_id="att_0", status=-6, row=9, tail=words, line=words
        )
    )
    path = places / "bundle.tar.gz"

    main(["doctor", "--json", "--bundle", str(path), "--inventory", inventory])

    with tarfile.open(path) as archive:
        files = {item.name: archive.extractfile(item).read().decode() for item in archive}
    everything = "\n".join([*files, *files.values()])
    hidden = [KEY, "hf_ZyXwVuTsRqPoNmLkJi", "broker-Pass-77", "a value with no form"]
    hidden += ["wJalrXUtnFEMIbPxRfi", "0123456789abcdef", "in-a-log-99"]
    assert [secret for secret in hidden if secret in everything] == []
    assert "epoch 1: loss 0.5" in files["redkiln-doctor/logs/jobs_att_1_trainer.log"]
    assert "gfx_target_version 120001" in files["redkiln-doctor/topology/nodes/1/properties"]
    environment = json.loads(files["redkiln-doctor/environment.json"])
    assert environment["HSA_OVERRIDE_GFX_VERSION"] == "10.3.0"
    assert environment["REDKILN_WORKER_KEY"] == "<set>"
    assert "AWS_SECRET_ACCESS_KEY" not in environment
    assert DoctorReport.model_validate_json(files["redkiln-doctor/report.json"]).checks
    assert "Check its content" in capsys.readouterr().err


def test_a_copied_tree_is_judged_and_named_as_a_copy(places, inventory, capsys):
    if not PHOENIX.is_dir():
        pytest.skip("the captures of real machines are not here")
    copied = ["--topology", str(PHOENIX / "kfd"), "--drm", str(PHOENIX)]
    main(["doctor", "--inventory", inventory, *copied])
    out = capsys.readouterr().out
    assert "gfx1103 at 0000:64:00.0" in out
    assert "everything else is this machine's" in out


def test_this_machine_is_examined_in_a_separate_process(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "worker.hardware", "doctor", "--json"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "REDKILN_WORKER_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    report = DoctorReport.model_validate_json(done.stdout)
    assert done.returncode == {"ok": 0, "slow": 1, "blocked": 2}[report.verdict], done.stderr
    assert report.versions["torch"]


def test_fix_without_a_terminal_only_shows_what_it_would_do(places, inventory, capsys):
    lock = places / "worker/cache/kernels/x.lock"
    lock.write_text("")
    os.utime(lock, (0, 0))
    main(["doctor", "--fix", "--inventory", inventory])
    told = capsys.readouterr().err
    assert "--fix would delete locks that no process holds" in told
    assert lock.exists()
    main(["doctor", "--fix", "--yes", "--inventory", inventory])
    assert "Cured: delete locks" in capsys.readouterr().err
    assert not lock.exists()


def test_what_cured_it_before_is_the_first_line(places, inventory, monkeypatch, capsys):
    make_card(places)
    monkeypatch.setattr("worker.hardware.doctor.examine.ROWS", [BROKEN_ROW])
    CureBook(places / "worker").add(
        Tried(at=datetime.now(UTC), row=14, cure="x", command="rm /c/a.ukdb", has_cured=True)
    )
    main(["doctor", "--inventory", inventory])
    assert capsys.readouterr().out.startswith("First: rm /c/a.ukdb")


def test_the_results_of_trials_are_in_the_report(places, inventory, monkeypatch, capsys):
    failed = DoctorTrial(name="matmul", device="cuda:0", verdict="wrong", detail="error 1.0")
    monkeypatch.setattr("worker.hardware.commands.doctor.run_trials", lambda *_, **__: [failed])
    assert main(["doctor", "--test", "--inventory", inventory]) == 2
    out = capsys.readouterr().out
    assert out.startswith("First: python -m worker.hardware.selftest --device cuda:0")
    assert "wrong: error 1.0" in out
