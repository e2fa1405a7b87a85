import json

import numpy as np
import onnx
import onnxruntime

from redkiln.predict.columns import name_inputs
from redkiln.predict.session import run_session
from tests.redkiln.predict.models import save_prices
from worker.tasks.tabular.embedded import EmbeddedColumns

FACTS = {
    "output": "value",
    "interface": "embedded",
    "inputs": [
        {"name": "numbers", "columns": ["value", "year"], "missing_numbers": [-999.0],
         "derived": {"year": {}}},
        {"name": "codes", "columns": ["colour"], "categories": {"colour": ["white", "grey"]}},
    ],
    "columns": name_inputs(["value", "year", "colour"]),
}  # fmt: skip


def test_columns_are_read_as_the_blocks_of_a_plain_file(tmp_path):
    plain = save_prices(tmp_path / "plain")
    path = save_prices(tmp_path / "own")
    blocks = {
        "numbers": np.array([[2, 2000], [np.nan, -999], [1, np.nan]], np.float32),
        "codes": np.array([[1], [-1], [0]]),
    }
    (expected,) = onnxruntime.InferenceSession(plain).run(None, blocks)
    EmbeddedColumns(FACTS, num_classes=0, has_labels=False).apply(path)
    session = onnxruntime.InferenceSession(path)
    columns = {
        "value_": np.array([2, -999, 1], np.float32),
        "year": np.array([2000, -999, np.nan], np.float32),
        "colour": np.array(["grey", "no colour", "white"], dtype=object),
    }
    np.testing.assert_array_equal(session.run(["value"], columns)[0], expected)
    assert [output.name for output in session.get_outputs()] == ["value"]


def test_programs_that_know_only_blocks_run_such_a_file(tmp_path):
    facts = {**FACTS, "columns": {**FACTS["columns"], "colour": "colour"}}
    path = save_prices(tmp_path)
    EmbeddedColumns(facts, num_classes=0, has_labels=False).apply(path)
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"preprocessing": json.dumps(facts)})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    blocks = {
        "numbers": np.array([[2, 2000], [1, 1990]], np.float32),
        "codes": np.array([[1], [-1]]),
    }
    assert run_session(session, blocks).tolist() == [3200, 1090]
