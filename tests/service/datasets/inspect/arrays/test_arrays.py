"""Arrays of images, through `inspect` in this process."""

import gzip
import io
import os
import struct

import numpy as np
import pytest
from PIL import Image

from redkiln.datasets import DatasetIndex
from service.datasets.inspect.__main__ import inspect
from service.datasets.inspect.arrays.naming import read_name
from service.datasets.inspect.look import shrink_array, take_look
from service.datasets.inspect.order import Order
from service.datasets.inspect.report import INDEX, Refused

X = np.arange(12 * 5 * 4, dtype=np.uint8).reshape(12, 5, 4)
Y = np.array([0, 1, 10] * 4)


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


def npz(pack=np.savez, **arrays):
    buffer = io.BytesIO()
    pack(buffer, **arrays)
    return buffer.getvalue()


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


MNIST = {
    "train-images-idx3-ubyte": idx(X),
    "train-labels-idx1-ubyte": idx(Y),
    "t10k-images-idx3-ubyte": idx(X[:3]),
    "t10k-labels-idx1-ubyte": idx(Y[:3]),
}
KERAS = {"x_train": X, "y_train": Y, "x_test": X[:3], "y_test": Y[:3]}


@pytest.fixture
def look(tmp_path):
    """Return the index (None for an invalid set) and the report."""

    def look(content, *, kind="archive"):
        path = tmp_path / "upload"
        if kind == "archive":
            path.write_bytes(content)
        else:
            path.mkdir()
            for name, data in content.items():
                (path / name).write_bytes(data)
        below = [] if kind == "archive" else ["upload"]
        root = path if kind == "archive" else tmp_path
        order = Order(kind=kind, path=str(root), below=below, parent_pid=os.getpid())
        try:
            report = inspect(order, work_dir=tmp_path)
        except Refused as refused:
            return None, refused.problems
        if report.errors:
            return None, report.errors
        return DatasetIndex.model_validate_json((tmp_path / INDEX).read_bytes()), report

    return look


def check_mnist(index, report, *, path, array=None, row_of_test=0):
    assert index.classes == ["0", "1", "10"]
    assert report.counts == {"train": {"0": 4, "1": 4, "10": 4}, "test": {"0": 1, "1": 1, "10": 1}}
    assert (index.image_size, index.channels, index.held_out_test) == ((4, 5), 1, False)
    assert report.image_sizes == {"4x5": 15}
    first, second = index.splits["train"][:2]
    assert (first.path, first.row, first.label, first.array) == (path, 0, 0, array)
    assert (second.row, second.label) == (1, 1)
    assert index.splits["test"][2].row == 2


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_the_files_of_mnist_are_read_in_any_archive_and_gzipped(look, make, kind, packed):
    files = {
        f"raw/{n}{'.gz' * packed}": gzip.compress(c) if packed else c for n, c in MNIST.items()
    }
    index, report = look(getattr(make, kind)(files.items()))
    check_mnist(index, report, path=f"raw/train-images-idx3-ubyte{'.gz' * packed}")


@pytest.mark.parametrize("pack", [np.savez, np.savez_compressed])
def test_an_npz_can_be_the_data_set_itself(look, pack):
    index, report = look(npz(pack, **KERAS))
    check_mnist(index, report, path="x_train.npy")


def test_an_npz_may_be_inside_an_archive(look, make):
    index, report = look(make.zip([("some/data.npz", npz(**KERAS)), ("README.md", b"hello")]))
    check_mnist(index, report, path="some/data.npz", array="x_train.npy")


def test_samples_of_a_folder_have_the_digest_of_their_file(look):
    index, report = look(MNIST, kind="folder")
    check_mnist(index, report, path="train-images-idx3-ubyte")
    digests = {sample.sha256 for sample in index.splits["train"]}
    assert len(digests) == 1
    assert None not in digests


def test_colour_images_named_labels_and_a_label_column_are_read(look):
    pixels = np.zeros((6, 8, 8, 3), dtype=np.uint8)
    names = np.array([["cat"], ["dog"]] * 3)
    index, _report = look(npz(images=pixels, labels=names))
    assert index.classes == ["cat", "dog"]
    assert index.channels == 3
    assert index.held_out_test
    assert "there are no test arrays" in index.notes[0]
    assert sum(len(samples) for samples in index.splits.values()) == 6
    for split in index.splits.values():
        for label in (0, 1):
            ranks = sorted(sample.rank for sample in split if sample.label == label)
            assert ranks == list(range(len(ranks)))


def test_validation_arrays_are_the_validation_split(look):
    arrays = {"train_images": X, "train_labels": Y, "val_images": X[:3], "val_labels": Y[:3]}
    index, report = look(npz(**arrays))
    assert sum(map(len, index.splits.values())) == 15
    assert index.num_validation == 3
    assert sum(report.counts["validation"].values()) == 3
    assert "the 3 images of the validation split" in index.notes[0]


