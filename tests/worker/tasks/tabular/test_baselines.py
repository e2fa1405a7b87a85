import numpy as np

from worker.tasks.tabular.baselines import list_baselines
from worker.trainer.tables.table import learn_preparation, load_table


def fit_all(path, **options):
    table = load_table(path)
    rows = table.split(validation_fraction=0.1)
    offered = list_baselines(table, learn_preparation(table), **options)
    found = {b.name: b.fit(rows["train"], rows["test"], 60.0).outputs for b in offered}
    assert list(found) == ["linear model", "gradient-boosted trees"]
    return found, table.targets[rows["test"]]


def test_both_baselines_learn_a_table_with_gaps_and_categories(write_table):
    found, labels = fit_all(write_table("classes.parquet", task="tabular-classification"))
    majority = np.bincount(labels).max() / len(labels)
    for outputs in found.values():
        assert outputs.shape == (len(labels), 2)
        assert (outputs.argmax(axis=1) == labels).mean() > majority + 0.1


def test_both_baselines_learn_values_in_the_targets_unit(write_table):
    path = write_table("values.parquet", task="tabular-regression")
    found, targets = fit_all(path)
    logs, _ = fit_all(path, is_log=True)
    for outputs in (*found.values(), *logs.values()):
        assert ((outputs - targets) ** 2).mean() < 0.5 * targets.var()
    assert (logs["linear model"] > 0).all()
