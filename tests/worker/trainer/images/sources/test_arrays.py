import gzip
import hashlib
import io
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from redkiln.datasets import DatasetIndex, Sample
from redkiln.failure import FailureCode
from redkiln.predict.pixels import PixelFormat
from worker.process.failed import TrainingFailed
from worker.trainer.images.decode.decoded_set import open_decoded
from worker.trainer.images.sources.sources import ArrayRows

GREY = np.random.default_rng(0).integers(0, 256, (9, 6, 6), dtype=np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (9, 6, 6, 3), dtype=np.uint8)


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


def npz(pack=np.savez_compressed, **arrays):
    buffer = io.BytesIO()
    pack(buffer, **arrays)
    return buffer.getvalue()


def index_of(*, train, test, channels, array=None, sha256=None):
    def samples(path, rows):
        return [
            Sample(path=path, row=row, array=array, label=row % 2, rank=row // 2, sha256=sha256)
            for row in rows
        ]

    return DatasetIndex(
        classes=["a", "b"],
        splits={"train": samples(train, range(6)), "test": samples(test, range(6, 9))},
        image_size=(6, 6),
        mixed_sizes=False,
        channels=channels,
        seed=0,
    )


@pytest.fixture
def opened(tmp_path):
    def open_set(path, index, *, budget_bytes=2**30):
        index_path = tmp_path / "index.json"
        index_path.write_text(index.model_dump_json())
        decoded = open_decoded(
            path,
            index_path,
            index,
            fingerprint=path.name,
            pixel_format=PixelFormat(size=6, channels=index.channels, resize="stretch"),
            cache_dir=tmp_path / "cache",
            on_progress=lambda _done, _total: None,
            budget_bytes=budget_bytes,
        )
        return decoded.images[np.arange(9)]

    return open_set


@pytest.mark.parametrize("budget_bytes", [2**30, 0], ids=["stored", "packed"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "folder"])
def test_rows_of_an_idx_file_are_images(opened, tmp_path, kind, packed, budget_bytes):
    content = gzip.compress(idx(GREY), mtime=0) if packed else idx(GREY)
    path = tmp_path / f"data.{kind}"
    sha256 = None
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("raw/images", content)
    elif kind == "folder":
        (path / "raw").mkdir(parents=True)
        (path / "raw/images").write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
    else:
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as archive:
            member = tarfile.TarInfo("./raw/images")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    index = index_of(train="raw/images", test="raw/images", channels=1, sha256=sha256)
    assert np.array_equal(opened(path, index, budget_bytes=budget_bytes)[..., 0], GREY)


def test_an_npz_is_read_as_an_archive(opened, tmp_path):
    (tmp_path / "data").write_bytes(npz(x_train=COLOUR, x_test=COLOUR))
    index = index_of(train="x_train.npy", test="x_test.npy", channels=3)
    assert np.array_equal(opened(tmp_path / "data", index), COLOUR)


@pytest.mark.parametrize("pack", [np.savez, np.savez_compressed])
def test_an_npz_in_an_archive_is_read_too(opened, tmp_path, pack):
    with zipfile.ZipFile(tmp_path / "data", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("my.npz", npz(pack, pixels=COLOUR[..., :1]))
    index = index_of(train="my.npz", test="my.npz", channels=1, array="pixels.npy")
    assert np.array_equal(opened(tmp_path / "data", index), COLOUR[..., :1])


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (idx(GREY)[:-1], FailureCode.BAD_INPUT, "truncated"),
        (idx(GREY[:7]), FailureCode.DATASET_UNAVAILABLE, "row 7 does not exist"),
        (b"\0\0\x0d\x03" + bytes(20), FailureCode.BAD_INPUT, "elements have type"),
        (b"garbage", FailureCode.BAD_INPUT, "is damaged"),
        (gzip.compress(idx(GREY), mtime=0)[:-9], FailureCode.BAD_INPUT, "is damaged"),
        (None, FailureCode.DATASET_UNAVAILABLE, "no longer exists"),
    ],
)
def test_an_error_names_an_array_that_changed(opened, tmp_path, content, code, words):
    with zipfile.ZipFile(tmp_path / "data", "w") as archive:
        archive.writestr("images" if content else "other", content or b"")
    index = index_of(train="images", test="images", channels=1)
    with pytest.raises(TrainingFailed, match=words) as caught:
        opened(tmp_path / "data", index)
    assert caught.value.failure.code is code
    assert "images" in caught.value.failure.message


def test_a_file_of_a_folder_that_changed_is_refused(opened, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/images").write_bytes(idx(GREY))
    index = index_of(train="images", test="images", channels=1, sha256="0" * 64)
    with pytest.raises(TrainingFailed, match="changed since it was registered"):
        opened(tmp_path / "data", index)


@pytest.mark.parametrize("shape", [(40, 6, 5), (40, 6, 5, 3)])
def test_rows_are_read_and_not_mapped(tmp_path, shape):
    path = tmp_path / "images.npy"
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.save(path, images)
    rows = ArrayRows(path)
    assert len(rows) == 40
    assert all(np.array_equal(rows[row], images[row]) for row in (0, 7, 39))
    assert str(path) not in Path("/proc/self/maps").read_text()
    with pytest.raises(IndexError):
        rows[40]
    rows.close()