@pytest.mark.parametrize(
    ("changes", "code", "path", "words"),
    [
        ({"y_train": Y[:5]}, "unequal_arrays", "y_train.npy", "5 labels for the 12 images"),
        ({"x_train": X.astype(np.float32)}, "bad_array", "x_train.npy", "save images as uint8"),
        ({"x_train": X[:, 0]}, "bad_array", "x_train.npy", "images must be (N, height, width)"),
        ({"x_train": X.reshape(12, 1, 5, 4)}, "bad_array", "x_train.npy", "put channels last"),
        ({"x_train": X[:, :0]}, "bad_array", "x_train.npy", "contains no image"),
        ({"y_train": Y / 2}, "bad_labels", "y_train.npy", "save labels as integers"),
        ({"y_train": np.eye(12)}, "bad_labels", "y_train.npy", "labels must be (N,)"),
        ({"y_train": np.arange(12), "x_test": None, "y_test": None}, "no_test_split", None, "one"),
        ({"y_train": Y * 0}, "one_class", None, "only one class"),
        ({"y_test": np.array([0, 1, 7])}, "unknown_test_class", "y_test.npy", "row 2: no training"),
        ({"y_train": None}, "unpaired_array", "x_train.npy", "has no matching labels"),
        ({"y_train": np.array(["a", ""] * 6)}, "bad_labels", "y_train.npy", "row 1"),
        ({"x_test": X[:3, :, :, None].repeat(3, 3)}, "unequal_arrays", "x_train.npy", "channels"),
    ],
)
def test_a_problem_with_an_array_is_reported_with_its_file(look, changes, code, path, words):
    arrays = {name: value for name, value in {**KERAS, **changes}.items() if value is not None}
    index, (error, *_) = look(npz(**arrays))
    assert index is None
    assert (error.code, error.path) == (code, path)
    assert words in error.message


def test_many_test_only_classes_cause_few_comparisons(look, comparisons):
    count = 9000
    labels = np.arange(count, dtype=np.int64)
    images = np.zeros((count, 1, 1), np.uint8)
    arrays = {"x_train": images, "y_train": labels, "x_test": images, "y_test": labels + 10**6}
    index, errors = look(npz(**arrays))
    assert index is None
    assert [error.code for error in errors] == ["unknown_test_class"] * 100
    assert "row 0: no training image has class '1000000'" in errors[0].message
    assert len(errors[99].message) < 300
    assert comparisons == [1000] * 10


def test_arrays_without_known_names_are_listed(look):
    _index, (error, *_) = look(npz(a=X, b=Y))
    assert error.code == "no_arrays"
    assert "a.npy, b.npy" in error.message


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch unpickled",)


def test_objects_are_refused_and_never_unpickled(look, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labels = np.array([Evil()] * 12, dtype=object)
    _index, (error, *_) = look(npz(x_train=X, y_train=labels))
    assert (error.code, error.path) == ("objects_in_array", "y_train.npy")
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "neither an IDX nor an NPY"),
        (b"\0\0\x0d\3" + bytes(12), "only bytes"),
        (b"\0\0\x08\3\0\0", "truncated"),
        (idx(X)[:-1], "truncated or damaged"),
        (gzip.compress(idx(X), mtime=0)[:-9], "cannot be unpacked"),
        (npy(X)[:20], "truncated"),
        (npy(X.T), "Fortran"),
        (b"\x93NUMPY\x01\x00\x08\x00{'a': }\n", "unreadable header"),
        (b"\x93NUMPY\x09\x00\x08\x00{'a': }\n", "unknown version"),
    ],
)
def test_a_damaged_file_is_refused_with_its_name(look, make, content, words):
    files = {**MNIST, "train-images-idx3-ubyte": content}
    index, (error, *_) = look(make.zip(files.items()))
    assert index is None
    assert error.path == "train-images-idx3-ubyte"
    assert words in error.message


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train-images-idx3-ubyte", ("train", "train", "images")),
        ("t10k-labels.idx1-ubyte.gz", ("test", "t10k", "labels")),
        ("x_train.npy", ("train", "train", "images")),
        ("X_test.npy", ("test", "test", "images")),
        ("test_labels.npy", ("test", "test", "labels")),
        ("labels.npy", ("train", "", "labels")),
        ("images_extra.npy", None),
        ("mean.npy", None),
        ("x_labels.npy", None),
    ],
)
def test_names_decide_split_and_kind(name, expected):
    assert read_name(name) == expected


def test_test_images_that_are_copies_of_training_images_are_warned_of(look):
    _, report = look(npz(**KERAS))
    (warning,) = report.warnings
    assert warning.code == "copies_across_splits"
    assert "3 of 3 test images are equal to training images" in warning.message
    assert "(x_test.npy[0] and x_train.npy[0])" in warning.message


def test_images_of_arrays_that_look_alike_are_warned_of(look):
    waves = np.sin(np.arange(12)[:, None, None] + np.arange(24)[:, None] * np.arange(20) / 40)
    images = (110 + 100 * waves).astype(np.uint8)
    _, report = look(npz(**KERAS | {"x_train": images, "x_test": images[:3] + 1}))
    assert [warning.code for warning in report.warnings] == ["near_copies_across_splits"]
    assert "3 of 3 test images are nearly equal to training images" in report.warnings[0].message


@pytest.mark.parametrize("shape", [(2, 32, 144, 3), (2, 28, 37, 1), (2, 9, 16, 1)])
def test_small_pictures_of_an_array_are_those_of_its_images(shape):
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    for found, image in zip(shrink_array(images), images, strict=True):
        look = take_look(Image.fromarray(image[..., 0] if shape[3] == 1 else image))
        expected = np.frombuffer(look.picture, np.uint8)
        assert np.abs(found.astype(int) - expected).max() <= 1


def test_arrays_without_copies_have_no_warnings(look):
    _, report = look(npz(**KERAS | {"x_test": X[:3] + 1}))
    assert report.warnings == []
