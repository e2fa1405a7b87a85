import io
import sqlite3
import stat
import tarfile
from contextlib import closing

import pytest

from docker import backup


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "state"
    for name in ("blobs/ab", "logs", "keys", "staging"):
        (folder / name).mkdir(parents=True)
    (folder / "blobs/ab/abcd").write_bytes(b"model")
    (folder / "logs/att_1.log").write_text("epoch 1\n")
    (folder / "keys/admin.key").write_text("rk_1")
    (folder / "staging/half").write_bytes(b"half")
    with closing(sqlite3.connect(folder / "redkiln.db")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE jobs (id TEXT)")
        database.execute("INSERT INTO jobs VALUES ('job_1')")
        database.commit()
    return folder


@pytest.fixture
def worker_key(tmp_path):
    path = tmp_path / "secrets" / "worker.key"
    path.parent.mkdir()
    path.write_text("rk_worker")
    return path


def save(state, worker_key):
    out = io.BytesIO()
    backup.save(state, worker_key, out)
    return io.BytesIO(out.getvalue())


def read_jobs(state):
    with closing(sqlite3.connect(state / "redkiln.db")) as database:
        return [row[0] for row in database.execute("SELECT id FROM jobs")]


def test_a_saved_state_is_restored(state, worker_key, tmp_path):
    saved = save(state, worker_key)
    fresh, fresh_key = tmp_path / "fresh", tmp_path / "fresh.key"
    (fresh / "keys").mkdir(parents=True)
    (fresh / "keys" / "admin.key").write_text("another")
    backup.restore(fresh, fresh_key, saved)
    assert read_jobs(fresh) == ["job_1"]
    assert (fresh / "blobs/ab/abcd").read_bytes() == b"model"
    assert (fresh / "logs/att_1.log").read_text() == "epoch 1\n"
    assert (fresh / "keys/admin.key").read_text() == "rk_1"
    assert fresh_key.read_text() == "rk_worker"
    assert stat.S_IMODE(fresh_key.stat().st_mode) == 0o600
    assert sorted(path.name for path in fresh.iterdir()) == ["blobs", "keys", "logs", "redkiln.db"]


def test_saving_changes_nothing_and_leaves_no_files(state, worker_key):
    before = sorted(state.rglob("*"))
    save(state, worker_key)
    assert [path for path in sorted(state.rglob("*")) if path not in before] == []


def test_saving_works_while_another_process_writes(state, worker_key, tmp_path):
    with closing(sqlite3.connect(state / "redkiln.db")) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO jobs VALUES ('job_2')")
        saved = save(state, worker_key)
        writer.commit()
    (tmp_path / "fresh").mkdir()
    backup.restore(tmp_path / "fresh", tmp_path / "key", saved)
    assert read_jobs(tmp_path / "fresh") == ["job_1"]


def test_a_restore_never_overwrites(state, worker_key):
    saved = save(state, worker_key)
    with pytest.raises(backup.RefusedError, match="already has a database"):
        backup.restore(state, worker_key, saved)


@pytest.mark.parametrize("cut", [0, 700, 5000])
def test_an_incomplete_backup_changes_nothing(state, worker_key, tmp_path, cut):
    saved = save(state, worker_key).getvalue()[:cut]
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    with pytest.raises(backup.RefusedError):
        backup.restore(fresh, tmp_path / "key", io.BytesIO(saved))
    assert list(fresh.iterdir()) == []
    assert not (tmp_path / "key").exists()


@pytest.mark.parametrize(
    "member",
    [
        {"name": "../outside"},
        {"name": "/etc/passwd"},
        {"name": "state/../../outside"},
        {"name": "other"},
        {"name": "state/link", "type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
        {"name": "state/link", "type": tarfile.LNKTYPE, "linkname": "../outside"},
        {"name": "state/device", "type": tarfile.CHRTYPE},
    ],
)
def test_an_archive_with_other_files_is_refused(tmp_path, member):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo(member["name"])
        info.type, info.linkname = member.get("type", tarfile.REGTYPE), member.get("linkname", "")
        archive.addfile(info, io.BytesIO())
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    with pytest.raises(backup.RefusedError, match=f"it has '{member['name']}'"):
        backup.restore(fresh, tmp_path / "key", io.BytesIO(out.getvalue()))
    assert [path.name for path in tmp_path.iterdir()] == ["fresh"]
    assert list(fresh.iterdir()) == []


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("state/link", tarfile.LNKTYPE, "state/none")], "not a complete backup"),
        (
            [("state/a", tarfile.REGTYPE, ""), ("state/a/b", tarfile.REGTYPE, "")],
            "cannot be written to .*Nothing was changed",
        ),
    ],
)
def test_a_failed_restore_leaves_no_files(tmp_path, members, words):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info, io.BytesIO())
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    with pytest.raises(backup.RefusedError, match=words):
        backup.restore(fresh, tmp_path / "key", io.BytesIO(out.getvalue()))
    assert list(fresh.iterdir()) == []


def test_without_an_embedded_database_nothing_is_saved(tmp_path):
    with pytest.raises(backup.RefusedError, match="pg_dump"):
        backup.save(tmp_path, tmp_path / "key", io.BytesIO())
