"""What the card says of a model of a table alone: how to run it, and what it learnt from."""

import json
from typing import Any

from redkiln.spec.tabular import TabularModel
from worker.export.card.markdown import escape
from worker.export.target import CardTexts
from worker.tasks.tabular.exported import CODES, NUMBERS
from worker.trainer.tables.table import Table

USAGE_NUMBERS = """\
    columns = inputs["numbers"]["columns"]
    numbers = [[row.get(name) for name in columns] for row in rows]
"""
USAGE_FEED = """\
    feed["numbers"] = np.array(numbers, dtype=np.float32)  # None becomes NaN: missing
"""
USAGE_GAPS = """\
    gaps = inputs["numbers"]["missing_numbers"]  # what stood for no value in the table
    numbers = [[None if value in gaps else value for value in row] for row in numbers]
"""
USAGE_CODES = """\
    columns = inputs["codes"]["categories"].items()
    codes = [[find(row.get(name), among) for name, among in columns] for row in rows]
    feed["codes"] = np.array(codes, dtype=np.int64)
"""
USAGE_FIND = """

def find(value, among):
    return among.index(str(value)) if str(value) in among else -1  # -1: missing or unknown
"""
USAGE_CLASSES = """\
    (logits,) = session.run(["logits"], feed)
    return [classes[label] for label in logits.argmax(axis=1)]
"""
USAGE_VALUE = """\
    (values,) = session.run(["value"], feed)
    return values.tolist()
"""
NUM_SHOWN = 3
"""Columns of the snippet's example row, of either kind."""
MAX_LISTED = 30


def write_table_texts(
    table: Table, model: TabularModel, *, preprocessing: dict[str, Any]
) -> CardTexts:
    """The parts of the card that are about a table.

    Args:
        table: that was trained on.
        model: of the resolved spec.
        preprocessing: of the manifest.
    """
    index = table.index
    num = len(table.numeric) + len(table.categorical)
    columns = f"{num} column" + ("s" if num != 1 else "")
    if index.classes:
        does = f"sorts rows of {columns} into {len(index.classes)} classes"
    else:
        does = f"predicts `{escape(index.target)}` from {columns}"
    origin = f"First weights: `{model.pretrained}` ({model.initial_weights})"
    return CardTexts(
        does=does,
        usage=f"{_takes(table)}\n\n{usage_code(table)}",
        preprocessing=_describe(preprocessing),
        training=[
            _describe_network(model, has_categories=bool(table.categorical)),
            *([] if model.pretrained is None else [origin]),
        ],
    )


def usage_code(table: Table) -> str:
    """A runnable snippet that brings rows, as dicts, to the model."""
    head = [
        "import json",
        "",
        "import numpy as np",
        "import onnxruntime",
        "",
        'session = onnxruntime.InferenceSession("model.onnx")',
        "metadata = session.get_modelmeta().custom_metadata_map",
        'inputs = {part["name"]: part for part in json.loads(metadata["preprocessing"])["inputs"]}',
    ]
    if table.index.classes:
        head.append('classes = json.loads(metadata["classes"])')
    body = "\n\ndef predict(rows):\n    feed = {}\n"
    if table.numeric:
        gaps = USAGE_GAPS if table.index.missing_numbers else ""
        body += USAGE_NUMBERS + gaps + USAGE_FEED
    body += USAGE_CODES if table.categorical else ""
    body += USAGE_CLASSES if table.index.classes else USAGE_VALUE
    find = USAGE_FIND if table.categorical else ""
    example = _example_row(table).items()
    row = "".join(f"    {json.dumps(name)}: {json.dumps(value)},\n" for name, value in example)
    call = f"\n\nrow = {{\n{row}}}  # what is left away counts as missing\nprint(predict([row]))"
    return f"```python\n{chr(10).join(head)}\n{find}{body}{call}\n```"


def _example_row(table: Table) -> dict[str, float | str]:
    """A few columns of the first test row, those that have a value."""
    place = table.index.num_train
    row: dict[str, float | str] = {}
    for column, number in zip(table.numeric[:NUM_SHOWN], table.numbers[place], strict=False):
        if number == number:
            row[column.name] = float(f"{number:.6g}")
    for column, code in zip(table.categorical[:NUM_SHOWN], table.codes[place], strict=False):
        if code >= 0:
            row[column.name] = column.categories[code]
    return row


def _takes(table: Table) -> str:
    inputs = []
    if table.numeric:
        inputs.append(
            f"`{NUMBERS}`, float32 (batch, {len(table.numeric)}), NaN where a value is missing"
        )
    if table.categorical:
        inputs.append(
            f"`{CODES}`, int64 (batch, {len(table.categorical)}), the place of each value among "
            "its column's categories, -1 where it is missing or unknown"
        )
    if table.index.classes:
        gives = "It gives `logits` (batch, classes); class names are in its metadata."
    else:
        gives = f"It gives `value` (batch): {escape(table.index.target)}, in its own unit."
    return (
        f"`model.onnx` takes {', and '.join(inputs)}; any batch size. Values are raw: preparing "
        f"them is inside. Columns and categories, in their order, are in its metadata. {gives}"
    )


def _describe(preprocessing: dict[str, Any]) -> str:
    parts = []
    for item in preprocessing["inputs"]:
        names = [escape(name) for name in item["columns"]]
        listed = ", ".join(names[:MAX_LISTED])
        more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        if item["name"] == NUMBERS:
            gaps = len(item["missing_flags"])
            told = f", {gaps} with gaps that the model is told of" if gaps else ""
            parts.append(f"numeric columns, standardised{told}: {listed}{more}")
        else:
            parts.append(f"categorical columns, embedded: {listed}{more}")
    return "; ".join(parts)


def _describe_network(model: TabularModel, *, has_categories: bool) -> str:
    options = model.options
    if model.name == "linear":
        return "Network: a weight for each number and each category"
    hidden = ", ".join(map(str, options.hidden))
    embedded = f", embeddings of {options.embedding_size}" if has_categories else ""
    return f"Network: hidden layers of {hidden}, dropout {options.dropout}{embedded}"
