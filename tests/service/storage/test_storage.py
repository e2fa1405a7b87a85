import asyncio
import errno
import hashlib
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from service.errors import DigestMismatch, Gone, StorageFull, TooLarge
from service.settings import Settings
from service.storage import (
    LocalStorage,
    ObjectStorage,
    Stored,
    build_storage,
    require_free,
)

CONTENT = b"red kiln " * 300_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OTHER = "0" * 64


@pytest.fixture(params=["local", "object"])
def storage(request, tmp_path):
    if request.param == "local":
        return LocalStorage(tmp_path / "blobs", tmp_path / "staging")
    return ObjectStorage(MemoryStore(), tmp_path / "staging")


def staged_files(storage):
    return list(storage.work_dir.iterdir())


async def pieces(content=CONTENT, size=65_536, fail_after=None):
    for start in range(0, len(content), size):
        if fail_after is not None and start >= fail_after:
            raise ConnectionResetError("client left")
        yield content[start : start + size]


def test_stored_bytes_can_be_read_back_whole_and_in_part(storage):
    assert storage.put([CONTENT[:1000], CONTENT[1000:]]) == Stored(SHA256, len(CONTENT))
    assert storage.stat(SHA256) == Stored(SHA256, len(CONTENT))
    assert b"".join(storage.open(SHA256)) == CONTENT
    assert b"".join(storage.open(SHA256, start=5, end=2_000_005)) == CONTENT[5:2_000_005]
    assert b"".join(storage.open(SHA256, start=2_699_990)) == CONTENT[2_699_990:]
    assert staged_files(storage) == []


def test_a_streamed_body_is_stored_and_leaves_no_staging_file(storage):
    assert asyncio.run(storage.put_stream(pieces())) == Stored(SHA256, len(CONTENT))
    assert b"".join(storage.open(SHA256)) == CONTENT
    assert staged_files(storage) == []


def test_an_empty_body_is_a_blob_too(storage):
    stored = asyncio.run(storage.put_stream(pieces(b"")))
    assert stored == Stored(hashlib.sha256(b"").hexdigest(), 0)
    assert b"".join(storage.open(stored.sha256)) == b""


def test_bytes_with_another_digest_are_refused_and_nothing_is_left(storage):
    with pytest.raises(DigestMismatch):
        storage.put([CONTENT], sha256=OTHER)
    with pytest.raises(DigestMismatch):
        asyncio.run(storage.put_stream(pieces(), sha256=OTHER))
    assert storage.stat(SHA256) is None
    assert list(storage.list_blobs()) == []
    assert staged_files(storage) == []


def test_bytes_over_the_limit_are_refused_and_nothing_is_left(storage):
    with pytest.raises(TooLarge):
        storage.put([CONTENT], limit=len(CONTENT) - 1)
    with pytest.raises(TooLarge):
        asyncio.run(storage.put_stream(pieces(), limit=len(CONTENT) - 1))
    assert staged_files(storage) == []
    assert storage.put([CONTENT], limit=len(CONTENT)).size_bytes == len(CONTENT)


def test_a_client_that_leaves_half_way_leaves_nothing_behind(storage):
    with pytest.raises(ConnectionResetError):
        asyncio.run(storage.put_stream(pieces(fail_after=2_500_000)))
    assert staged_files(storage) == []
    assert list(storage.list_blobs()) == []


def test_a_cancelled_upload_waits_for_its_thread_and_leaves_nothing(storage):
    async def upload():
        has_begun = asyncio.Event()

        async def endless():
            while True:
                yield CONTENT
                has_begun.set()
                await asyncio.sleep(0)

        task = asyncio.create_task(storage.put_stream(endless()))
        await has_begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The clean-up is shielded; it may end just after the task does.
        while staged_files(storage):  # noqa: ASYNC110  nothing tells
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(upload(), 10))
    assert list(storage.list_blobs()) == []


def test_deleting_may_be_repeated_and_makes_the_content_gone(storage):
    storage.put([CONTENT])
    storage.delete(SHA256)
    storage.delete(SHA256)
    assert storage.stat(SHA256) is None
    with pytest.raises(Gone):
        storage.open(SHA256)


def test_a_name_that_is_not_a_digest_is_never_a_path(storage):
    assert storage.stat("../../etc/passwd") is None
    assert storage.local_path("../../etc/passwd") is None


