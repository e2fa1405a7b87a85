import gzip
import hashlib
import io
import os
import tarfile
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from redkiln.failure import FailureCode
from redkiln.predict.pixels import PixelFormat
from worker.process.failed import TrainingFailed
from worker.trainer.images.decode import decoded_set, together
from worker.trainer.images.decode.decoded_set import open_decoded
from worker.trainer.images.decode.room import DISK_RESERVE_BYTES

FORMAT = PixelFormat(size=12, channels=3, resize="stretch")
ONE_SET = 78 * 12 * 12 * 3


def write_zip(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def write_tar(path, files):
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_folder(path, files):
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)


@pytest.fixture
def opened(tmp_path, make_index):
    """Opens files as a data set of some kind; counts the rows that had to be decoded."""

    def open_files(
        files,
        *,
        name="data.zip",
        pixel_format=FORMAT,
        hashed=False,
        index=None,
        cache="cache",
        **options,
    ):
        path = tmp_path / name
        writer = {".zip": write_zip, ".tar": write_tar, ".gz": write_tar, "": write_folder}
        if not path.exists():
            writer[path.suffix](path, files)
        sha256 = {k: hashlib.sha256(v).hexdigest() for k, v in files.items()} if hashed else None
        index = index or make_index(files, sha256=sha256)
        index_path = tmp_path / "index.json"
        index_path.write_text(index.model_dump_json())
        decoded_rows = []
        result = open_decoded(
            path,
            index_path,
            index,
            fingerprint=name,
            pixel_format=pixel_format,
            cache_dir=tmp_path / cache,
            on_progress=lambda done, _total: decoded_rows.append(done),
            **options,
        )
        return result, decoded_rows

    return open_files


def pixels_of(content):
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


@pytest.mark.parametrize("name", ["data.zip", "data.tar", "data.tar.gz", "folder"])
def test_every_kind_of_source_gives_the_same_rows_in_the_index_order(opened, files, name):
    content = files()
    result, _ = opened(content, name=name, hashed=name == "folder")
    order = sorted(n for n in content if n.startswith("train/"))
    order += sorted(n for n in content if n.startswith("test/"))
    expected = np.stack([pixels_of(content[n]) for n in order])
    assert np.array_equal(result.images, expected)


def test_mean_and_deviation_are_computed_from_the_training_images(opened, files):
    result, _ = opened(files())
    train = result.images[:60].astype(np.float64) / 255
    assert result.facts.mean == pytest.approx(train.mean(axis=(0, 1, 2)))
    assert result.facts.std == pytest.approx(train.std(axis=(0, 1, 2)))


def test_a_decoded_set_is_not_decoded_again(opened, files, monkeypatch):
    first, _ = opened(files(train=200))
    monkeypatch.setattr(decoded_set, "decode_together", None)
    second, rows = opened(files(train=200))
    assert rows == []
    assert np.array_equal(first.images, second.images)


@pytest.mark.parametrize("with_helpers", [False, True])
@pytest.mark.parametrize(
    ("damage", "code", "words"),
    [
        ("remove", FailureCode.DATASET_UNAVAILABLE, "no longer exist"),
        ("change", FailureCode.BAD_INPUT, "changed since it was registered"),
    ],
)
def test_an_error_names_a_file_that_is_missing_or_changed(
    opened, files, tmp_path, monkeypatch, damage, code, words, with_helpers
):
    if with_helpers:
        for constant, value in (("ROWS_A_HELPER", 20), ("HELPER_SECONDS", 0), ("TELL_SECONDS", 0)):
            monkeypatch.setattr(together, constant, value)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    content = files()
    name = "train/rows/003.png"
    write_folder(tmp_path / "folder", content)
    if damage == "remove":
        (tmp_path / "folder" / name).unlink()
    else:
        (tmp_path / "folder" / name).write_bytes(content["train/rows/004.png"])
    with pytest.raises(TrainingFailed, match=words) as caught:
        opened(content, name="folder", hashed=True)
    assert caught.value.failure.code is code
    assert name in caught.value.failure.message
    assert list((tmp_path / "cache" / "decoded").iterdir()) == []


