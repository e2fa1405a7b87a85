import numpy as np
import onnxruntime
import pytest
import torch

from redkiln.spec.tabular import TabularModel
from worker.export.onnx_file import write_onnx
from worker.tasks.tabular.exported import TableSamples, make_table_exportable
from worker.trainer.models.table_network import TableShape
from worker.trainer.models.tabular import build_tabular_model
from worker.trainer.tables.table import (
    learn_preparation,
    load_table,
    prepare_codes,
    prepare_numbers,
)
from worker.trainer.tables.target_scale import TargetScale


@pytest.fixture
def table(write_table):
    return load_table(write_table())


def build(table, *, name="mlp", target=None):
    preparation = learn_preparation(table)
    shape = TableShape(
        num_numbers=preparation.num_numbers,
        num_categories=[len(column.categories) for column in table.categorical],
        num_classes=None if target else 2,
    )
    model = TabularModel.model_validate({"name": name, "options": {"embedding_size": 3}})
    torch.manual_seed(0)
    network = build_tabular_model(model, shape).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    exportable = make_table_exportable(network, shape, preparation, target=target, architecture={})
    return network, shape, preparation, exportable


@pytest.mark.parametrize("name", ["tabm", "mlp", "linear"])
def test_raw_rows_give_the_same_outputs_as_prepared_rows(table, name):
    network, shape, preparation, exportable = build(table, name=name)
    numbers = torch.from_numpy(prepare_numbers(table.numbers, preparation))
    places = torch.from_numpy(prepare_codes(table.codes, unknown_places=shape.unknown_places))
    expected = network(numbers, places)
    raw = TableSamples(table).get(np.arange(240))
    assert np.isnan(raw["numbers"]).any()
    assert (raw["codes"] == -1).any()
    found = exportable.module(*map(torch.from_numpy, raw.values()))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_a_regression_predicts_in_its_own_unit(table):
    _, _, _, plain = build(table, target=TargetScale(0.0, 1.0))
    _, _, _, scaled = build(table, target=TargetScale(500.0, 100.0))
    assert scaled.output == "value"
    inputs = plain.examples.values()
    values = plain.module(*inputs)
    torch.testing.assert_close(scaled.module(*inputs), 500 + 100 * values)
    _, _, _, logs = build(table, target=TargetScale(1.0, 0.1, is_log=True))
    torch.testing.assert_close(logs.module(*inputs), torch.exp(1 + 0.1 * values))


def test_the_file_accepts_gaps_and_unknown_categories(table, tmp_path):
    _, _, _, exportable = build(table)
    path = tmp_path / "model.onnx"
    write_onnx(exportable, path, opset=20, metadata={})
    session = onnxruntime.InferenceSession(path)
    numbers = np.array([[50, np.nan], [np.nan, np.nan], [np.inf, -1e38]], np.float32)
    codes = np.array([[-1], [7], [-(2**40)]])
    (logits,) = session.run(["logits"], {"numbers": numbers, "codes": codes})
    assert np.isfinite(logits).all()
    expected = exportable.module(torch.from_numpy(numbers), torch.from_numpy(codes))
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    # A value that is not a category counts as missing.
    unknown = session.run(None, {"numbers": numbers, "codes": np.full((3, 1), -1)})[0]
    np.testing.assert_array_equal(unknown, logits)


def test_examples_contain_gaps_and_unknown_categories(table):
    _, _, _, exportable = build(table)
    assert exportable.examples["numbers"].shape == (2, 2)
    assert exportable.others["codes"].shape == (5, 1)
    assert torch.isnan(exportable.others["numbers"]).any()
