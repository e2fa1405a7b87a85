import numpy as np
import pytest
import torch

from worker.process.failed import TrainingFailed
from worker.trainer.tables.table import load_table
from worker.trainer.tables.target_scale import TargetScale, find_log_errors, find_smearing


def open_prices(write_table, prices, *, num_test=2):
    columns = {"size": np.arange(len(prices), dtype=float)}
    options = {"targets": prices, "task": "tabular-regression", "num_test": num_test}
    return load_table(write_table(columns=columns, target="price", **options))


@pytest.mark.parametrize("is_log", [False, True])
def test_restored_values_are_the_standardised_ones(is_log):
    scale = TargetScale(2.0, 0.5, is_log=is_log)
    values = np.array([0.01, 1.0, 300.0])
    standard = scale.standardise(values).astype(np.float64)
    np.testing.assert_allclose(scale.restore(standard), values, rtol=1e-5)
    restored = scale.restore(torch.from_numpy(standard))
    np.testing.assert_allclose(restored.numpy(), values, rtol=1e-5)


def test_logarithms_are_standardised_by_those_of_the_training_rows(write_table):
    prices = [1.0, 10.0, 100.0, 1000.0, 1e6, 1e6]
    scale = TargetScale.of_logs(open_prices(write_table, prices))
    standard = scale.standardise(np.array(prices[:4]))
    assert standard.mean() == pytest.approx(0, abs=1e-6)
    assert standard.std() == pytest.approx(1)
    assert np.diff(standard) == pytest.approx(np.full(3, standard[1] - standard[0]))


def test_smearing_turns_medians_into_means():
    rng = np.random.default_rng(0)
    medians = rng.uniform(1, 1000, 20_000)
    targets = medians * np.exp(0.5 * rng.normal(size=20_000))
    factor = find_smearing(find_log_errors(medians.astype(np.float32), targets))
    assert factor == pytest.approx(np.exp(0.5**2 / 2), rel=0.02)
    scale = TargetScale(0.0, 1.0, is_log=True, smearing=factor)
    np.testing.assert_allclose(scale.restore(np.log(medians)), factor * medians)
    assert find_smearing(np.array([50.0, -50.0])) == 2.0
    assert np.isfinite(find_log_errors(np.array([0.0]), np.array([1.0])))


@pytest.mark.parametrize("bad", [0.0, -3.5])
def test_a_value_without_a_logarithm_is_refused(write_table, bad):
    table = open_prices(write_table, [1.0, bad, 2.0, 3.0])
    with pytest.raises(TrainingFailed, match=f"above 0.*price has {bad:g}; set") as caught:
        TargetScale.of_logs(table)
    assert caught.value.failure.details["pointer"] == "/training/target_transform"