def test_storing_again_renews_the_age(storage):
    storage.put([CONTENT])
    path = storage.local_path(SHA256)
    if path is not None:
        os.utime(path, (1, 1))
    before = time.time() - 2
    storage.put([CONTENT])
    assert [blob.sha256 for blob in storage.list_blobs()] == [SHA256]
    assert next(storage.list_blobs()).modified_at >= before


def test_a_local_copy_is_a_file_with_the_content(storage):
    storage.put([CONTENT])
    with storage.local_copy(SHA256) as path:
        assert path.read_bytes() == CONTENT
    assert staged_files(storage) == []


def test_a_damaged_file_is_repaired_by_storing_it_again(tmp_path):
    storage = LocalStorage(tmp_path / "blobs", tmp_path / "staging")
    storage.put([CONTENT])
    storage.local_path(SHA256).write_bytes(b"short")
    storage.put([CONTENT])
    assert storage.local_path(SHA256).read_bytes() == CONTENT


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_full_disk_is_507_at_every_call_and_leaves_nothing(tmp_path, monkeypatch, call):
    storage = LocalStorage(tmp_path / "blobs", tmp_path / "staging")

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    if call == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    else:
        monkeypatch.setattr(f"service.storage.staged.os.{call}", fail)
    with pytest.raises(StorageFull):
        storage.put([CONTENT])
    with pytest.raises(StorageFull):
        asyncio.run(storage.put_stream(pieces()))
    assert staged_files(storage) == []
    assert list(storage.list_blobs()) == []


def test_a_failed_fsync_never_counts_as_stored(tmp_path, monkeypatch):
    storage = LocalStorage(tmp_path / "blobs", tmp_path / "staging")

    def fail(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("service.storage.staged.os.fsync", fail)
    with pytest.raises(OSError, match="Input/output"):
        storage.put([CONTENT])
    assert list(storage.list_blobs()) == []
    assert staged_files(storage) == []


def test_less_free_disk_than_the_reserve_is_507(tmp_path):
    storage = LocalStorage(tmp_path / "blobs", tmp_path / "staging", min_free_bytes=2**62)
    with pytest.raises(StorageFull, match="free"):
        storage.put([CONTENT])
    assert staged_files(storage) == []


def test_a_full_disk_reports_free_and_needed_bytes(tmp_path):
    words = r"has \d+\.\d\d GiB free but needs 4294967296\.00 GiB"
    with pytest.raises(StorageFull, match=words):
        require_free(tmp_path, 2**62)


def test_the_sweep_removes_what_killed_processes_left_and_nothing_of_living_ones(tmp_path):
    storage = LocalStorage(tmp_path / "blobs", tmp_path / "staging")
    own = storage.work_dir / "put-1"
    own.write_bytes(b"half")
    (tmp_path / "staging" / "put-of-an-older-version").write_bytes(b"half")
    other = multiprocessing.get_context("fork").Process(target=_store_half, args=(tmp_path,))
    other.start()
    while len(list(tmp_path.glob("staging/*/inspect-1/report.json"))) < 1:
        assert other.is_alive()
        time.sleep(0.01)
    assert storage.sweep_staging() == 1
    other.kill()
    other.join()
    assert storage.sweep_staging() == 1
    assert list(tmp_path.glob("staging/**/*")) == [storage.work_dir, own]


def _store_half(folder):
    """Start to store something in another process, which never ends by itself."""
    storage = LocalStorage(folder / "blobs", folder / "staging")
    work_dir = storage.work_dir / "inspect-1"
    work_dir.mkdir()
    (work_dir / "report.json").write_text("{}")
    signal.pause()


def test_files_are_readable_only_by_their_owner(tmp_path):
    storage = LocalStorage(tmp_path / "blobs", tmp_path / "staging")
    storage.put([CONTENT])
    path = storage.local_path(SHA256)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_settings_choose_the_storage(tmp_path):
    local = build_storage(Settings(state_dir=tmp_path))
    assert isinstance(local, LocalStorage)
    assert local.put([b"x"]).size_bytes == 1
    remote = build_storage(Settings(state_dir=tmp_path, storage_url="memory:///"))
    assert isinstance(remote, ObjectStorage)
    assert remote.put([b"x"]).size_bytes == 1
