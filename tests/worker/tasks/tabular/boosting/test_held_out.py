import numpy as np
import pytest

from redkiln.spec.tabular import TabularOptions
from worker.tasks.tabular.boosting.held_out import choose_rounds, score_held_out
from worker.tasks.tabular.boosting.trees import BoostedTrees, TreeRows, build_trees, predict_raw


def grow(labels, *, features=None, weights=None, rounds=20, loss=None):
    """Trees for two columns of noise, unless there are features."""
    if features is None:
        features = np.random.default_rng(0).normal(size=(len(labels), 2))
    model = build_trees(TabularOptions(), num_categorical=0, num_numeric=2, loss=loss, seed=0)
    rows = TreeRows(features, np.array(labels), features[:0], weights)
    trees = BoostedTrees(model, rows, score=lambda raw: {}, threads=1)
    trees.grow(rounds)
    return trees


def share_right(logits, labels):
    return float((logits.argmax(axis=1) == labels).mean())


def test_noise_is_not_known_by_trees_that_did_not_see_it():
    labels = np.random.default_rng(1).integers(0, 2, 300)
    trees = grow(labels)
    before = predict_raw(trees.model, trees.rows.features)
    logits, found = score_held_out(trees, num_classes=2)
    assert found.tolist() == labels.tolist()
    assert ((before > 0) == labels).mean() > 0.7  # learnt by heart
    assert 0.4 < share_right(logits, labels) < 0.6
    assert np.array_equal(predict_raw(trees.model, trees.rows.features), before)


def test_each_row_gets_the_answer_for_itself():
    labels = np.random.default_rng(1).integers(0, 3, 300)
    features = np.stack([labels + 0.1, -labels], axis=1).astype(np.float64)
    logits, _ = score_held_out(grow(labels, features=features), num_classes=4)
    assert logits.shape == (300, 4)
    assert share_right(logits, labels) == 1.0
    assert (logits[:, 3] == -16).all()  # a class without training rows


def test_the_weights_of_the_rows_count():
    labels = (np.random.default_rng(1).random(300) < 0.1).astype(int)
    plain, _ = score_held_out(grow(labels), num_classes=2)
    weights = np.where(labels == 1, 9.0, 1.0)
    weighted, _ = score_held_out(grow(labels, weights=weights), num_classes=2)
    assert weighted[:, 1].mean() > plain[:, 1].mean() + 0.5


@pytest.mark.parametrize(("rare", "is_known"), [(1, False), (2, True)])
def test_a_class_with_one_row_leaves_nothing_to_hold_out(rare, is_known):
    labels = np.array([1] * rare + [0] * 98)
    assert (score_held_out(grow(labels), num_classes=2) is not None) == is_known


def test_the_only_row_of_a_third_class_is_left_out():
    labels = np.array([2] + [0, 1] * 60)
    features = np.stack([labels, -labels], axis=1).astype(np.float64)
    trees = grow(labels, features=features, weights=np.ones(121))
    logits, found = score_held_out(trees, num_classes=3)
    assert sorted(set(found.tolist())) == [0, 1]
    assert share_right(logits, found) == 1.0


def test_noise_gets_the_fewest_iterations_and_a_hard_rule_many():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(600, 2))
    noise = rng.integers(0, 2, 600)
    product = (features[:, 0] * features[:, 1] > 0).astype(int)
    few = choose_rounds(grow(noise, features=features), num_classes=2, most=500)
    many = choose_rounds(grow(product, features=features), num_classes=2, most=500)
    assert few == 10
    assert many > 50


@pytest.mark.parametrize("loss", ["mse", "mae"])
def test_noisy_values_get_few_iterations_and_a_product_many(loss):
    rng = np.random.default_rng(1)
    features = rng.normal(size=(600, 2))
    noise = rng.normal(size=600)
    product = features[:, 0] * features[:, 1]
    few = choose_rounds(grow(noise, features=features, loss=loss), num_classes=None, most=500)
    many = choose_rounds(grow(product, features=features, loss=loss), num_classes=None, most=500)
    assert few == 10
    assert many > 100


def test_two_values_leave_the_usual_number_of_iterations():
    trees = grow(np.array([1.0, 2.0]), loss="mse", rounds=1)
    assert choose_rounds(trees, num_classes=None, most=500) == 100


def test_no_more_iterations_are_chosen_than_allowed():
    features = np.random.default_rng(1).normal(size=(600, 2))
    product = (features[:, 0] * features[:, 1] > 0).astype(int)
    assert choose_rounds(grow(product, features=features), num_classes=2, most=45) in (40, 45)


def test_a_class_with_one_row_leaves_the_usual_number_of_iterations():
    assert choose_rounds(grow([1] + [0] * 98, rounds=1), num_classes=2, most=500) == 100


def test_choosing_leaves_the_trees_as_they_are():
    trees = grow(np.random.default_rng(1).integers(0, 2, 300), rounds=3)
    before = predict_raw(trees.model, trees.rows.features)
    choose_rounds(trees, num_classes=2, most=20)
    assert trees.num_rounds == 3
    assert np.array_equal(predict_raw(trees.model, trees.rows.features), before)
