import hashlib
import io
import os
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from redkiln.datasets import DatasetIndex, Sample
from redkiln.failure import FailureCode
from redkiln.protocol import ClaimResponse, DatasetRef
from worker.agent.client import ServiceClient
from worker.agent.data.cache import DatasetCache
from worker.agent.data.datasets import DatasetMissing, DatasetSource
from worker.agent.data.folders import find_difference, unpack_samples
from worker.agent.data.transfer import WrongDigest
from worker.agent.stopping import Stopped, StopReason, StopSignal

FILES = {f"train/{label}/{n}.png": f"{label}{n}".encode() * 1000 for label in "ab" for n in "12"}


def digest(content):
    return hashlib.sha256(content).hexdigest()


def index_of(files):
    samples = [
        Sample(path=path, label=0, rank=rank, sha256=digest(content))
        for rank, (path, content) in enumerate(files.items())
    ]
    return DatasetIndex(
        classes=["a", "b"],
        splits={"train": samples[1:], "test": samples[:1]},
        image_size=(8, 8),
        mixed_sizes=False,
        channels=1,
        seed=0,
    )


def tar_of(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def write(folder, files):
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


@pytest.fixture
def stop():
    signal = StopSignal()
    yield signal
    signal.close()


@pytest.fixture
def said():
    return []


@pytest.fixture
def source(service, tmp_path, stop, said):
    service.add_job()
    client = ServiceClient(service.url, load_key=lambda: "unused")
    claim = ClaimResponse.model_validate(service.waiting[0])
    cache = DatasetCache(tmp_path / "cache", budget_bytes=10**6)
    (tmp_path / "cache").mkdir()
    yield DatasetSource(client.attempt(claim), cache, stop, said.append)
    client.close()


@pytest.fixture
def archive(service):
    service.dataset = os.urandom(300_000)
    service.index = index_of(FILES).model_dump_json().encode()
    return DatasetRef(
        id="ds_1",
        name="flowers",
        kind="archive",
        sha256=digest(service.dataset),
        size_bytes=len(service.dataset),
        index_sha256=digest(service.index),
    )


@pytest.fixture
def folder_ref(service):
    service.dataset = tar_of(FILES)
    service.index = index_of(FILES).model_dump_json().encode()
    sha256 = digest(service.index)
    return DatasetRef(id="ds_2", name="f", kind="folder", sha256=sha256, index_sha256=sha256)


def open_it(source, ref, **options):
    with ExitStack() as until:
        return source.open(ref, until=until, **options)


def test_a_built_in_set_needs_nothing(source):
    dataset = open_it(source, DatasetRef(id="builtin:digits", name="digits", kind="builtin"))
    assert (dataset.kind, dataset.path) == ("builtin", None)


def test_the_warnings_of_a_data_set_go_with_it(source, archive):
    ref = archive.model_copy(
        update={
            "warnings": ["two copies", "a leak"],
            "leaks": ["a leak"],
            "num_copies": 2,
            "num_repeated": 3,
        }
    )
    dataset = open_it(source, ref)
    assert (dataset.warnings, dataset.leaks) == (["two copies", "a leak"], ["a leak"])
    assert (dataset.num_copies, dataset.num_repeated) == (2, 3)


def test_an_archive_is_fetched_once(source, archive, service, said):
    first = open_it(source, archive)
    assert Path(first.path).read_bytes() == service.dataset
    assert Path(first.index_path).read_bytes() == service.index
    service.dataset = service.index = b"gone"
    assert open_it(source, archive) == first
    assert said == ["fetching data set flowers (0.3 MB)"]


def test_a_small_archive_has_its_size_in_kilobytes(source, archive, service, said):
    ref = archive.model_copy(update={"size_bytes": 29_638})
    open_it(source, ref)
    assert said[0] == "fetching data set flowers (29.6 kB)"


def test_an_interrupted_download_resumes(source, archive, service):
    service.cut_dataset_at = 100_000
    dataset = open_it(source, archive)
    assert Path(dataset.path).read_bytes() == service.dataset
    assert service.ranges == ["bytes=100000-"]


def test_a_complete_part_is_only_verified(source, archive, service, tmp_path):
    key = hashlib.sha256(f"{archive.sha256} {archive.index_sha256}".encode()).hexdigest()
    partial = tmp_path / "cache" / f"{key}.partial"
    partial.mkdir()
    (partial / "data").write_bytes(service.dataset)
    assert Path(open_it(source, archive).path).read_bytes() == service.dataset


def test_a_damaged_part_is_fetched_again(source, archive, service, tmp_path):
    key = hashlib.sha256(f"{archive.sha256} {archive.index_sha256}".encode()).hexdigest()
    partial = tmp_path / "cache" / f"{key}.partial"
    partial.mkdir()
    (partial / "data").write_bytes(b"x" * 1000)
    assert Path(open_it(source, archive).path).read_bytes() == service.dataset


def test_bytes_with_a_wrong_digest_are_rejected(source, archive, service):
    service.dataset = b"something else"
    with pytest.raises(DatasetMissing) as caught:
        open_it(source, archive)
    assert caught.value.failure.code == FailureCode.DATASET_UNAVAILABLE


def test_a_set_larger_than_the_cache_says_which_setting_to_raise(source, archive):
    large = archive.model_copy(update={"size_bytes": 10**7})
    with pytest.raises(DatasetMissing, match="REDKILN_CACHE_BYTES") as caught:
        open_it(source, large)
    assert caught.value.failure.code == FailureCode.DISK_FULL


def test_a_cancel_ends_a_wait_for_the_service(source, archive, service, stop):
    service.is_away = True
    stop.request(StopReason.CANCELLED)
    with pytest.raises(Stopped):
        open_it(source, archive)


def test_a_cancel_ends_a_wait_for_the_download_of_another_attempt(source, archive, stop):
    within, done = threading.Event(), threading.Event()

    def fill(_folder):
        within.set()
        done.wait(timeout=60)
        raise OSError("given up")

    def fetch_too():
        key = hashlib.sha256(f"{archive.sha256} {archive.index_sha256}".encode()).hexdigest()
        with (
            pytest.raises(OSError, match="given up"),
            source.cache.hold(key, size_bytes=0, fill=fill),
        ):
            pass

    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(fetch_too)
        try:
            assert within.wait(timeout=60)
            threading.Timer(0.1, stop.request, [StopReason.CANCELLED]).start()
            with pytest.raises(Stopped):
                open_it(source, archive)
            assert not other.done()
        finally:
            done.set()
        other.result()


def in_place(ref, folder):
    return ref.model_copy(update={"path": str(folder), "root": str(folder.parent)})


def test_a_mounted_folder_is_used_in_place(source, folder_ref, tmp_path):
    folder = write(tmp_path / "images", FILES)
    dataset = open_it(source, in_place(folder_ref, folder))
    assert dataset.path == str(folder)


def test_a_folder_that_is_not_mounted_is_fetched_and_checked(source, folder_ref):
    dataset = open_it(source, folder_ref.model_copy(update={"path": "/not/here"}))
    found = {
        str(path.relative_to(dataset.path)): path.read_bytes()
        for path in Path(dataset.path).rglob("*.png")
    }
    assert found == FILES


def test_a_changed_folder_is_reported_and_fetched_from_the_service(
    source, folder_ref, tmp_path, said
):
    folder = write(tmp_path / "images", FILES)
    (folder / "train/a/1.png").write_bytes(b"other")
    dataset = open_it(source, in_place(folder_ref, folder))
    assert dataset.path != str(folder)
    assert "train/a/1.png: its content changed" in said[0]


def test_a_folder_that_changed_at_its_source_is_unavailable(source, folder_ref, service):
    service.dataset = tar_of({**FILES, "train/a/1.png": b"other"})
    with pytest.raises(DatasetMissing, match="changed since it was registered"):
        open_it(source, folder_ref)


def test_a_folder_is_hashed_again_only_when_a_file_was_touched(tmp_path, stop, monkeypatch):
    folder = write(tmp_path / "images", FILES)
    samples = [s for split in index_of(FILES).splits.values() for s in split]
    hashed = []
    from worker.agent.data import folders

    open_file = folders.open_beneath
    monkeypatch.setattr(
        folders, "open_beneath", lambda root, name: hashed.append(name) or open_file(root, name)
    )

    def difference():
        return find_difference(folder, samples, stamp_path=tmp_path / "stamp.json", stop=stop)

    assert difference() is None
    assert difference() is None
    assert len(hashed) == len(FILES)
    (folder / "train/b/2.png").write_bytes(FILES["train/b/2.png"][::-1])
    assert difference() == "train/b/2.png: its content changed"
    (folder / "train/b/2.png").unlink()
    assert difference() == "train/b/2.png: No such file or directory"


@pytest.mark.parametrize("path", ["../outside.png", "/tmp/outside.png"])
def test_a_tar_writes_only_below_its_folder(tmp_path, stop, path):
    samples = [Sample(path=path, label=0, rank=0, sha256=digest(b"x"))]
    with pytest.raises(WrongDigest, match="is missing"):
        unpack_samples(iter([tar_of({path: b"x"})]), tmp_path / "in", samples, stop=stop)
    assert not (tmp_path / "in").exists()


def test_only_the_parsed_file_of_a_table_is_fetched(source, service, tmp_path):
    service.dataset, service.index = b"a,b\n1,2\n", os.urandom(200_000)
    ref = DatasetRef(
        id="ds_3",
        name="houses",
        kind="folder",
        path="/not/mounted/here",
        task="tabular-regression",
        sha256=digest(service.index),
        index_sha256=digest(service.index),
        index_bytes=len(service.index),
    )
    table = open_it(source, ref)
    assert Path(table.index_path).read_bytes() == service.index
    assert (table.path, table.fingerprint) == (None, ref.index_sha256)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [ref.index_sha256]


def test_a_table_larger_than_the_cache_is_refused_before_it_is_fetched(source, service):
    service.index = b"x"
    ref = DatasetRef(
        id="ds_4",
        name="huge",
        kind="archive",
        task="text-classification",
        index_sha256=digest(service.index),
        index_bytes=10**7,
    )
    with pytest.raises(DatasetMissing) as missing:
        open_it(source, ref)
    assert missing.value.failure.code is FailureCode.DISK_FULL


def table_ref(service, **fields):
    service.dataset, service.index = b"a,b\n1,2\n", b"PAR1"
    known = {"id": "ds_5", "name": "houses", "task": "tabular-regression"}
    return DatasetRef(**known, index_sha256=digest(service.index), index_bytes=4, **fields)


def test_a_script_gets_a_table_as_it_was_uploaded(source, service):
    ref = table_ref(service, kind="archive", sha256=digest(b"a,b\n1,2\n"), size_bytes=8)
    table = open_it(source, ref, as_sent=True)
    assert Path(table.path).name == "data.csv"
    assert Path(table.path).read_bytes() == service.dataset
    service.dataset = b"gone"
    assert open_it(source, ref, as_sent=True) == table
    assert Path(open_it(source, ref).index_path).read_bytes() == b"PAR1", "a trainer's is another"


def test_a_script_gets_a_tables_folder_if_it_exists_on_this_host(source, service, tmp_path, said):
    ref = table_ref(service, kind="folder", path=str(tmp_path), root=str(tmp_path))
    assert open_it(source, ref, as_sent=True).path == str(tmp_path)
    away = table_ref(service, kind="folder", path="/not/here", root="/not")
    table = open_it(source, away, as_sent=True)
    assert (table.path, Path(table.index_path).name) == (None, "table.parquet")
    assert "/not/here does not exist on this worker" in said[0]


def test_a_script_gets_the_parsed_table_if_its_folder_has_changed(source, service, tmp_path, said):
    (tmp_path / "houses.csv").write_text("a,b\n1,2\n")
    known = {"kind": "folder", "path": str(tmp_path), "root": str(tmp_path)}
    table = open_it(source, table_ref(service, **known, stamp="of other files"), as_sent=True)
    assert (table.path, Path(table.index_path).name) == (None, "table.parquet")
    assert "has changed since it was registered" in said[0]