def test_an_error_names_a_file_that_is_not_an_image(opened, files):
    content = files() | {"train/dots/000.png": files()["train/dots/000.png"][:60]}
    with pytest.raises(TrainingFailed, match=r"train/dots/000\.png") as caught:
        opened(content)
    assert caught.value.failure.code is FailureCode.BAD_INPUT


def test_an_error_names_a_member_missing_from_the_archive(opened, files, make_index):
    content = files()
    index = make_index([*content, "train/bars/999.png"])
    with pytest.raises(TrainingFailed, match=r"train/bars/999\.png") as caught:
        opened(content, index=index)
    assert caught.value.failure.code is FailureCode.DATASET_UNAVAILABLE


def test_a_missing_archive_is_unavailable(files, tmp_path, make_index):
    index_path = tmp_path / "index.json"
    index_path.write_text(make_index(files()).model_dump_json())
    with pytest.raises(TrainingFailed, match=r"data\.zip") as caught:
        open_decoded(
            tmp_path / "data.zip",
            index_path,
            make_index(files()),
            fingerprint="f",
            pixel_format=FORMAT,
            cache_dir=tmp_path / "cache",
            on_progress=print,
        )
    assert caught.value.failure.code is FailureCode.DATASET_UNAVAILABLE


def test_a_truncated_gzip_is_bad_input(opened, files, tmp_path):
    write_tar(tmp_path / "whole.tar", files())
    packed = gzip.compress((tmp_path / "whole.tar").read_bytes())
    (tmp_path / "data.tar.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(TrainingFailed, match="archive is broken"):
        opened(files(), name="data.tar.gz")


def test_two_jobs_may_decode_the_same_set_at_once(files, tmp_path, make_index):
    content = files()
    index_path = tmp_path / "index.json"
    write_zip(tmp_path / "data.zip", content)
    index_path.write_text(make_index(content).model_dump_json())
    all_decoded = threading.Barrier(3)  # none publishes before all have decoded
    waited = threading.local()

    def wait_at_the_end(done, total):
        if done == total and not hasattr(waited, "once"):
            waited.once = True
            all_decoded.wait(timeout=60)

    def open_set(_number):
        return open_decoded(
            tmp_path / "data.zip",
            index_path,
            make_index(content),
            fingerprint="f",
            pixel_format=FORMAT,
            cache_dir=tmp_path / "cache",
            on_progress=wait_at_the_end,
        )

    with ThreadPoolExecutor(3) as threads:
        results = list(threads.map(open_set, range(3)))
    assert all(np.array_equal(r.images, results[0].images) for r in results)
    assert len(list((tmp_path / "cache" / "decoded").iterdir())) == 1


def test_the_least_recently_used_sets_make_room(opened, files, tmp_path):
    content = files()
    budget_bytes = int(2.5 * ONE_SET)
    for number, name in enumerate(("a.zip", "b.zip", "c.zip")):
        opened(content, name=name, budget_bytes=budget_bytes)
        for folder in (tmp_path / "cache" / "decoded").iterdir():
            times = folder.stat().st_mtime - 100
            os.utime(folder, (times, times))
        assert len(list((tmp_path / "cache" / "decoded").iterdir())) == min(number + 1, 2)
    assert opened(content, name="c.zip", budget_bytes=budget_bytes)[1] == []


def test_a_set_that_is_being_read_is_not_removed_to_make_room(opened, files, tmp_path):
    content = files()
    read, _ = opened(content, name="a.zip", budget_bytes=ONE_SET)
    opened(content, name="b.zip", budget_bytes=ONE_SET)
    with closing(read.open_rows()) as rows:
        rows.read([0], np.empty((1, *FORMAT.shape), dtype=np.uint8))
    assert len(list((tmp_path / "cache" / "decoded").iterdir())) == 2
    del read, rows
    opened(content, name="c.zip", budget_bytes=ONE_SET)
    assert len(list((tmp_path / "cache" / "decoded").iterdir())) == 1


def test_sets_being_read_do_not_count_as_removable_on_a_full_disk(
    opened, files, tmp_path, monkeypatch
):
    content = files()
    read, _ = opened(content, name="a.zip")
    usage = SimpleNamespace(free=DISK_RESERVE_BYTES + ONE_SET // 2)
    monkeypatch.setattr(decoded_set.shutil, "disk_usage", lambda _path: usage)
    assert not opened(content, name="b.zip")[0].is_stored
    del read
    assert opened(content, name="c.zip")[0].is_stored


def test_images_of_a_packed_set_are_read_by_the_same_processes(opened, files, monkeypatch):
    packed, _ = opened(files(), budget_bytes=ONE_SET - 1)
    started = []
    start = decoded_set.DecodingRows._start

    def count(*arguments):
        started.append(arguments)
        return start(*arguments)

    monkeypatch.setattr(decoded_set.DecodingRows, "_start", count)
    for row in range(3):
        packed.images[np.array([row])]
        with closing(packed.open_rows()) as rows:
            rows.read([row], np.empty((1, *FORMAT.shape), dtype=np.uint8))
    reader = packed.images._reader
    del rows
    # Those that the facts were measured with.
    assert started == []
    assert reader._children
    assert all(child.poll() is None for child in reader._children)
    del packed
    assert all(child.returncode is not None for child in reader._children)


def test_a_set_too_large_for_the_disk_stays_packed(opened, files, tmp_path):
    content = files()
    stored, _ = opened(content)
    packed, rows = opened(content, budget_bytes=ONE_SET - 1, cache="other")
    assert packed.images.shape == stored.images.shape
    assert np.array_equal(packed.images[np.array([77, 0, 3])], stored.images[[77, 0, 3]])
    assert packed.facts.mean == stored.facts.mean
    assert packed.facts.std == stored.facts.std
    assert rows[-1] == 60
    (folder,) = (tmp_path / "other" / "decoded").iterdir()
    assert [path.name for path in folder.iterdir()] == ["facts.json"]
    again, rows = opened(content, budget_bytes=ONE_SET - 1, cache="other")
    assert rows == []
    assert again.facts == packed.facts


def test_a_gzipped_tar_that_stays_packed_is_inflated_once(opened, files, tmp_path):
    content = files()
    packed, _ = opened(content, name="data.tar.gz", budget_bytes=0)
    stored, _ = opened(content, name="data.tar.gz", cache="other")
    assert np.array_equal(packed.images[np.arange(78)], stored.images)
    (folder,) = (tmp_path / "cache" / "decoded").iterdir()
    assert {path.name for path in folder.iterdir()} == {"facts.json", "unpacked"}


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "not an image"), (None, "no longer exist"), (b"\x89PNG\r\n\x1a\n", "not an image")],
)
def test_an_error_names_an_image_damaged_during_training(opened, files, tmp_path, content, words):
    packed, _ = opened(files(), name="folder", budget_bytes=0)
    path = tmp_path / "folder" / "test/dots/001.png"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(TrainingFailed, match=words) as caught:
        packed.images[np.arange(60, 78)]
    assert "test/dots/001.png" in caught.value.failure.message


def test_threads_reading_a_packed_set_at_once_each_get_their_rows(opened, files):
    content = files()
    stored, _ = opened(content)
    packed, _ = opened(content, budget_bytes=ONE_SET - 1, cache="other")
    wanted = np.asarray(stored.images).transpose(0, 3, 1, 2)

    def read(first):
        rows = list(range(first, 78, 3))
        out = np.empty((len(rows), *FORMAT.shape), dtype=np.uint8)
        with closing(packed.open_rows()) as reader:
            for _ in range(10):
                reader.read(rows, out)
                assert np.array_equal(out, wanted[rows])
        return len(rows)

    with ThreadPoolExecutor(3) as threads:
        assert sum(threads.map(read, range(3))) == 78
