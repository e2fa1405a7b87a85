from types import SimpleNamespace

import numpy as np
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


def test_a_regression_has_the_interval_of_its_error(tmp_path):
    path = save(
        tmp_path,
        [helper.make_node("MatMul", ["numbers", "weights"], ["value"])],
        [value_info("numbers", TensorProto.FLOAT, 3)],
        helper.make_tensor_value_info("value", TensorProto.FLOAT, ["batch"]),
        weights={"weights": WEIGHTS},
        preprocessing={},
    )
    outputs = NUMBERS @ WEIGHTS
    targets = outputs + RNG.normal(size=NUM)
    scoring = Regression("price", mean=0.0, std=1.0)
    evaluation = SimpleNamespace(
        rows=np.arange(NUM),
        num_test=NUM,
        targets=targets,
        outputs=outputs,
        metrics=scoring.score(outputs, targets),
    )
    exportable = SimpleNamespace(answers=None)
    target = SimpleNamespace(scoring=scoring, samples=Rows(), exportable=exportable)
    result = Judge(target, evaluation, 1, lambda: None).judge("fp16", path, max_drop=0.01)
    assert result.verified
    low, high = result.interval
    assert 0.8 < low < result.metric < high < 1.2
