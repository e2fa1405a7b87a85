"""The card's texts about a model of a table: how to run it, and its columns."""

import inspect
import json
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

from redkiln import dates
from redkiln.cells import prose
from redkiln.spec.boosting import BOOSTING
from redkiln.spec.tabular import TabularModel
from redkiln.tables import MISSING_WORDS
from worker.export.card.markdown import escape
from worker.export.card.usage import LABELS, SOFTMAX
from worker.export.target import CardTexts
from worker.tasks.tabular.exported import CODES, NUMBERS
from worker.trainer.tables.table import Table

USAGE_CHECK = """

def is_missing(value):
    return value is None or str(value).strip().lower() in {missing}


def check(row):
    derived = inputs.get("numbers", {{}}).get("derived", {{}})
    known = {{name for part in inputs.values() for name in part["columns"] if name not in derived}}
    known |= {{origin["column"] for origin in derived.values()}}
    known |= {{origin["since"] for origin in derived.values() if "since" in origin}}
    if unknown := set(row) - known - ignored:
        raise ValueError(f"unknown columns {{unknown}}; correct them, or add them to `ignored`")
    return row
"""
USAGE_NUMBER = """

def number(row, name):
    if is_missing(row.get(name)):
        return None
    try:
        return float(row[name])
    except ValueError:
        raise ValueError(f"column {name}: {row[name]!r} is not a number") from None
"""
USAGE_NUMBERS = """\
    columns = inputs["numbers"]["columns"]
    numbers = [[number(row, name) for name in columns] for row in rows]
"""
USAGE_FEED = """\
    feed["numbers"] = np.array(numbers, dtype=np.float32)  # None becomes NaN: missing
"""
USAGE_GAPS = """\
    gaps = inputs["numbers"]["missing_numbers"]  # numbers that mean "missing" in the table
    kept = inputs["numbers"]["derived"]
    numbers = [
        [None if value in gaps and name not in kept else value for name, value in zip(columns, row)]
        for row in numbers
    ]
"""
USAGE_DATES = """

def derive(row):
    row = dict(row)
    for name, origin in inputs["numbers"]["derived"].items():
        if origin["part"] == "word":
            continue
        end = read_parts(row.get(origin["column"]), day_first=origin["day_first"])
        if origin["part"] == "days_since":
            start = read_parts(row.get(origin["since"]), day_first=origin["since_day_first"])
            row[name] = end["ordinal"] - start["ordinal"] if end and start else None
        else:
            row[name] = end[origin["part"]] if end else None
    return row


def read_parts(text, *, day_first):
    moment = read_date(str(text), day_first=day_first)
    return derive_from_date(moment) if moment else None
"""
USAGE_WORDS = """

def derive_words(row):
    row = dict(row)
    for name, origin in inputs["numbers"]["derived"].items():
        if origin["part"] == "word":
            text = row.get(origin["column"])
            words = set() if is_missing(text) else find_words(str(text))
            row[name] = float(origin["word"] in words)
    return row
"""
USAGE_WRITTEN = """

def read_numbers(row):
    row = dict(row)
    for name, written in inputs["numbers"]["written"].items():
        if isinstance(row.get(name), str):
            mark, other = written["decimal"], ("," if written["decimal"] == "." else ".")
            text = row[name].replace(written["unit"], "").replace(other, "")
            row[name] = float(text.replace(mark, ".")) if text.strip() else None
    return row
"""
USAGE_CODES = """\
    columns = inputs["codes"]["categories"].items()
    codes = [[find(row.get(name), name, among) for name, among in columns] for row in rows]
    feed["codes"] = np.array(codes, dtype=np.int64)
"""
USAGE_FIND = """

def find(value, name, among):
    if str(value) in among:
        return among.index(str(value))
    if is_missing(value):
        return -1  # the model also takes -1 for an unknown category
    raise ValueError(f"column {name}: {value!r} was not in the training data")
"""
USAGE_CLASSES = """\
    (logits,) = session.run(["logits"], feed)
    return [dict(zip(classes, softmax(row), strict=True)) for row in logits]
"""
USAGE_LABELS = """\
    (probabilities,) = session.run(["probabilities"], feed)
    return [find_labels(row) for row in probabilities]
"""
USAGE_VALUE = """\
    (values,) = session.run(["value"], feed)
    return values.tolist()
"""
NUM_SHOWN = 3
"""Most columns of each kind in the snippet's example row."""
MAX_LISTED = 30


