"""Metrics as a DataFrame, with a stand-in for pandas, which the tests do not install."""

import sys
from types import SimpleNamespace

import pytest

from redkiln.errors import RedkilnError
from redkiln.notebook.frames import to_frame
from redkiln.views.metrics import Series
from tests.redkiln.fake_service import JOB_ID


@pytest.fixture
def pandas(monkeypatch):
    """A module whose DataFrame is the arguments that it was built from."""

    def build_index(values, *, name):
        return (name, values)

    def build_frame(columns, *, index, dtype):
        return SimpleNamespace(columns=columns, index=index, dtype=dtype)

    module = SimpleNamespace(Index=build_index, DataFrame=build_frame)
    monkeypatch.setitem(sys.modules, "pandas", module)


def series(name, steps, values):
    return Series(name=name, steps=steps, values=values, num_points=len(steps), downsampled=False)


def test_each_metric_is_a_column_and_each_step_a_row(pandas):
    loss = series("train/loss", [1, 2, 3], [2.0, None, 0.5])
    accuracy = series("val/accuracy", [0, 3], [0.1, 0.9])
    frame = to_frame([loss, accuracy])
    assert frame.index == ("step", [0, 1, 2, 3])
    assert frame.columns == {
        "train/loss": [None, 2.0, None, 0.5],
        "val/accuracy": [0.1, None, None, 0.9],
    }
    assert frame.dtype == "float64"


def test_the_client_reads_the_metrics_of_a_job_as_a_frame(client, pandas):
    assert client.metrics_frame(JOB_ID).columns == {"train/loss": [2.0, 1.0, 0.5]}


def test_without_pandas_the_error_says_how_to_install_it(client, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RedkilnError, match="pip install pandas"):
        client.metrics_frame(JOB_ID)
