"""Puts the reading of raw columns into a table's file: one input for each column.

Numbers are float32 with NaN where missing, categories are strings.

Shapes: B batch, F numeric columns, K categorical columns.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from redkiln.predict.columns import name_inputs
from redkiln.spec.tabular import TabularSpec
from worker.export.embedding.merge import ML, embed
from worker.tasks.tabular.exported import CODES, NUMBERS
from worker.trainer.tables.table import Table

ML_OPSET = 3
"""Operator set of ai.onnx.ml for a file that has no such operators itself."""
PREPARED = " prepared "


@dataclass(frozen=True)
class EmbeddedColumns:
    """What the ONNX files of a table get: raw columns in, classes out.

    Attributes:
        preprocessing: The model's preprocessing, with `columns`.
        num_classes: Number of classes; 0 for a regression.
        has_labels: Whether a row can have several labels.
    """

    preprocessing: dict[str, Any]
    num_classes: int
    has_labels: bool

    def apply(self, path: Path) -> None:
        """Rewrite a finished file so that it takes columns, with its metadata as they are."""
        parts = [part["name"] for part in self.preprocessing["inputs"]]
        embed(
            path,
            self._build,
            joins={f"{name}{PREPARED}": name for name in parts},
            output=self.preprocessing["output"],
            num_classes=self.num_classes,
            has_labels=self.has_labels,
        )

    def find_misses(self) -> list[str]:
        """Return nothing: the gate itself feeds columns."""
        return []

    def _build(self, like: onnx.ModelProto) -> onnx.ModelProto:
        """Build the graph of columns (B,) to numbers (B, F) and codes (B, K)."""
        graph = _Columns(self.preprocessing["columns"])
        outputs = []
        for part in self.preprocessing["inputs"]:
            add = graph.add_number if part["name"] == NUMBERS else graph.add_category
            wide = [add(name, part) for name in part["columns"]]
            output = f"{part['name']}{PREPARED}"
            graph.nodes.append(helper.make_node("Concat", wide, [output], axis=1))
            kind = TensorProto.FLOAT if part["name"] == NUMBERS else TensorProto.INT64
            outputs.append(helper.make_tensor_value_info(output, kind, ["batch", len(wide)]))
        opsets = {entry.domain: entry.version for entry in like.opset_import}
        if any(part["name"] == CODES for part in self.preprocessing["inputs"]):
            opsets.setdefault(ML, ML_OPSET)
        model: onnx.ModelProto = helper.make_model(
            helper.make_graph(graph.nodes, "columns", graph.inputs, outputs, graph.weights),
            opset_imports=[helper.make_opsetid(*pair) for pair in opsets.items()],
            ir_version=like.ir_version,
        )
        return model


def open_embedding(
    spec: TabularSpec, table: Table, preprocessing: dict[str, Any]
) -> tuple[dict[str, Any], EmbeddedColumns | None]:
    """Return the preprocessing with the names of inputs, and what embeds it, if the spec asks."""
    if spec.model.interface == "plain":
        return preprocessing, None
    columns = [name for part in preprocessing["inputs"] for name in part["columns"]]
    own = {**preprocessing, "interface": "embedded", "columns": name_inputs(columns)}
    has_labels = table.labels is not None
    return own, EmbeddedColumns(own, len(table.index.classes), has_labels)


class _Columns:
    """The nodes that read columns; names that end in a blank are those of no column."""

    def __init__(self, names: dict[str, str]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self._names = names
        self.weights = [numpy_helper.from_array(np.array([1], np.int64), "axis ")]

    def add_number(self, column: str, part: dict[str, Any]) -> str:
        """Add a number; those that mean missing become NaN, except if it is derived."""
        name = self._add_input(column, TensorProto.FLOAT)
        gaps = () if column in part.get("derived", {}) else part["missing_numbers"]
        for place, gap in enumerate(gaps):
            constant, nan = f"gap {column} {place} ", f"nan {column} {place} "
            self.weights += [
                numpy_helper.from_array(np.array(gap, np.float32), constant),
                numpy_helper.from_array(np.array(np.nan, np.float32), nan),
            ]
            is_gap, kept = f"is gap {column} {place} ", f"kept {column} {place} "
            self.nodes.append(helper.make_node("Equal", [name, constant], [is_gap]))
            self.nodes.append(helper.make_node("Where", [is_gap, nan, name], [kept]))
            name = kept
        return self._widen(column, name)

    def add_category(self, column: str, part: dict[str, Any]) -> str:
        """Add a category; any other text gets the code -1."""
        name, code = self._add_input(column, TensorProto.STRING), f"code {column} "
        categories = part["categories"][column]
        self.nodes.append(
            helper.make_node(
                "LabelEncoder",
                [name],
                [code],
                domain=ML,
                keys_strings=categories,
                values_int64s=list(range(len(categories))),
                default_int64=-1,
            )
        )
        return self._widen(column, code)

    def _add_input(self, column: str, kind: int) -> str:
        name = self._names[column]
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["batch"]))
        return name

    def _widen(self, column: str, name: str) -> str:
        wide = f"wide {column} "
        self.nodes.append(helper.make_node("Unsqueeze", [name, "axis "], [wide]))
        return wide