def write_table_texts(
    table: Table, model: TabularModel, *, preprocessing: dict[str, Any]
) -> CardTexts:
    """Write the parts of the card that are about a table.

    Args:
        table: Table that the model was trained on.
        model: Model from the resolved spec.
        preprocessing: Preprocessing in the manifest.
    """
    index = table.index
    num = len(table.numeric) + len(table.categorical)
    columns = f"{num} column" + ("s" if num != 1 else "")
    if index.labels_separator is not None:
        does = f"finds which of {len(index.classes)} labels rows of {columns} have"
    elif index.classes:
        does = f"sorts rows of {columns} into {len(index.classes)} classes"
    else:
        does = f"predicts `{escape(index.target)}` from {columns}"
    is_tree = model.name == BOOSTING
    origin = f"Initial weights: `{model.pretrained}` ({model.initial_weights})"
    return CardTexts(
        does=does,
        usage=f"{_takes(table)}\n\n{usage_code(table)}",
        preprocessing=_describe(preprocessing, is_tree=is_tree),
        training=[
            *(
                []
                if is_tree
                else [_describe_network(model, has_categories=bool(table.categorical))]
            ),
            *_describe_calibration(preprocessing),
            *([] if model.pretrained is None else [origin]),
        ],
        course=[_describe_trees(model)] if is_tree else None,
        unit="nodes" if is_tree else "parameters",
    )


