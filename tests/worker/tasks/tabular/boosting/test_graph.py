import numpy as np
import onnxruntime
import pytest
import torch

from redkiln.spec.tabular import TabularOptions
from worker.tasks.tabular.boosting.graph import TreeGraph
from worker.tasks.tabular.boosting.trees import (
    build_trees,
    join_features,
    pack_trees,
    predict_raw,
    put_trees,
    to_logits,
)
from worker.trainer.tables.target_scale import TargetScale

CATEGORIES = [3, 300]


def fit(targets, numbers, codes, *, loss=None, num_labels=None, rounds=8):
    model = build_trees(
        TabularOptions(min_samples_leaf=3, leaves=12),
        num_categorical=codes.shape[1],
        num_numeric=numbers.shape[1],
        loss=loss,
        seed=0,
        num_labels=num_labels,
    )
    model.set_params(max_iter=rounds)
    model.fit(join_features(numbers, codes), targets)
    return model


def run(graph, path, inputs, opset=20):
    graph.write(path, opset)
    session = onnxruntime.InferenceSession(path)
    (outputs,) = session.run(None, inputs)
    return outputs


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(400, 2)).astype(np.float32)
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    # Few of the 300 categories occur, and code 2 of the first column never does.
    codes = np.stack([rng.integers(-1, 2, 400), rng.choice([-1, 0, 7, 254, 299], 400)], axis=1)
    signal = np.nan_to_num(numbers[:, 0]) + codes[:, 0] + (codes[:, 1] == 7) + (codes[:, 1] > 100)
    return numbers, codes, signal


@pytest.fixture
def asked(rows):
    """The rows, gaps, and codes that no training row has, or that no column has."""
    numbers, codes, _ = rows
    strange = [[2, 8], [-1, -1], [99, 299], [-5, 300]]
    gaps = np.full((4, 2), np.nan, np.float32)
    return np.concatenate([numbers, gaps]), np.concatenate([codes, strange])


@pytest.mark.parametrize("labels", [(0, 1), (0, 1, 2), (0, 2), (0, 1, 3)])
@pytest.mark.parametrize("opset", [18, 23])
def test_the_file_gives_the_library_s_logits_for_every_code(rows, asked, labels, opset, tmp_path):
    numbers, codes, signal = rows
    targets = np.array(labels)[np.digitize(signal, np.arange(1, len(labels)) / len(labels))]
    model = fit(targets, numbers, codes)
    graph = TreeGraph(model, CATEGORIES, 2, 4, None, temperature=2.0)
    inputs = {"numbers": asked[0], "codes": asked[1]}
    found = run(graph, tmp_path / "model.onnx", inputs, opset)
    known_codes = np.where(asked[1] < CATEGORIES, asked[1], -1)
    raw = predict_raw(model, join_features(asked[0], known_codes))
    expected = to_logits(raw, known=model.classes_, num_classes=4) / 2
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert (found.argmax(axis=1)[:400] == targets).mean() > 0.8


def test_a_row_can_have_several_labels_also_one_that_every_row_has(rows, asked, tmp_path):
    numbers, codes, signal = rows
    targets = np.stack([signal > 0, signal < 0.5, signal > -99], axis=1)
    model = fit(targets, numbers, codes, num_labels=3)
    restored = fit(targets, numbers, codes, num_labels=3, rounds=1)
    put_trees(restored, pack_all(model))
    graph = TreeGraph(restored, CATEGORIES, 2, 3, None, temperature=[1.0, 2.0, 1.0])
    found = run(graph, tmp_path / "model.onnx", {"numbers": asked[0], "codes": asked[1]})
    known_codes = np.where(asked[1] < CATEGORIES, asked[1], -1)
    raw = predict_raw(model, join_features(asked[0], known_codes))
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-raw / [1, 2, 1])), rtol=1e-5, atol=1e-5)
    assert ((found[:400] > 0.5) == targets).mean() > 0.9
    assert (found[:, 2] > 0.9).all()


def pack_all(model):
    tensors = pack_trees([tree for row in model._predictors for tree in row])
    return {**tensors, "train_score": torch.from_numpy(model.train_score_)}


@pytest.mark.parametrize("kept", [{"numbers"}, {"codes"}, {"numbers", "codes"}])
def test_a_table_may_have_columns_of_one_kind_only(rows, kept, tmp_path):
    numbers, codes, signal = rows
    numbers = numbers if "numbers" in kept else numbers[:, :0]
    codes = codes if "codes" in kept else codes[:, :0]
    model = fit((signal - 1) / 2, numbers, codes, loss="mse")
    graph = TreeGraph(
        model, CATEGORIES if "codes" in kept else [], numbers.shape[1], None, TargetScale(1.0, 2.0)
    )
    inputs = {"numbers": numbers, "codes": codes}
    found = run(graph, tmp_path / "model.onnx", {name: inputs[name] for name in kept})
    expected = predict_raw(model, join_features(numbers, codes)) * 2 + 1
    assert found.shape == (400,)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_neighbouring_float32_numbers_are_split_as_the_library_splits_them(tmp_path):
    steps = np.arange(200, dtype=np.float32)
    numbers = (np.float32(1.0) + steps * np.finfo(np.float32).eps)[:, None]
    targets = np.sin(steps / 7).astype(np.float64)
    codes = np.empty((200, 0), np.int64)
    model = fit(targets, numbers, codes, loss="mse")
    graph = TreeGraph(model, [], 1, None, TargetScale(0.0, 1.0))
    found = run(graph, tmp_path / "model.onnx", {"numbers": numbers})
    np.testing.assert_allclose(found, predict_raw(model, join_features(numbers, codes)), atol=1e-5)
