"""The card's code that passes rows, as dicts, to the model of a table.

It reads values as `redkiln predict` does (`redkiln/predict/rows.py`), but refuses unknown columns
and categories.
"""

import inspect
import json
from types import ModuleType

from redkiln import dates
from redkiln.cells import amounts, prose
from worker.export.card.usage import LABELS, SOFTMAX
from worker.tasks.tabular.original_row import MOST_COLUMNS, open_columns
from worker.trainer.tables.table import Table

HEAD = """\
import json
import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before the import, or it reports its use

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
metadata = session.get_modelmeta().custom_metadata_map
preprocessing = json.loads(metadata["preprocessing"])
inputs = {part["name"]: part for part in preprocessing["inputs"]}
missing = {"", *(word.casefold() for word in preprocessing["missing_words"])}
ignored = set(preprocessing["ignored"])  # columns that the model does not read
"""
HEAD_CLASSES = """\
classes = json.loads(metadata["classes"])
"""
CHECK = """

def is_missing(value):
    return value is None or str(value).strip().casefold() in missing


def check(row):
    derived = inputs.get("numbers", {}).get("derived", {})
    known = {name for part in inputs.values() for name in part["columns"] if name not in derived}
    known |= {origin["column"] for origin in derived.values()}
    known |= {origin["since"] for origin in derived.values() if "since" in origin}
    if unknown := set(row) - known - ignored:
        raise ValueError(f"unknown columns {unknown}; correct them, or add them to `ignored`")
    return row
"""
NUMBER = """

def number(row, name):
    if is_missing(row.get(name)):
        return None
    try:
        return float(row[name])
    except ValueError:
        raise ValueError(f"column {name}: {row[name]!r} is not a number") from None
"""
AMOUNT = """

def number(row, name):
    value, written = row.get(name), inputs["numbers"]["written"].get(name)
    if is_missing(value):
        return None
    try:
        if written is None or not isinstance(value, str):
            return float(value)
        amount = read_amount(value, **written)
    except ValueError:
        raise ValueError(f"column {name}: {value!r} is not a number") from None
    if amount.doubt:
        warnings.warn(f"column {name}: {describe_doubt(value, amount)}", stacklevel=2)
    return amount.number
"""
NUMBERS = """\
    columns = inputs["numbers"]["columns"]
    numbers = [[number(row, name) for name in columns] for row in rows]
"""
FEED = """\
    feed["numbers"] = np.array(numbers, dtype=np.float32)  # None becomes NaN: missing
"""
GAPS = """\
    gaps = inputs["numbers"]["missing_numbers"]  # numbers that mean "missing" in the table
    kept = inputs["numbers"]["derived"]
    numbers = [
        [None if value in gaps and name not in kept else value for name, value in zip(columns, row)]
        for row in numbers
    ]
"""
DATES = """

def derive(row):
    row = dict(row)
    for name, origin in inputs["numbers"]["derived"].items():
        if origin["part"] == "word":
            continue
        end = read_parts(row, origin["column"], day_first=origin["day_first"])
        if origin["part"] == "days_since":
            start = read_parts(row, origin["since"], day_first=origin["since_day_first"])
            row[name] = end["ordinal"] - start["ordinal"] if end and start else None
        else:
            row[name] = end[origin["part"]] if end else None
    return row


def read_parts(row, name, *, day_first):
    if is_missing(row.get(name)):
        return None
    moment = read_date(str(row[name]), day_first=day_first)
    if moment is None:
        raise ValueError(f"column {name}: {row[name]!r} is not a date")
    return derive_from_date(moment)
"""
WORDS = """

def derive_words(row):
    row = dict(row)
    for name, origin in inputs["numbers"]["derived"].items():
        if origin["part"] == "word":
            text = row.get(origin["column"])
            words = set() if is_missing(text) else find_words(str(text))
            row[name] = float(origin["word"] in words)
    return row
"""
CODES = """\
    columns = inputs["codes"]["categories"].items()
    codes = [[find(row.get(name), name, among) for name, among in columns] for row in rows]
    feed["codes"] = np.array(codes, dtype=np.int64)
"""
FIND = """

def find(value, name, among):
    text = str(value).strip()
    if text in among:
        return among.index(text)
    if is_missing(value):
        return -1  # the model also takes -1 for an unknown category
    raise ValueError(f"column {name}: {value!r} was not in the training data")
"""
ANSWER_CLASSES = """\
    (logits,) = session.run(["logits"], feed)
    return [dict(zip(classes, softmax(row), strict=True)) for row in logits]
"""
ANSWER_LABELS = """\
    (probabilities,) = session.run(["probabilities"], feed)
    return [find_labels(row) for row in probabilities]
"""
ANSWER_VALUE = """\
    (values,) = session.run(["value"], feed)
    return values.tolist()
"""