def usage_code(table: Table) -> str:
    """Return a runnable snippet that passes rows, as dicts, to the model."""
    head = [
        "import json",
        "import os",
        "",
        'os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before the import, or it reports its use',
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
    head.append(f"ignored = {{{table.index.target!r}}}  # columns that the model does not read")
    parts = {column.derived.part for column in table.numeric if column.derived}
    has_dates, has_words = bool(parts - {"word"}), "word" in parts
    has_units = any(column.written for column in table.numeric)
    body = "\n\ndef predict(rows):\n    feed = {}\n    rows = [check(row) for row in rows]\n"
    body += "    rows = [derive(row) for row in rows]\n" if has_dates else ""
    body += "    rows = [derive_words(row) for row in rows]\n" if has_words else ""
    body += "    rows = [read_numbers(row) for row in rows]\n" if has_units else ""
    if table.numeric:
        gaps = USAGE_GAPS if table.index.missing_numbers else ""
        body += USAGE_NUMBERS + gaps + USAGE_FEED
    body += USAGE_CODES if table.categorical else ""
    body += _answer(table)
    helpers = USAGE_CHECK.format(missing=_list_missing())
    helpers += USAGE_NUMBER if table.numeric else ""
    helpers += USAGE_FIND if table.categorical else ""
    if table.index.classes:
        helpers += SOFTMAX if table.labels is None else LABELS
    helpers += USAGE_WRITTEN if has_units else ""
    imports: dict[str, None] = {}
    for module, is_used, code in ((dates, has_dates, USAGE_DATES), (prose, has_words, USAGE_WORDS)):
        if is_used:
            first, rest = _split_source(module)
            imports |= dict.fromkeys(first)
            helpers += f"\n{rest}\n{code}"
    head[2:2] = imports
    example = _example_row(table).items()
    row = "".join(f"    {json.dumps(name)}: {json.dumps(value)},\n" for name, value in example)
    call = f"\n\nrow = {{\n{row}}}  # as in csv.DictReader; absent columns count as missing\n"
    call += "(predicted,) = predict([row])\nprint(predicted)"
    is_one_class = table.index.classes and table.labels is None
    call += "\nprint(max(predicted, key=predicted.get))" if is_one_class else ""
    return f"```python\n{chr(10).join(head)}\n{helpers}{body}{call}\n```"


def _answer(table: Table) -> str:
    if table.labels is not None:
        return USAGE_LABELS
    return USAGE_CLASSES if table.index.classes else USAGE_VALUE


def _split_source(module: ModuleType) -> tuple[list[str], str]:
    """Return a module's imports, and its code without them and its docstring."""
    code = inspect.getsource(module).removeprefix(f'"""{module.__doc__}"""').strip()
    imports, _, rest = code.partition("\n\n")
    return imports.splitlines(), rest


def _list_missing() -> str:
    words = sorted({"", *(word.lower() for word in MISSING_WORDS)})
    return f"({', '.join(map(json.dumps, words))})"


def _example_row(table: Table) -> dict[str, float | str]:
    """Return a few columns of the first test row, those that have a value."""
    place = table.index.num_train
    row: dict[str, float | str] = {}
    numbers = dict(
        zip((column.name for column in table.numeric), table.numbers[place], strict=True)
    )
    for column in [column for column in table.numeric if column.derived is None][:NUM_SHOWN]:
        number = numbers[column.name]
        if number == number:
            row[column.name] = float(f"{number:.6g}")
    for column in table.numeric:
        if column.derived is not None and column.derived.part == "ordinal":
            row |= _example_date(column.derived.column, numbers[column.name])
        elif column.derived is not None and column.derived.word and numbers[column.name]:
            origin = column.derived
            row[origin.column] = f"{row.get(origin.column, '')} {origin.word}".strip()
    for column, code in zip(table.categorical[:NUM_SHOWN], table.codes[place], strict=False):
        if code >= 0:
            row[column.name] = column.categories[code]
    return row


def _example_date(name: str, ordinal: float) -> dict[str, float | str]:
    """Return the date of a row; nothing if it is missing."""
    if ordinal != ordinal:
        return {}
    hours = round(float(ordinal) * 24)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
    return {name: f"{moment:%Y-%m-%d %H:%M}".removesuffix(" 00:00")}


def _takes(table: Table) -> str:
    inputs = []
    if table.numeric:
        inputs.append(
            f"`{NUMBERS}`, float32 (batch, {len(table.numeric)}), NaN if a value is missing"
        )
    if table.categorical:
        inputs.append(
            f"`{CODES}`, int64 (batch, {len(table.categorical)}), the index of each value among "
            "its column's categories, -1 if it is missing or unknown"
        )
    if table.labels is not None:
        gives = (
            "It returns `probabilities` (batch, classes), one for each class; its metadata contain "
            "the class names, and the threshold from which each class is a label."
        )
    elif table.index.classes:
        gives = "It returns `logits` (batch, classes); its metadata contain the class names."
    else:
        gives = f"It returns `value` (batch): {escape(table.index.target)}, in its own unit."
    return (
        f"`model.onnx` takes {', and '.join(inputs)}; any batch size. Values are raw, because the "
        f"model prepares them itself. Its metadata list columns and categories in order. {gives}"
    )


def _describe(preprocessing: dict[str, Any], *, is_tree: bool) -> str:
    parts = []
    for item in preprocessing["inputs"]:
        names = [escape(name) for name in item["columns"]]
        listed = ", ".join(names[:MAX_LISTED])
        more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        if item["name"] == NUMBERS:
            gaps = 0 if is_tree else len(item["missing_flags"])
            flags = f", {gaps} with a flag for missing values" if gaps else ""
            how = "as they are" if is_tree else "standardised"
            parts.append(f"numeric columns, {how}{flags}: {listed}{more}")
        else:
            how = "split by sets of categories" if is_tree else "embedded"
            parts.append(f"categorical columns, {how}: {listed}{more}")
    return "; ".join(parts)


def _describe_network(model: TabularModel, *, has_categories: bool) -> str:
    options = model.options
    if model.name == "linear":
        return "Network: one weight for each number and each category"
    hidden = ", ".join(map(str, options.hidden))
    embedded = f", embeddings of {options.embedding_size}" if has_categories else ""
    layers = f"hidden layers of {hidden}, dropout {options.dropout}{embedded}"
    if model.name == "tabm":
        return f"Network: {options.members} members with {layers}, up to {options.bins} bins"
    return f"Network: {layers}"


def _describe_trees(model: TabularModel) -> str:
    options = model.options
    return (
        "Histogram-based gradient boosting of scikit-learn: learning rate "
        f"{options.learning_rate}, at most {options.leaves} leaves a tree, at least "
        f"{options.min_samples_leaf} rows a leaf, L2 {options.l2:g}"
    )


def _describe_calibration(preprocessing: dict[str, Any]) -> list[str]:
    temperature = preprocessing.get("temperature", 1.0)
    if temperature == 1.0:
        return []
    return [f"Calibration on the validation split: logits are divided by {temperature:.3f}"]
