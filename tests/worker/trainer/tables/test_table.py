import numpy as np
import pytest
import torch

from redkiln.failure import FailureCode
from redkiln.tables import split_table
from worker.process.failed import TrainingFailed
from worker.trainer.tables.batches import ResidentRows, TrainRows
from worker.trainer.tables.table import (
    learn_preparation,
    load_table,
    prepare_codes,
    prepare_numbers,
)

CPU = torch.device("cpu")


@pytest.fixture
def table(write_table):
    return load_table(write_table())


def resident(table, *, validation_fraction=0.1, unknown_places=(0,)):
    return ResidentRows(
        table,
        learn_preparation(table),
        table.targets,
        unknown_places=list(unknown_places),
        validation_fraction=validation_fraction,
        device=CPU,
    )


def test_a_table_is_read_with_its_gaps(table):
    assert [c.name for c in table.numeric] == ["size", "weight"]
    assert [c.name for c in table.categorical] == ["colour"]
    assert table.numbers.shape == (240, 2)
    assert 20 < np.isnan(table.numbers[:, 1]).sum() < 80
    assert not np.isnan(table.numbers[:, 0]).any()
    assert set(np.unique(table.codes)) == {-1, 0, 1, 2}
    assert table.targets.dtype == np.int64


@pytest.mark.parametrize("task", ["tabular-classification", "tabular-regression"])
@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.25, 0.5])
def test_rows_are_split_according_to_the_contract(write_table, task, fraction):
    table = load_table(write_table(task=task))
    labels = [0] * 240 if task == "tabular-regression" else table.targets.tolist()
    expected = split_table(
        labels, table.ranks.tolist(), num_train=200, validation_fraction=fraction
    )
    found = table.split(validation_fraction=fraction)
    assert {split: rows.tolist() for split, rows in found.items()} == expected


@pytest.mark.parametrize("fraction", [0.0, 0.25])
def test_a_tables_own_validation_split_is_used_whatever_the_fraction(write_table, fraction):
    table = load_table(write_table())
    table.index.num_validation = 30
    found = table.split(validation_fraction=fraction)
    assert {split: (rows[0], rows[-1]) for split, rows in found.items()} == {
        "train": (0, 169), "validation": (170, 199), "test": (200, 239),
    }  # fmt: skip


def test_numbers_are_standardised_and_gaps_are_means_with_a_flag(table):
    preparation = learn_preparation(table)
    assert preparation.flagged == [1]
    prepared = prepare_numbers(table.numbers, preparation)
    assert prepared.shape == (240, 3)
    assert prepared.dtype == np.float32
    assert np.isfinite(prepared).all()
    np.testing.assert_allclose(prepared[:200, 0].mean(), 0, atol=1e-5)
    np.testing.assert_allclose(prepared[:200, 0].std(), 1, atol=1e-5)
    missing = np.isnan(table.numbers[:, 1])
    assert (prepared[missing, 1] == 0).all()
    assert (prepared[:, 2] == missing).all()


def test_gaps_only_in_the_test_split_and_empty_columns_get_no_flag(write_table):
    columns = {"late": [1.0, 2.0, 3.0, np.nan], "empty": [np.nan] * 4, "one": [5.0] * 4}
    path = write_table(
        columns=columns, targets=[0, 1, 0, 1], task="tabular-classification", num_test=1
    )
    table = load_table(path)
    preparation = learn_preparation(table)
    assert preparation.flagged == []
    prepared = prepare_numbers(table.numbers, preparation)
    assert prepared[3].tolist() == [0, 0, 0]
    assert (prepared[:, 1:] == 0).all()


def test_outliers_and_values_beyond_float32_are_clipped(write_table):
    columns = {"x": [0.0, 1.0, 2.0, 1e300, -1e30]}
    path = write_table(
        columns=columns, targets=[0, 1, 0, 1, 1], task="tabular-classification", num_test=2
    )
    table = load_table(path)
    prepared = prepare_numbers(table.numbers, learn_preparation(table))
    assert prepared[3:, 0].tolist() == [30, -30]


def test_every_column_has_a_code_for_unknown_values():
    codes = np.array([[-1, -1], [0, 0], [2, 4]], np.int32)
    places = prepare_codes(codes, unknown_places=[0, 4])
    assert places.tolist() == [[0, 4], [1, 5], [3, 9]]


@pytest.mark.parametrize("content", [None, b"no parquet"])
def test_a_file_that_is_not_a_table_is_refused(tmp_path, content):
    path = tmp_path / "t.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TrainingFailed, match=r"t\.parquet cannot be read") as caught:
        load_table(path)
    assert caught.value.failure.code is FailureCode.DATASET_UNAVAILABLE


def test_a_file_without_its_index_is_refused(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    with pytest.raises(TrainingFailed, match="cannot be read"):
        load_table(tmp_path / "t.parquet")


def test_an_epoch_has_every_training_row_once_in_its_own_order(table):
    rows = resident(table)
    batches = TrainRows(rows, batch_size=20, seed=0)
    num = rows.num("train")
    assert num == 180

    def epoch(number):
        return torch.cat([batches.get(number, place)[0][0][:, 0] for place in range(num // 20)])

    first, second = epoch(0), epoch(1)
    expected = rows.get_batch(rows.rows["train"])[0][0][:, 0]
    assert not torch.equal(first, second)
    for found in (first, second):
        assert torch.equal(found.sort().values, expected.sort().values)
    again = TrainRows(rows, batch_size=20, seed=0)
    assert torch.equal(again.get(1, 3)[1], batches.get(1, 3)[1])


def test_batches_contain_the_tables_values(write_table):
    numbers_only = load_table(
        write_table(
            columns={"x": [0.0, 1.0, 2.0]},
            targets=[0, 1, 1],
            task="tabular-classification",
            num_test=1,
        )
    )
    inputs, targets = resident(numbers_only, unknown_places=()).get_batch(torch.tensor([1, 0]))
    assert [tuple(part.shape) for part in inputs] == [(2, 1)]
    assert targets.tolist() == [1, 0]
    codes_only = load_table(
        write_table(
            columns={"c": [0, None, 1]},
            targets=[0, 1, 1],
            task="tabular-classification",
            num_test=1,
            categories={"c": ["a", "b"]},
        )
    )
    (places,), _ = resident(codes_only).get_batch(torch.tensor([0, 1, 2]))
    assert places.tolist() == [[1], [0], [2]]
    assert places.dtype == torch.int32
