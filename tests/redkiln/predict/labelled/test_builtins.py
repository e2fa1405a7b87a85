"""Test splits of built-in sets, made without a worker, are those that a worker makes."""

import csv

import numpy as np
import pytest
from PIL import Image

from redkiln.datasets import DatasetIndex
from redkiln.errors import ModelError
from redkiln.predict.labelled import builtins
from redkiln.predict.labelled.builtins import find_target, write_test_split
from tests.redkiln.predict.labelled.public_files import GREY, LABELS, NUM_TRAIN, mnist_files
from worker.trainer.images.sources.builtins import INDEX, open_builtin
from worker.trainer.images.sources.sources import BUILTIN_ARRAY
from worker.trainer.tables.builtins import open_builtin_table
from worker.trainer.tables.table import load_table


def read_rows(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_the_digits_are_those_that_a_worker_tests_with(tmp_path):
    folder = open_builtin("digits", cache_dir=tmp_path / "cache")
    images = np.load(folder / BUILTIN_ARRAY)
    test = DatasetIndex.model_validate_json((folder / INDEX).read_text()).splits["test"]
    (tmp_path / "split").mkdir()
    path = write_test_split("builtin:digits", tmp_path / "split")
    head, *rows = read_rows(path / "labels.csv")
    assert head == ["file", "labels"]
    assert rows == [[f"{one.path}.png", str(one.label)] for one in test]
    for name, _ in rows[::40]:
        with Image.open(path / name) as image:
            np.testing.assert_array_equal(np.asarray(image), images[int(name[:-4])])


def test_a_public_set_is_tested_with_its_own_test_split(tmp_path):
    files_dir, split = tmp_path / "files", tmp_path / "split"
    for folder in (files_dir, split):
        folder.mkdir()
    for name, content in mnist_files().items():
        (files_dir / name).write_bytes(content)
    _, *rows = read_rows(
        write_test_split("builtin:mnist", split, files_dir=files_dir) / "labels.csv"
    )
    places = range(NUM_TRAIN, len(GREY))
    assert rows == [[f"{place}.png", str(LABELS[place])] for place in places]
    for place in places:
        with Image.open(split / f"{place}.png") as image:
            np.testing.assert_array_equal(np.asarray(image), GREY[place])


@pytest.mark.parametrize("name", ["iris", "diabetes"])
def test_a_table_is_that_which_a_worker_tests_with(tmp_path, name):
    table = load_table(open_builtin_table(name, cache_dir=tmp_path / "cache"))
    first = table.index.num_train
    head, *rows = read_rows(write_test_split(f"builtin:{name}", tmp_path))
    assert head == [*(column.name for column in table.index.columns), table.index.target]
    assert head[-1] == find_target(f"builtin:{name}")
    numbers = np.array([row[:-1] for row in rows], np.float32)
    np.testing.assert_array_equal(numbers, table.numbers[first:])
    targets = table.targets[first:].tolist()
    answers = [row[-1] for row in rows]
    if table.index.classes:
        assert answers == [table.index.classes[label] for label in targets]
    else:
        np.testing.assert_allclose([float(answer) for answer in answers], targets)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("builtin:roses", "There is no built-in data set builtin:roses. Use one of: builtin:digit"),
        (
            "builtin:mnist",
            "The files of builtin:mnist cannot be read: .*train-images-idx3",
        ),
        ("builtin:iris", "part of scikit-learn, which is not installed. Install it"),
    ],
)
def test_a_set_that_cannot_be_made_here_says_what_to_do(tmp_path, monkeypatch, named, message):
    monkeypatch.setattr(builtins, "find_spec", lambda _name: None)
    with pytest.raises(ModelError, match=message):
        write_test_split(named, tmp_path, files_dir=tmp_path if "mnist" in named else None)
