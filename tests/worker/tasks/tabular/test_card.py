import json

import numpy as np
import pytest
import torch

from redkiln.spec.tabular import TabularModel
from worker.export.onnx_file import write_onnx
from worker.tasks.tabular.card import usage_code
from worker.tasks.tabular.exported import describe_preparation, make_table_exportable
from worker.trainer.models.table_network import TableShape
from worker.trainer.models.tabular import build_tabular_model
from worker.trainer.tables.table import learn_preparation, load_table


@pytest.fixture
def table(write_table):
    table = load_table(write_table(task="tabular-regression"))
    table.index.missing_numbers = [-999.0]
    return table


@pytest.fixture
def model_path(table, tmp_path):
    preparation = learn_preparation(table)
    shape = TableShape(
        num_numbers=preparation.num_numbers,
        num_categories=[len(column.categories) for column in table.categorical],
        num_classes=None,
    )
    model = TabularModel.model_validate({"name": "linear"})
    network = build_tabular_model(model, shape).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    exportable = make_table_exportable(
        network, shape, preparation, target=(500.0, 100.0), architecture={}
    )
    described = describe_preparation(table, preparation, output="value")
    path = tmp_path / "model.onnx"
    write_onnx(exportable, path, opset=20, metadata={"preprocessing": json.dumps(described)})
    return path


def test_the_reports_code_treats_missing_numbers_as_none(table, model_path, monkeypatch):
    monkeypatch.chdir(model_path.parent)
    scope = {}
    exec(usage_code(table).strip("`").removeprefix("python"), scope)
    gap, none, value = scope["predict"]([{"size": -999}, {"size": None}, {"size": 90.0}])
    assert gap == none
    assert not np.isclose(gap, value)


def test_the_reports_code_omits_gaps_without_missing_numbers(table):
    assert "missing_numbers" in usage_code(table)
    table.index.missing_numbers = []
    assert "missing_numbers" not in usage_code(table)
