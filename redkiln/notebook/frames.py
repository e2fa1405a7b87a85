"""Metrics as a pandas DataFrame, where pandas is installed."""

import importlib
from collections.abc import Sequence
from typing import Any

from redkiln.errors import RedkilnError
from redkiln.views.metrics import Series


def to_frame(series: Sequence[Series]) -> Any:
    """Return a DataFrame with a row for each step and a column for each metric.

    Raises:
        RedkilnError: pandas is not installed.
    """
    pandas = _load_pandas()
    steps = sorted({step for one in series for step in one.steps})
    columns = {one.name: _fill(one, steps) for one in series}
    return pandas.DataFrame(columns, index=pandas.Index(steps, name="step"), dtype="float64")


def _fill(series: Series, steps: Sequence[int]) -> list[float | None]:
    """Return the values of a series at these steps, None where it has none."""
    values = dict(zip(series.steps, series.values, strict=True))
    return [values.get(step) for step in steps]


def _load_pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ModuleNotFoundError as error:
        message = "metrics_frame needs pandas, which is not installed. Run: pip install pandas"
        raise RedkilnError(message) from error
