from types import SimpleNamespace

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.redkiln.predict.models import save, value_info
from worker.export.scoring.regression import Regression
from worker.export.variants.judge import Judge

NUM = 200
RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(NUM, 3)).astype(np.float32)
WEIGHTS = np.array([3.0, -1.0, 0.5], np.float32)


class Rows:
    noun = "rows"

    def get(self, rows):
        return {"numbers": NUMBERS[rows]}

    def feed(self, raw):
        return raw


@pytest.fixture
def file(tmp_path):
    return save(
        tmp_path,
        [helper.make_node("MatMul", ["numbers", "weights"], ["value"])],
        [value_info("numbers", TensorProto.FLOAT, 3)],
        helper.make_tensor_value_info("value", TensorProto.FLOAT, ["batch"]),
        weights={"weights": WEIGHTS},
        preprocessing={},
    )


@pytest.fixture
def make_judge():
    """Returns a judge of the file, with what ONNX Runtime gave for it before."""

    def make(known=None):
        outputs = NUMBERS @ WEIGHTS
        targets = outputs + RNG.normal(size=NUM)
        scoring = Regression("price", mean=0.0, std=1.0)
        evaluation = SimpleNamespace(
            rows=np.arange(NUM),
            num_test=NUM,
            targets=targets,
            outputs=outputs,
            onnx=known,
            few=[] if known is None else [known[:7], known[:8]],
            metrics=scoring.score(outputs, targets),
        )
        exportable = SimpleNamespace(answers=None)
        target = SimpleNamespace(scoring=scoring, samples=Rows(), exportable=exportable)
        return Judge(target, evaluation, 1, lambda: None)

    return make


def test_a_regression_has_the_interval_of_its_error(file, make_judge):
    result = make_judge().judge("fp16", file, max_drop=0.01)
    assert result.verified
    low, high = result.interval
    assert 0.8 < low < result.metric < high < 1.2


def test_a_file_that_has_been_run_is_judged_by_what_it_gave_then(file, make_judge, monkeypatch):
    right = NUMBERS @ WEIGHTS
    fresh = make_judge().judge("fp32", file, max_drop=0.01)
    monkeypatch.setattr(Judge, "_run", None)
    known = make_judge(right).judge("fp32", file, max_drop=0.01, is_known=True)
    assert (known.verified, known.max_abs) == (True, pytest.approx(fresh.max_abs, abs=1e-5))

    wrong = make_judge(right + 3).judge("fp32", file, max_drop=0.01, is_known=True)
    assert not wrong.verified
    assert wrong.max_abs == pytest.approx(3, abs=1e-5)
    assert wrong.drop_as_written == pytest.approx(0, abs=1e-5)  # this one is always run
