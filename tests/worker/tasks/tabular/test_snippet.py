import json

import numpy as np
import onnx
import pytest
import torch

from redkiln.spec.tabular import TabularModel
from redkiln.tables import Derived, Written
from worker.export.onnx_file import write_onnx
from worker.tasks.tabular.exported import describe_preparation, make_table_exportable
from worker.tasks.tabular.snippet import usage_code
from worker.trainer.models.table_network import TableShape
from worker.trainer.models.tabular import build_tabular_model
from worker.trainer.tables.table import learn_preparation, load_table
from worker.trainer.tables.target_scale import TargetScale


@pytest.fixture
def table(write_table):
    table = load_table(write_table(task="tabular-regression"))
    table.index.missing_numbers = [-999.0]
    return table


@pytest.fixture
def model_path(make_model):
    return make_model()


@pytest.fixture
def make_model(table, exported, tmp_path):
    """Writes the same linear model of the table, with the table's description of now."""

    def make():
        described = describe_preparation(table, learn_preparation(table), output="value")
        model = onnx.load(exported)
        onnx.helper.set_model_props(model, {"preprocessing": json.dumps(described)})
        onnx.save(model, tmp_path / "model.onnx")
        return tmp_path / "model.onnx"

    return make


@pytest.fixture
def exported(table, cache_dir):
    """A linear model of the table, exported once."""
    path = cache_dir / "linear-card.onnx"
    if not path.exists():
        write_model(table, path)
    return path


def write_model(table, path):
    preparation = learn_preparation(table)
    shape = TableShape(
        num_numbers=preparation.num_numbers,
        num_categories=[len(column.categories) for column in table.categorical],
        num_classes=None,
    )
    model = TabularModel.model_validate({"name": "linear"})
    network = build_tabular_model(model, shape).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    exportable = make_table_exportable(
        network, shape, preparation, target=TargetScale(500.0, 100.0), architecture={}
    )
    write_onnx(exportable, path, opset=20, metadata={})


def run_snippet(table):
    scope = {}
    exec(usage_code(table).strip("`").removeprefix("python"), scope)
    return scope["predict"]


def test_the_reports_code_treats_missing_numbers_as_none(table, model_path, monkeypatch):
    monkeypatch.chdir(model_path.parent)
    gap, none, value = run_snippet(table)([{"size": -999}, {"size": None}, {"size": 90.0}])
    assert gap == none
    assert not np.isclose(gap, value)


def test_the_reports_code_omits_gaps_without_missing_numbers(table):
    assert "missing_numbers" in usage_code(table)
    table.index.missing_numbers = []
    assert "missing_numbers" not in usage_code(table)


def test_the_reports_code_derives_numbers_from_dates(table, make_model, monkeypatch):
    monkeypatch.chdir(make_model().parent)
    march, june, none = run_snippet(table)([{"size": 3.0}, {"size": 6.0}, {"size": None}])
    table.numeric[0].derived = Derived(column="sold", part="month", day_first=True)
    make_model()
    rows = [{"sold": "05/03/2024"}, {"sold": "2024-06-30 12:00"}, {"sold": " n/a"}, {}]
    assert run_snippet(table)(rows) == [march, june, none, none]
    with pytest.raises(ValueError, match="column sold: 'soon' is not a date"):
        run_snippet(table)([{"sold": "soon"}])


def test_the_reports_code_derives_the_days_between_two_dates(table, make_model, monkeypatch):
    monkeypatch.chdir(make_model().parent)
    three, none = run_snippet(table)([{"size": 3.0}, {"size": None}])
    table.numeric[0].derived = Derived(
        column="sent", part="days_since", day_first=True, since="ordered", since_day_first=False
    )
    make_model()
    rows = [{"sent": "03/02/24", "ordered": "01/31/24"}, {"sent": "03/02/24", "ordered": ""}]
    assert run_snippet(table)(rows) == [three, none]


def test_the_reports_code_derives_numbers_from_words_and_dates(table, make_model, monkeypatch):
    monkeypatch.chdir(make_model().parent)
    one, none = run_snippet(table)([{"size": 1.0}, {"size": 0.0}])
    table.numeric[0].derived = Derived(column="about", part="word", word="quiet")
    make_model()
    rows = [{"about": "Quiet, new"}, {"about": "loud"}, {"about": ""}, {}]
    assert run_snippet(table)(rows) == [one, none, none, none]
    table.numeric[1].derived = Derived(column="sold", part="month")
    make_model()
    rows = [{"about": "quiet", "sold": "2024-03-05"}, {"about": "loud", "sold": "2024-03-05"}]
    first, second = run_snippet(table)(rows)
    assert first != second


