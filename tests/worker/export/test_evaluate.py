"""Which samples the trained model answers itself, and the outputs of the others."""

from types import SimpleNamespace

import numpy as np
import pytest
from onnx import TensorProto, helper

from redkiln.spec.exports import Export
from tests.redkiln.predict.models import save, value_info
from worker.export.evaluate import evaluate_both
from worker.export.samples import MAX_COMPARED, choose_samples
from worker.export.scoring.regression import Regression

NUM = 3000
RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(NUM, 3)).astype(np.float32)
WEIGHTS = np.array([3.0, -1.0, 0.5], np.float32)
TARGETS = NUMBERS @ WEIGHTS + RNG.normal(size=NUM)


class Rows:
    noun = "rows"

    def get(self, rows):
        return {"numbers": NUMBERS[rows]}

    def feed(self, raw):
        return raw


@pytest.fixture
def evaluate(tmp_path):
    """Returns the evaluation of a file with some weights, and the rows that the model answered."""

    def evaluate(weights, *, num_test):
        answered = []

        def predict(inputs):
            answered.extend(inputs["numbers"][:, 0].tolist())
            return inputs["numbers"] @ WEIGHTS

        target = SimpleNamespace(
            spec=SimpleNamespace(export=Export()),
            exportable=SimpleNamespace(answers=None, predict=predict),
            samples=Rows(),
            targets=TARGETS,
            rows={"validation": np.arange(0)},
            scoring=Regression("price", mean=0.0, std=1.0),
            held_out=None,
        )
        path = save(
            tmp_path,
            [helper.make_node("MatMul", ["numbers", "weights"], ["value"])],
            [value_info("numbers", TensorProto.FLOAT, 3)],
            helper.make_tensor_value_info("value", TensorProto.FLOAT, ["batch"]),
            weights={"weights": weights},
            preprocessing={},
        )
        test = np.arange(NUM - num_test, NUM)
        compared = choose_samples(test=test, others=np.arange(0))
        found = evaluate_both(target, path, compared=compared, threads=1, on_batch=lambda: None)
        return found, answered

    return evaluate


def test_the_trained_model_answers_a_part_of_a_large_test_split(evaluate):
    found, answered = evaluate(WEIGHTS, num_test=2000)
    assert MAX_COMPARED <= len(answered) < MAX_COMPARED + 20
    assert len(set(answered)) == len(answered)
    test = slice(NUM - 2000, NUM)
    np.testing.assert_allclose(found.test[0], NUMBERS[test] @ WEIGHTS, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found.test[1], TARGETS[test])
    error = np.sqrt(np.mean((NUMBERS[test] @ WEIGHTS - TARGETS[test]) ** 2))
    assert found.metrics["rmse"] == pytest.approx(error, rel=1e-5)
    assert found.metrics["rmse_onnx"] == pytest.approx(error, rel=1e-5)
    assert found.metric_drop == pytest.approx(0, abs=1e-5)
    assert found.difference.num_samples >= MAX_COMPARED


def test_the_trained_model_answers_all_samples_if_the_file_answers_some_differently(evaluate):
    found, answered = evaluate(WEIGHTS + np.float32(0.1), num_test=2000)
    test = slice(NUM - 2000, NUM)
    assert set(answered) == set(NUMBERS[test, 0].tolist())
    np.testing.assert_allclose(found.test[0], NUMBERS[test] @ WEIGHTS, rtol=1e-5, atol=1e-5)
    error = np.sqrt(np.mean((NUMBERS[test] @ WEIGHTS - TARGETS[test]) ** 2))
    assert found.metrics["rmse"] == pytest.approx(error, rel=1e-5)
    assert found.metrics["rmse_onnx"] > found.metrics["rmse"]
    assert found.metric_drop > 0
    assert found.difference.relative > Export().tolerance


def test_a_small_test_split_is_answered_completely_and_once(evaluate):
    _, answered = evaluate(WEIGHTS, num_test=500)
    assert sorted(answered) == sorted(NUMBERS[NUM - 500 :, 0].tolist())
