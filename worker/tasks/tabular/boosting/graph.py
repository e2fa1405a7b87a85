"""Boosted trees as an ONNX file with the inputs and outputs of every model of a table.

skl2onnx converts the trees. It does not know splits by category, so each set of categories becomes
a number, 0 or 1, that a small table in the graph looks up, and its split one by this number.

Shapes: B batch, K categorical columns, F numeric columns, C classes, S sets of one column.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from skl2onnx.common.tree_ensemble import (
    add_tree_to_attribute_pairs_hist_gradient_boosting,
    get_default_tree_regressor_attribute_pairs,
)
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

from worker.export.labelling import PROBABILITIES
from worker.tasks.tabular.boosting.trees import MOST_CATEGORIES, SMALLEST_LOG
from worker.tasks.tabular.exported import CODES, LOGITS, NUMBERS, VALUE
from worker.trainer.tables.target_scale import TargetScale

ML_OPSET = 3
FLOAT = np.float32
MIDDLE = 0.5
SETS_BITS = 32


@dataclass(frozen=True)
class TreeGraph:
    """What an ONNX file of trees is made from.

    Attributes:
        model: The fitted estimator, whose first K features are codes.
        num_categories: Number of categories of each categorical column.
        num_numbers: F.
        num_classes: C; None for a regression.
        target: How a regression's targets were standardised; None for classes.
        temperature: Number that logits are divided by; if rows can have several labels, one for
            each of them, and the output is probabilities.
    """

    model: Any
    num_categories: list[int]
    num_numbers: int
    num_classes: int | None
    target: TargetScale | None
    temperature: float | list[float] = 1.0

    def write(self, path: Path, opset: int) -> None:
        """Write the file."""
        onnx.save(_Writer(self).build(opset), path)


class _CategorySets:
    """The sets of categories that splits ask for, each with its place among the features."""

    def __init__(self, graph: TreeGraph) -> None:
        self._graph = graph
        self._found: list[dict[bytes, int]] = [{} for _ in graph.num_categories]
        encoder = None
        if graph.num_categories:
            encoder = graph.model._preprocessor.named_transformers_["encoder"]
        self._ordinals = [] if encoder is None else [_ordinals(c) for c in encoder.categories_]

    def add_splits(self, tree: Any) -> dict[int, tuple[int, int]]:
        """Add a tree's sets; return the column of each, and its place in it, by their nodes."""
        nodes, places = tree.nodes, {}
        for node in np.flatnonzero(nodes["is_categorical"]).tolist():
            column = int(nodes["feature_idx"][node])
            members = tree.raw_left_cat_bitsets[nodes["bitset_idx"][node]]
            missing_left = bool(nodes["missing_go_to_left"][node])
            rights = self._list_rights(column, members, missing_left=missing_left)
            known = self._found[column]
            places[node] = column, known.setdefault(rights.tobytes(), len(known))
        return places

    def tables(self) -> list[NDArray[np.float32]]:
        """Return a table (categories + 1, S) for each column; the first row is for gaps."""
        tables = []
        for num, known in zip(self._graph.num_categories, self._found, strict=True):
            rows = [np.frombuffer(content, np.float32) for content in known]
            # A column that no split asks for has one set, which nothing reads.
            tables.append(np.stack(rows or [np.zeros(num + 1, np.float32)], axis=1))
        return tables

    def _list_rights(
        self, column: int, members: NDArray[np.uint32], *, missing_left: bool
    ) -> NDArray[np.float32]:
        """Return 0 for each category that goes left, and 1 for one that goes right."""
        num, ordinals = self._graph.num_categories[column], self._ordinals[column]
        rights = np.full(num + 1, float(not missing_left), np.float32)
        for code in range(num):
            ordinal = ordinals.get(min(code, MOST_CATEGORIES - 1))
            if ordinal is not None:
                bit = int(members[ordinal // SETS_BITS]) >> (ordinal % SETS_BITS) & 1
                rights[code + 1] = 1.0 - bit
        return rights


@dataclass
class _Writer:
    """Collects the nodes of a graph."""

    graph: TreeGraph
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def build(self, opset: int) -> Any:
        graph = self.graph
        sets = _CategorySets(graph)
        trees = _split_by_numbers(graph, sets)
        tables = sets.tables()
        self._add_features(tables)
        self._add_trees(trees)
        is_classifier = graph.num_classes is not None
        output = self._add_output()
        inputs = []
        shape: list[str | int | None]
        if graph.num_numbers:
            shape = ["batch", graph.num_numbers]
            inputs.append(helper.make_tensor_value_info(NUMBERS, TensorProto.FLOAT, shape))
        if tables:
            shape = ["batch", len(tables)]
            inputs.append(helper.make_tensor_value_info(CODES, TensorProto.INT64, shape))
        shape = ["batch", graph.num_classes] if is_classifier else ["batch"]
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
        body = helper.make_graph(self.nodes, "trees", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        return helper.make_model(
            body,
            opset_imports=opsets,
            ir_version=helper.find_min_ir_version_for(opsets),
            producer_name="skl2onnx",
        )

    def _node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def _constant(self, name: str, value: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def _add_features(self, tables: list[NDArray[np.float32]]) -> None:
        parts = [NUMBERS] if self.graph.num_numbers else []
        if tables:
            # A code that is not a category counts as missing: place 0.
            nums = self._constant("num_categories", np.array(self.graph.num_categories, np.int64))
            one = self._constant("one", np.int64(1))
            zero = self._constant("zero", np.int64(0))
            below = self._node("Less", [CODES, nums], "codes_below")
            above = self._node("GreaterOrEqual", [CODES, zero], "codes_above")
            is_known = self._node("And", [below, above], "codes_known")
            shifted = self._node("Add", [CODES, one], "codes_shifted")
            places = self._node("Where", [is_known, shifted, zero], "places")
        for column, table in enumerate(tables):
            number = self._constant(f"column_{column}", np.int64(column))
            place = self._node("Gather", [places, number], f"place_{column}", axis=1)
            sets = self._constant(f"sets_{column}", table)
            parts.append(self._node("Gather", [sets, place], f"in_sets_{column}", axis=0))
        self._node("Concat", parts, "features", axis=1)

    def _add_trees(self, trees: list[list[Any]]) -> None:
        """Add the trees as one node; its scores are (B, trees of an iteration)."""
        attributes = get_default_tree_regressor_attribute_pairs()
        each = len(trees[0])
        for number, row in enumerate(trees):
            for place, tree in enumerate(row):
                add_tree_to_attribute_pairs_hist_gradient_boosting(
                    attributes, False, tree, number * each + place, 1.0, place, False, dtype=FLOAT
                )
        # Newer onnx refuses the booleans in it.
        tracks = attributes["nodes_missing_value_tracks_true"]
        attributes["nodes_missing_value_tracks_true"] = [int(value) for value in tracks]
        attributes["n_targets"] = each
        attributes["base_values"] = self.graph.model._baseline_prediction.ravel().tolist()
        self._node(
            "TreeEnsembleRegressor", ["features"], "scores", domain="ai.onnx.ml", **attributes
        )

    def _add_output(self) -> str:
        if self.graph.num_classes is None:
            return self._add_value()
        if isinstance(self.graph.temperature, list):
            return self._add_probabilities(self.graph.temperature)
        return self._add_logits(self.graph.temperature)

    def _add_probabilities(self, temperatures: list[float]) -> str:
        divisors = self._constant("temperatures", np.array(temperatures, np.float32))
        scaled = self._node("Div", ["scores", divisors], "scaled_scores")
        return self._node("Sigmoid", [scaled], PROBABILITIES)

    def _add_logits(self, divisor: float) -> str:
        graph = self.graph
        known = graph.model.classes_.astype(np.int64).tolist()
        column = self._constant("first_column", np.array([0], np.int64))
        nothing = self._constant("nothing", np.float32(0))
        first = self._node("Gather", ["scores", column], "first_score", axis=1)
        zeros = self._node("Mul", [first, nothing], "zeros")
        sums = "scores"
        if len(known) == 2:
            # Of two classes, the trees score the second one.
            sums = self._node("Concat", [zeros, first], "two_scores", axis=1)
        logs = self._node("LogSoftmax", [sums], "log_probabilities", axis=1)
        if len(known) < (graph.num_classes or 0):
            smallest = self._constant("smallest", np.float32(SMALLEST_LOG))
            absent = self._node("Add", [zeros, smallest], "absent")
            both = self._node("Concat", [logs, absent], "with_absent", axis=1)
            order = [
                known.index(label) if label in known else len(known)
                for label in range(graph.num_classes or 0)
            ]
            places = self._constant("class_places", np.array(order, np.int64))
            logs = self._node("Gather", [both, places], "all_classes", axis=1)
        temperature = self._constant("temperature", np.float32(divisor))
        return self._node("Div", [logs, temperature], LOGITS)

    def _add_value(self) -> str:
        assert self.graph.target is not None
        target = self.graph.target
        last = self._constant("last_axis", np.array([1], np.int64))
        flat = self._node("Squeeze", ["scores", last], "standardised")
        mean = self._constant("mean", np.float32(target.middle))
        std = self._constant("std", np.float32(target.std))
        scaled = self._node("Mul", [flat, std], "scaled")
        if not target.is_log:
            return self._node("Add", [scaled, mean], VALUE)
        return self._node("Exp", [self._node("Add", [scaled, mean], "logarithm")], VALUE)


def _split_by_numbers(graph: TreeGraph, sets: _CategorySets) -> list[list[TreePredictor]]:
    """Return the trees with splits by number instead of splits by category."""
    rows = graph.model._predictors
    places = [[sets.add_splits(tree) for tree in row] for row in rows]
    starts = graph.num_numbers + np.cumsum([0, *(table.shape[1] for table in sets.tables())])
    shift = len(graph.num_categories)
    return [
        [_rewrite(tree, found, starts, shift) for tree, found in zip(row, some, strict=True)]
        for row, some in zip(rows, places, strict=True)
    ]


def _rewrite(
    tree: Any, places: dict[int, tuple[int, int]], starts: NDArray[Any], shift: int
) -> TreePredictor:
    nodes = tree.nodes.copy()
    nodes["feature_idx"] -= shift
    for node, (column, place) in places.items():
        nodes["feature_idx"][node] = starts[column] + place
        nodes["num_threshold"][node] = MIDDLE
    nodes["feature_idx"][nodes["is_leaf"] == 1] = 0
    nodes["num_threshold"] = _round_down(nodes["num_threshold"])
    return TreePredictor(nodes, tree.binned_left_cat_bitsets, tree.raw_left_cat_bitsets)


def _round_down(thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest float32 values up to the thresholds: float32 numbers then split alike."""
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
    lower = np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)
    return lower.astype(np.float64)


def _ordinals(categories: NDArray[np.float64]) -> dict[int, int]:
    """Return the number of each code in the fitted encoder, which left out codes without rows."""
    return {int(code): place for place, code in enumerate(categories) if not np.isnan(code)}
