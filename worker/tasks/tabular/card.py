"""The card's texts about a model of a table: how to run it, and its columns."""

from typing import Any

from redkiln.spec.boosting import BOOSTING
from redkiln.spec.tabular import TabularModel
from worker.export.card.markdown import escape
from worker.export.target import CardTexts
from worker.tasks.tabular.column_snippet import write_column_usage
from worker.tasks.tabular.exported import CODES, NUMBERS
from worker.tasks.tabular.snippet import usage_code
from worker.trainer.tables.table import Table

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
        usage=write_column_usage(table, preprocessing)
        if preprocessing.get("interface") == "embedded"
        else f"{_takes(table)}\n\n{usage_code(table)}",
        preprocessing=_describe(preprocessing, is_tree=is_tree),
        training=[
            *(
                []
                if is_tree
                else [_describe_network(model, has_categories=bool(table.categorical))]
            ),
            *_describe_target(preprocessing),
            *_describe_calibration(preprocessing),
            *_describe_weights(preprocessing, index.classes),
            *([] if model.pretrained is None else [origin]),
        ],
        course=[_describe_trees(model)] if is_tree else None,
        unit="nodes" if is_tree else "parameters",
    )


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


def _describe_target(preprocessing: dict[str, Any]) -> list[str]:
    if "target_transform" not in preprocessing:
        return []
    name, reason = escape(preprocessing["target"]), preprocessing.get("target_transform_reason")
    because = f", because {escape(reason)}" if reason else ""
    other = f" To train on {name} itself: `--set training.target_transform=none`." if reason else ""
    factor = preprocessing["smearing"]
    times = "" if factor == 1 else f", {factor:.3f} times the exponential (smearing factor)"
    learns = f"Target: trained on the logarithm of {name}{because}."
    return [f"{learns}{other} The file returns {name} itself{times}"]


def _describe_calibration(preprocessing: dict[str, Any]) -> list[str]:
    temperature = preprocessing.get("temperature", 1.0)
    if temperature == 1.0:
        return []
    return [f"Calibration on held-out rows: logits are divided by {temperature:.3f}"]


def _describe_weights(preprocessing: dict[str, Any], classes: list[str]) -> list[str]:
    logs = preprocessing.get("weight_logs")
    if logs is None:
        return []
    named = zip(classes[:MAX_LISTED], logs, strict=False)
    listed = ", ".join(f"{log:+.3g} for {escape(name)}" for name, log in named)
    more = ", ..." if len(classes) > MAX_LISTED else ""
    text = (
        "Class weights: probabilities are those of a table in which the classes are as frequent as "
        "the weights make them, so rare classes look more probable than they are. For "
        "probabilities at the frequencies of the training split, subtract the logarithm of each "
        f"weight from the logits: {listed}{more}"
    )
    return [text]
