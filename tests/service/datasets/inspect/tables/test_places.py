"""Where the test rows of a table are in its file."""

import io
import tarfile

import numpy as np
import pyarrow as pa
import pytest

from redkiln.tables import PLACE
from service.datasets.inspect.tables.faults import RowLocations
from service.datasets.inspect.tables.raw import BadRows, RawTable


def make_raw(texts, *, left_out=(), **fields):
    bad = BadRows()
    for number in left_out:
        bad.add(number, "code", "why")
    columns = [pa.chunked_array([pa.array(texts, pa.string())])]
    return RawTable(fields.pop("path", None), ["a"], columns, bad, **fields)


TABLES = [
    make_raw(["x", "y\nz", None, "w"], first_row=2, delimiter=",", path="a.csv"),
    make_raw(["x\n\n", "y", "z"], left_out=[1, 3, 4], path="b.jsonl"),
    make_raw([], path="empty.csv", first_row=2, delimiter=","),
    make_raw(["x\n", "y", "\nz", "w"], left_out=[3, 6, 7], first_row=2, delimiter=";"),
    make_raw(["x", "y"], unit="row", path="c.parquet"),
]


@pytest.mark.parametrize("seed", range(3))
def test_the_places_of_many_rows_are_those_of_each_one(seed):
    locate = RowLocations(TABLES)
    rows = np.random.default_rng(seed).permutation(13)[: 13 - seed]
    assert locate.list_places(rows).to_pylist() == [locate(int(row)) for row in rows]


def test_the_index_has_the_places_of_the_test_rows(look):
    lines = [f'{number},"note {number}\n",{"ab"[number % 2]}' for number in range(40)]
    table = look("\n".join(["a,note,label", *lines])).table
    places = table[PLACE].to_pylist()
    assert places[:36] == [None] * 36
    # A row has two lines, below the header.
    numbers = [int(value.as_py()) for value in table["a"][36:]]
    assert places[36:] == [f"line {2 + 2 * number}" for number in numbers]


def test_a_row_of_a_test_file_is_named_with_its_file(look):
    files = {
        "train.csv": "\n".join(["a,label", *(f"{n},{'xy'[n % 2]}" for n in range(30))]),
        "test.csv": "a,label\n7,x\n8,y\n",
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    table = look(buffer.getvalue()).table
    assert table[PLACE].to_pylist()[30:] == ["test.csv, line 2", "test.csv, line 3"]


def test_a_table_of_texts_has_no_places(look):
    text = "\n".join(f"the {n} note says this,{'ab'[n % 2]}" for n in range(40))
    assert PLACE not in look(f"text,label\n{text}", text="text").table.column_names