def usage_code(table: Table) -> str:
    """Return a runnable snippet that passes rows, as dicts, to the model."""
    imports, helpers = _derivations(table)
    head = HEAD.replace("import os\n", "\n".join(["import os", *imports, ""]), 1)
    head += HEAD_CLASSES if table.index.classes else ""
    code = head + CHECK + _readers(table) + helpers + _predict(table) + _call(table)
    return f"```python\n{code}\n```"


def _parts(table: Table) -> set[str]:
    return {column.derived.part for column in table.numeric if column.derived}


def _has_amounts(table: Table) -> bool:
    return any(column.written for column in table.numeric)


def _derivations(table: Table) -> tuple[list[str], str]:
    """Return the imports and the code of what reads amounts, dates and words."""
    parts = _parts(table)
    imports: dict[str, None] = {}
    helpers = ""
    needed = (
        (amounts, _has_amounts(table), ""),
        (dates, bool(parts - {"word"}), DATES),
        (prose, "word" in parts, WORDS),
    )
    for module, is_used, code in needed:
        if is_used:
            first, rest = _split_source(module)
            imports |= dict.fromkeys(first)
            imports |= {"import warnings": None} if module is amounts else {}
            helpers += f"\n\n{rest}\n{code}"
    return list(imports), helpers


def _split_source(module: ModuleType) -> tuple[list[str], str]:
    """Return a module's imports, and its code without them and its docstring."""
    code = inspect.getsource(module).removeprefix(f'"""{module.__doc__}"""').strip()
    imports, _, rest = code.partition("\n\n")
    return imports.splitlines(), rest


def _readers(table: Table) -> str:
    code = ""
    if table.numeric:
        code += AMOUNT if _has_amounts(table) else NUMBER
    code += FIND if table.categorical else ""
    if table.index.classes:
        code += SOFTMAX if table.labels is None else LABELS
    return code


def _predict(table: Table) -> str:
    parts = _parts(table)
    body = "\n\ndef predict(rows):\n    feed = {}\n    rows = [check(row) for row in rows]\n"
    body += "    rows = [derive(row) for row in rows]\n" if parts - {"word"} else ""
    body += "    rows = [derive_words(row) for row in rows]\n" if "word" in parts else ""
    if table.numeric:
        body += NUMBERS + (GAPS if table.index.missing_numbers else "") + FEED
    body += CODES if table.categorical else ""
    if table.labels is not None:
        return body + ANSWER_LABELS
    return body + (ANSWER_CLASSES if table.index.classes else ANSWER_VALUE)


def _call(table: Table) -> str:
    example = example_row(table).items()
    row = "".join(f"    {json.dumps(name)}: {json.dumps(value)},\n" for name, value in example)
    call = f"\n\nrow = {{\n{row}}}  # {_describe_example(table)}\n"
    call += "(predicted,) = predict([row])\nprint(predicted)"
    is_one_class = table.index.classes and table.labels is None
    return call + ("\nprint(max(predicted, key=predicted.get))" if is_one_class else "")


def example_row(table: Table) -> dict[str, int | float | str]:
    """Return the first test row, without the columns that it has no value of."""
    place = table.index.num_train
    columns = list(open_columns(table).items())[:MOST_COLUMNS]
    cells = {name: read(place) for name, read in columns}
    return {name: cell for name, cell in cells.items() if cell is not None}


def _describe_example(table: Table) -> str:
    """Return a comment on the example row: what it does not show."""
    num = len(open_columns(table))
    part = f"the first {MOST_COLUMNS} of {num} columns, " if num > MOST_COLUMNS else ""
    return f"{part}as in csv.DictReader; absent columns count as missing"
