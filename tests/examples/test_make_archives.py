"""The archives of the recipes, from small files in the formats that the sets are published in."""

import gzip
import io
import sys
import tarfile
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from examples.datasets import make_archives
from examples.datasets.make_archives import read_cifar10, read_digits, read_mnist, write_archive

LABELS = np.array([7, 1, 7, 7], np.uint8)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(make_archives, "NUM_IN_CLASS", {"train": 2, "test": 1})


def write_idx(path, array):
    sizes = np.array(array.shape, ">i4").tobytes()
    path.write_bytes(gzip.compress(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()))


def open_png(archive, name):
    return np.asarray(Image.open(io.BytesIO(archive.read(name))))


def test_mnist_keeps_the_first_images_of_each_class(tmp_path, few):
    pixels = np.arange(4 * 28 * 28, dtype=np.uint32).reshape(4, 28, 28).astype(np.uint8)
    for prefix in ("train", "t10k"):
        write_idx(tmp_path / f"{prefix}-images-idx3-ubyte.gz", pixels)
        write_idx(tmp_path / f"{prefix}-labels-idx1-ubyte.gz", LABELS)
    totals = write_archive(read_mnist(tmp_path), tmp_path / "mnist.zip")
    assert totals == {"train": 3, "test": 2}
    with zipfile.ZipFile(tmp_path / "mnist.zip") as archive:
        assert sorted(archive.namelist()) == [
            "test/1/0000.png", "test/7/0000.png",
            "train/1/0000.png", "train/7/0000.png", "train/7/0001.png",
        ]  # fmt: skip
        assert (open_png(archive, "train/7/0001.png") == pixels[2]).all()


def test_a_file_that_is_not_idx_is_named(tmp_path):
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", LABELS)
    with pytest.raises(SystemExit, match=r"train-images-idx3-ubyte\.gz is not an IDX file"):
        next(read_mnist(tmp_path))


def test_cifar10_has_colours_and_names(tmp_path, few):
    rows = np.random.default_rng(0).integers(0, 256, (2, 3073), np.uint8)
    rows[:, 0] = [1, 0]
    path = tmp_path / "cifar-10-binary.tar.gz"
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    with tarfile.open(path, "w:gz") as archive:
        for name in ["batches.meta.txt", *names]:
            content = b"airplane\nautomobile\n\n" if name.endswith("txt") else rows.tobytes()
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    assert write_archive(read_cifar10(path), tmp_path / "cifar.zip") == {"train": 4, "test": 2}
    with zipfile.ZipFile(tmp_path / "cifar.zip") as archive:
        image = open_png(archive, "test/automobile/0000.png")
    assert (image[3, 4] == rows[0, 1:].reshape(3, 32, 32)[:, 3, 4]).all()


def test_the_stand_in_for_mnist_has_its_shape_and_range(tmp_path, monkeypatch):
    found = SimpleNamespace(images=np.full((6, 8, 8), 16.0), target=np.array([3, 3, 3, 3, 3, 4]))
    monkeypatch.setitem(sys.modules, "sklearn.datasets", SimpleNamespace(load_digits=lambda: found))
    assert write_archive(read_digits(), tmp_path / "digits.zip") == {"train": 4, "test": 2}
    with zipfile.ZipFile(tmp_path / "digits.zip") as archive:
        image = open_png(archive, "train/3/0000.png")
    assert image.shape == (28, 28)
    assert (image == 255).all()
