import numpy as np
import pytest

from redkiln.datasets import BUILTIN_TABLES
from worker.process.failed import TrainingFailed
from worker.trainer.tables.builtins import open_builtin_table
from worker.trainer.tables.table import learn_preparation, load_table, prepare_numbers


@pytest.mark.parametrize("name", BUILTIN_TABLES)
def test_a_builtin_table_matches_its_contract(name, tmp_path):
    facts = BUILTIN_TABLES[name]
    path = open_builtin_table(name, cache_dir=tmp_path)
    table = load_table(path)
    assert [column.name for column in table.index.columns] == facts.columns
    assert (table.index.task, table.index.classes) == (facts.task, facts.classes)
    assert len(table.targets) == facts.num_samples
    if facts.classes:
        assert np.bincount(table.targets).tolist() == facts.class_counts
    rows = table.split(validation_fraction=0.1)
    assert sorted(np.concatenate(list(rows.values())).tolist()) == list(range(facts.num_samples))
    assert 0.08 < len(rows["test"]) / facts.num_samples < 0.12
    prepared = prepare_numbers(table.numbers, learn_preparation(table))
    train = prepared[: table.index.num_train]
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-3)
    before = path.stat().st_mtime_ns
    assert open_builtin_table(name, cache_dir=tmp_path).stat().st_mtime_ns == before
    assert [p.name for p in path.parent.iterdir()] == [f"{name}.parquet"]


def test_labels_match_the_class_names(tmp_path):
    table = load_table(open_builtin_table("breast-cancer", cache_dir=tmp_path))
    # Malignant nuclei are larger.
    radius = table.numbers[:, 0]
    assert table.index.classes[1] == "malignant"
    assert radius[table.targets == 1].mean() > radius[table.targets == 0].mean() + 3


def test_an_unknown_builtin_table_is_refused(tmp_path):
    with pytest.raises(TrainingFailed, match="use one of: breast-cancer"):
        open_builtin_table("titanic", cache_dir=tmp_path)
