"""The card's code for a model of a table that reads columns (`model.interface: embedded`)."""

import json
from typing import Any

from worker.export.card.markdown import escape
from worker.tasks.tabular.exported import NUMBERS
from worker.tasks.tabular.original_row import MOST_COLUMNS, open_inputs
from worker.trainer.tables.table import Table

CODE = """\
import json
import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before the import, or it reports its use

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
facts = json.loads(session.get_modelmeta().custom_metadata_map["preprocessing"])
numbers = {numbers}


def read(column, rows):
    values = [row.get(column) for row in rows]
    if column in numbers:
        return np.array(values, dtype=np.float32)  # None becomes NaN
    return np.array(["" if value is None else str(value) for value in values], dtype=object)


def predict(rows):
    feed = {{name: read(column, rows) for column, name in facts["columns"].items()}}
    return session.run(["{output}"], feed)[0].tolist()
"""


def write_column_usage(table: Table, preprocessing: dict[str, Any]) -> str:
    """Describe how to run a file that reads columns, with a runnable snippet."""
    parts = {part["name"]: part["columns"] for part in preprocessing["inputs"]}
    derived = [escape(column.name) for column in table.numeric if column.derived]
    computed = f" Compute these numbers yourself: {', '.join(derived)}." if derived else ""
    output = "probabilities" if table.index.classes else "value"
    code = CODE.format(numbers=parts.get(NUMBERS, []), output=output)
    call = "\n".join(f"    {json.dumps(k)}: {json.dumps(v)}," for k, v in _plain_row(table).items())
    num = len(table.index.columns)
    part = f"the first {MOST_COLUMNS} of {num} columns; " if num > MOST_COLUMNS else ""
    call = f"row = {{\n{call}\n}}  # {part}other columns are missing\n"
    return (
        "`model.onnx` takes an input (batch) for each column: numbers as float32 with NaN where "
        "missing, categories as strings, where any other text is missing. Inputs have the names of "
        f"their columns; `columns` in the preprocessing lists them.{computed} It returns "
        f"`{output}`.\n\n```python\n{code}\n\n{call}print(predict([row])[0])\n```"
    )


def _plain_row(table: Table) -> dict[str, int | float | str]:
    """Return the first inputs of the first test row, without those that it has no value of."""
    place = table.index.num_train
    cells = {name: read(place) for name, read in list(open_inputs(table).items())[:MOST_COLUMNS]}
    return {name: cell for name, cell in cells.items() if cell is not None}
