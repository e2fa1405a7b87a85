"""What `--fix` would do about a report, and that it does just that."""

import errno
import fcntl
import os
from dataclasses import replace

import pytest

from tests.worker.hardware.doctor.made_machine import (
    CACHE,
    HEALTHY,
    KFD,
    TWO_CARDS,
    failed_result,
    self_test,
)
from worker.hardware.doctor.cures.cures import find_cures, find_stale_locks
from worker.hardware.doctor.evidence import KernelDatabase
from worker.hardware.doctor.examine import examine

OUTSIDE = replace(HEALTHY, is_container=False)
LATER = 4e9
"""Seconds since 1970 at which every lock of a test is old."""


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    return tmp_path


WRONG_BLAS = self_test(status="failed", results=[failed_result(library="hipblaslt")])


def cures(checkout, evidence=OUTSIDE, caches=(), now=LATER):
    report = examine(evidence)
    return find_cures(evidence, report, source_dir=checkout, cache_dirs=caches, now=now)


def test_a_healthy_machine_has_no_cures(checkout):
    assert cures(checkout) == []


def test_a_missing_group_is_written_and_the_rest_is_kept(checkout):
    settings = checkout / ".env"
    settings.write_text("REDKILN_BIND=127.0.0.1:8321\nREDKILN_GPU_GROUP=7\n")
    (cure,) = cures(checkout, replace(OUTSIDE, kfd=replace(KFD, error=errno.EACCES)))
    cure.apply()
    assert settings.read_text() == "REDKILN_BIND=127.0.0.1:8321\nREDKILN_GPU_GROUP=992\n"
    assert "REDKILN_GPU_GROUP=7" in (checkout / ".env.bak").read_text()
    assert (cure.row, cure.afterwards) == (4, "docker compose up --detach worker")


def test_damaged_databases_are_deleted(checkout, tmp_path):
    path = tmp_path / "a.ukdb"
    path.write_text("damaged")
    broken = replace(CACHE, databases=(KernelDatabase(str(path), "disk image is malformed"),))
    (cure,) = cures(checkout, replace(OUTSIDE, caches=(broken,)))
    cure.apply()
    assert not path.exists()
    assert cure.row == 14


def test_an_override_is_removed_from_the_settings_that_have_it(checkout):
    settings = checkout / "worker.env"
    settings.write_text("HSA_OVERRIDE_GFX_VERSION=10.3.0\nOTHER=1\n")
    evil = replace(OUTSIDE, environment={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
    (cure,) = cures(checkout, evil)
    cure.apply()
    assert settings.read_text() == "OTHER=1\n"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (TWO_CARDS, "NCCL_P2P_DISABLE=1"),
        (
            {"self_tests": (WRONG_BLAS,)},
            "ROCBLAS_USE_HIPBLASLT=0",
        ),
    ],
)  # fmt: skip
def test_variables_are_set_for_the_worker(checkout, changes, line):
    (cure,) = cures(checkout, replace(OUTSIDE, **changes))
    cure.apply()
    assert line in (checkout / "worker.env").read_text().splitlines()


def test_only_old_locks_that_nobody_holds_are_stale(tmp_path):
    left, held, young = (tmp_path / name for name in ("a/lock", "b.lock", "c.lock"))
    for path in (left, held, young):
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    os.utime(left, (0, 0))
    os.utime(held, (0, 0))
    now = young.stat().st_mtime
    with held.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert find_stale_locks([tmp_path, tmp_path / "absent"], now=now) == [left]


def test_a_stale_lock_is_deleted(checkout, tmp_path):
    lock = tmp_path / "cache/x.lock"
    lock.parent.mkdir()
    lock.write_text("")
    (cure,) = cures(checkout, caches=[lock.parent])
    cure.apply()
    assert not lock.exists()


def test_in_a_container_no_settings_are_edited(checkout):
    evidence = replace(HEALTHY, kfd=replace(KFD, error=errno.EACCES))
    assert cures(checkout, evidence) == []