@pytest.mark.parametrize("word", ["NA", "?", "n/a", " ", None])
def test_the_reports_code_reads_missing_amounts(table, make_model, monkeypatch, word):
    table.numeric[0].written = Written(unit="$")
    monkeypatch.chdir(make_model().parent)
    gap, none = run_snippet(table)([{"size": word}, {}])
    assert gap == none
    with pytest.raises(ValueError, match=r"column size: '\$12 or so' is not a number"):
        run_snippet(table)([{"size": "$12 or so"}])


def test_the_reports_code_knows_the_tables_words_for_missing_values(table, make_model, monkeypatch):
    table.index.missing_words = ["-", "Unbekannt"]
    monkeypatch.chdir(make_model().parent)
    gap, none = run_snippet(table)([{"size": "-", "colour": "unbekannt "}, {}])
    assert gap == none
    with pytest.raises(ValueError, match="column size: 'NA' is not a number"):
        run_snippet(table)([{"size": "NA"}])


def test_the_reports_code_ignores_blanks_around_categories(table, make_model, monkeypatch):
    monkeypatch.chdir(make_model().parent)
    plain, blank = run_snippet(table)([{"colour": "green"}, {"colour": " green\t"}])
    assert plain == blank


def test_the_reports_code_accepts_the_columns_that_training_left_out(
    table, make_model, monkeypatch
):
    table.index.ignored = ["id", "price", "split"]
    monkeypatch.chdir(make_model().parent)
    row = {"size": "3", "id": "17", "split": "train", table.index.target: "9"}
    whole, part = run_snippet(table)([row, {"size": 3}])
    assert whole == part
    with pytest.raises(ValueError, match=r"unknown columns .*sice"):
        run_snippet(table)([row | {"sice": "3"}])


@pytest.mark.parametrize(
    ("text", "decimal"), [("$1,200.50", "."), ("1.200,50 $", ","), (1200.5, ".")]
)
def test_the_reports_code_reads_amounts_as_the_table_writes_them(
    table, make_model, monkeypatch, text, decimal
):
    monkeypatch.chdir(make_model().parent)
    expected = run_snippet(table)([{"size": 1200.5}, {"size": None}])
    table.numeric[0].written = Written(unit="$", decimal=decimal)
    make_model()
    assert run_snippet(table)([{"size": text}, {"size": ""}]) == expected


def test_the_reports_code_warns_of_amounts_that_are_written_unlike_training(
    table, make_model, monkeypatch
):
    monkeypatch.chdir(make_model().parent)
    expected = run_snippet(table)([{"size": 60.5}])
    table.numeric[0].written = Written(unit="€")
    make_model()
    with pytest.warns(UserWarning, match="column size: '€60,50' was read as 60.5, .* '€60.50'"):
        assert run_snippet(table)([{"size": "€60,50"}]) == expected


def test_the_columns_without_gaps_in_training_are_described(table):
    sizes, colours = table.numbers[:, 0], table.codes[:, 0]
    described = describe_preparation(table, learn_preparation(table), output="value")
    names = [column.name for column in table.index.columns]
    assert 0 < len(described["complete_columns"]) < len(names)
    rows = slice(table.index.num_train)
    table.numbers[rows] = 1.0
    table.codes[rows] = 0
    table.numeric[0].derived = Derived(column="sold", part="month")
    described = describe_preparation(table, learn_preparation(table), output="value")
    assert {*described["complete_columns"]} == {*names, "sold"} - {table.numeric[0].name}
    sizes[0], colours[0] = np.nan, -1
    described = describe_preparation(table, learn_preparation(table), output="value")
    assert described["complete_columns"] == [table.numeric[1].name]


def test_the_reports_code_turns_telemetry_off_before_the_import(table):
    before, _, _ = usage_code(table).partition("import onnxruntime")
    assert 'os.environ["ORT_DISABLE_TELEMETRY"] = "1"' in before


def test_how_a_target_is_written_is_described_for_those_who_score_the_model(table):
    preparation = learn_preparation(table)
    assert "target_written" not in describe_preparation(table, preparation, output="value")
    table.index.target_written = Written(unit="€", decimal=",")
    described = describe_preparation(table, preparation, output="value")
    assert described["target_written"]["unit"] == "€"


def test_the_encoding_that_the_owner_of_the_table_named_is_described(table):
    assert "encoding" not in describe_preparation(table, learn_preparation(table), output="value")
    table.index.encoding = "cp932"
    described = describe_preparation(table, learn_preparation(table), output="value")
    assert described["encoding"] == "cp932"
