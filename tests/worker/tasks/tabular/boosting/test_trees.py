import numpy as np
import pytest
import torch

from redkiln.spec.tabular import TabularOptions
from worker.tasks.tabular.boosting.trees import (
    BoostedTrees,
    TreeRows,
    build_trees,
    join_features,
    predict_raw,
    to_logits,
)

OPTIONS = TabularOptions(min_samples_leaf=5, leaves=8)


def make_trees(*, num_classes=2, loss=None, num_categories=4, num_rows=200):
    """Trees without a round, for one categorical and two numeric columns with gaps."""
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, num_categories, (num_rows, 1))
    numbers = rng.normal(size=(num_rows, 2)).astype(np.float32)
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    signal = np.nan_to_num(numbers[:, 0]) + (codes[:, 0] % 2)
    targets = signal if loss else np.digitize(signal, np.linspace(0, 1, num_classes + 1)[1:-1])
    features = join_features(numbers, codes)
    rows = TreeRows(features[50:], targets[50:], features[:50])
    model = build_trees(OPTIONS, num_categorical=1, num_numeric=2, loss=loss, seed=0)
    return BoostedTrees(model, rows, score=lambda raw: {"val/sum": float(raw.sum())}, threads=1)


@pytest.mark.parametrize("settings", [{}, {"num_classes": 3}, {"loss": "mse"}, {"loss": "mae"}])
def test_neither_portions_nor_a_restart_change_the_model(settings):
    whole, parts, resumed = (make_trees(**settings) for _ in range(3))
    metrics = whole.grow(6)
    assert parts.grow(2) + parts.grow(4) == metrics
    resumed.load(make_and_store(settings, rounds=3))
    assert resumed.num_rounds == 3
    assert resumed.grow(3) == metrics[3:]
    for other in (parts, resumed):
        stored = other.tensors(6)
        assert all(torch.equal(tensor, stored[name]) for name, tensor in whole.tensors(6).items())


def make_and_store(settings, *, rounds):
    trees = make_trees(**settings)
    trees.grow(rounds + 1)
    return trees.tensors(rounds)


def test_the_training_loss_falls_and_counts_each_round_once():
    trees = make_trees(loss="mse")
    losses = [metrics["train/loss"] for metrics in trees.grow(4)]
    assert losses == sorted(losses, reverse=True)
    # Mean squares, as of the networks.
    error = predict_raw(trees.model, trees.rows.features) - trees.rows.targets
    assert losses[-1] == pytest.approx(np.square(error).mean())


def test_cut_rounds_leave_no_trace():
    trees, short = make_trees(), make_trees()
    trees.grow(5)
    trees.cut(2)
    short.grow(2)
    assert trees.grow(1) == short.grow(1)
    assert trees.count(2) == short.count(2) < short.count(3)


def test_rare_categories_beyond_the_limit_of_the_library_count_as_one():
    trees = make_trees(num_categories=900, num_rows=2000)
    trees.grow(2)
    assert np.nanmax(trees.rows.features[:, 0]) == 254


def test_a_class_without_training_rows_is_almost_impossible():
    logits = to_logits(np.array([0.0, 50.0]), known=np.array([0, 2]), num_classes=3)
    np.testing.assert_allclose(logits[0], [np.log(0.5), -16, np.log(0.5)])
    np.testing.assert_allclose(logits[1], [-50, -16, 0], atol=1e-6)
