import os
import time

import pytest

from worker.agent.backoff import Backoff
from worker.agent.workdir import FolderInUse, drop_old_jobs, load_worker_id, lock_worker_dir


def test_two_agents_cannot_share_a_folder(tmp_path):
    with lock_worker_dir(tmp_path), pytest.raises(FolderInUse, match="REDKILN_WORKER_DIR"):
        lock_worker_dir(tmp_path)
    lock_worker_dir(tmp_path).close()


def test_the_worker_id_is_kept(tmp_path):
    first = load_worker_id(tmp_path)
    assert first.startswith("wrk_")
    assert load_worker_id(tmp_path) == first


def test_only_old_job_folders_are_dropped(tmp_path):
    for name, age in (("att_old", 100), ("att_new", 0)):
        (tmp_path / name).mkdir()
        now = (tmp_path / name).stat().st_mtime
        os.utime(tmp_path / name, (now - age, now - age))
    drop_old_jobs(tmp_path, max_age_seconds=50)
    assert [path.name for path in tmp_path.iterdir()] == ["att_new"]


def test_of_many_job_folders_the_newest_are_kept(tmp_path):
    for age in range(6):
        folder = tmp_path / f"att_{age}"
        folder.mkdir()
        at = time.time() - age
        os.utime(folder, (at, at))
    drop_old_jobs(tmp_path, max_age_seconds=50)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["att_0", "att_1", "att_2"]


def test_pauses_double_up_to_the_cap_and_reset():
    backoff = Backoff(first_seconds=1, cap_seconds=4)
    pauses = [backoff.next_seconds() for _ in range(5)]
    for pause, step in zip(pauses, (1, 2, 4, 4, 4), strict=True):
        assert step / 2 <= pause <= step
    backoff.reset()
    assert backoff.next_seconds() <= 1
