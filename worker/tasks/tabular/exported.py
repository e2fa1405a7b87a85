"""A model of a table for export: it takes raw numbers and category codes.

Shapes: N rows, B batch, F numeric columns, K categorical columns.
"""

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from redkiln.tables import DAYS_SINCE
from worker.export.exportable import OTHER_BATCH, TRACED_BATCH, Exportable
from worker.export.target import Arrays
from worker.trainer.models.table_network import TableShape, TabularNetwork
from worker.trainer.tables.table import MAX_DEVIATIONS, Preparation, Table
from worker.trainer.tables.target_scale import TargetScale

NUMBERS = "numbers"
CODES = "codes"
LOGITS = "logits"
VALUE = "value"

NETWORK_NUMBERS = (
    f"inside the graph: (numbers - mean) / std, clipped to {MAX_DEVIATIONS:g}; missing becomes the "
    "mean"
)
NETWORK_CODES = "inside the graph: embeddings; a code that is not a category counts as missing"
TREE_NUMBERS = "none: trees compare numbers as they are; each split says where missing ones go"
TREE_CODES = "inside the graph: sets of categories; a code that is not a category counts as missing"


class RawTable(nn.Module):
    """Prepares raw values as training prepared the whole table, and runs the network.

    Args:
        network: Takes prepared numbers and places of categories.
        shape: Shape of the table.
        preparation: Preparation learnt from the training split.
        target: How a regression's targets were standardised; None for a classifier.
        temperature: Number that a classifier's logits are divided by.
    """

    mean: torch.Tensor
    std: torch.Tensor
    flagged: torch.Tensor
    num_categories: torch.Tensor
    unknown_places: torch.Tensor

    def __init__(
        self,
        network: TabularNetwork,
        shape: TableShape,
        preparation: Preparation,
        *,
        target: TargetScale | None,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        self.network = network
        self._has_numbers = shape.num_numbers > 0
        self._has_codes = bool(shape.num_categories)
        self._has_flags = bool(preparation.flagged)
        self._target = target
        self._temperature = temperature
        self.register_buffer("mean", torch.tensor(preparation.mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(preparation.std, dtype=torch.float32))
        self.register_buffer("flagged", torch.tensor(preparation.flagged, dtype=torch.int64))
        self.register_buffer("num_categories", torch.tensor(shape.num_categories))
        self.register_buffer("unknown_places", torch.tensor(shape.unknown_places))

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> torch.Tensor:
        """Compute logits (B, classes), or values (B,) in the target's unit.

        Args:
            first: Numbers (B, F) float32, NaN if missing; the codes without numbers.
            second: Codes (B, K) int64, -1 if missing or unknown, if there are both.
        """
        prepared = []
        if self._has_numbers:
            prepared.append(self._prepare_numbers(first))
        codes = second if self._has_numbers else first
        if self._has_codes:
            assert codes is not None
            prepared.append(self._prepare_codes(codes))
        outputs: torch.Tensor = self.network(*prepared)
        if self._target is None:
            return outputs / self._temperature
        return self._target.restore(outputs)

    def _prepare_numbers(self, numbers: torch.Tensor) -> torch.Tensor:
        missing = torch.isnan(numbers)
        standard = ((numbers - self.mean) / self.std).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)
        filled = torch.where(missing, torch.zeros_like(standard), standard)
        if not self._has_flags:
            return filled
        flags = missing.index_select(1, self.flagged).to(filled.dtype)
        return torch.cat([filled, flags], dim=1)

    def _prepare_codes(self, codes: torch.Tensor) -> torch.Tensor:
        # A code that is not a category counts as unknown.
        is_known = (codes >= 0) & (codes < self.num_categories)
        place = torch.where(is_known, codes + 1, torch.zeros_like(codes))
        return place + self.unknown_places


def make_table_exportable(
    network: TabularNetwork,
    shape: TableShape,
    preparation: Preparation,
    *,
    target: TargetScale | None,
    architecture: dict[str, Any],
    temperature: float = 1.0,
) -> Exportable:
    """Copy a network to the CPU, and put preparation in front and calibration behind."""
    on_cpu = copy.deepcopy(network).to("cpu")
    module = RawTable(on_cpu, shape, preparation, target=target, temperature=temperature)
    module = module.eval().requires_grad_(False)
    return Exportable(
        module,
        examples=_random_inputs(TRACED_BATCH, shape, preparation, seed=0),
        others=_random_inputs(OTHER_BATCH, shape, preparation, seed=1),
        output=LOGITS if target is None else VALUE,
        architecture={**architecture, "flagged": len(preparation.flagged)},
    )


class TableSamples:
    """Rows of a validated table as samples."""

    noun = "rows"

    def __init__(self, table: Table) -> None:
        self._table = table

    def get(self, rows: NDArray[np.int64]) -> Arrays:
        """Return raw numbers and codes of some rows, whichever the table has."""
        arrays: Arrays = {}
        if self._table.numeric:
            arrays[NUMBERS] = self._table.numbers[rows]
        if self._table.categorical:
            arrays[CODES] = self._table.codes[rows].astype(np.int64)
        return arrays

    def feed(self, raw: Arrays) -> Arrays:
        """Return them unchanged, because they are the model's inputs."""
        return raw


def describe_preparation(
    table: Table,
    preparation: Preparation,
    *,
    output: str,
    temperature: float = 1.0,
    is_tree: bool = False,
    scale: TargetScale | None = None,
) -> dict[str, Any]:
    """Return how a row becomes the model's inputs, as JSON.

    Args:
        table: Table that the model was trained on.
        preparation: Preparation learnt from the training split.
        output: Name of the output.
        temperature: Number that logits are divided by.
        is_tree: Whether trees read the values as they are.
        scale: How the file restores a regression's targets; None for classes.
    """
    described: dict[str, Any] = {
        "output": output,
        "inputs": [],
        "missing_words": table.index.missing_words,
        "target": table.index.target,
        "ignored": sorted({table.index.target, *table.index.ignored}),
        "complete_columns": list_complete_columns(table),
    }
    if table.index.target_written is not None:
        described["target_written"] = table.index.target_written.model_dump()
    if table.index.labels_separator is not None:
        described["labels_separator"] = table.index.labels_separator
    if table.index.encoding is not None:
        described["encoding"] = table.index.encoding
    if output == LOGITS:
        described["temperature"] = temperature  # inside the graph, too
    if scale is not None and scale.is_log:
        # Undone inside the graph.
        described |= {"target_transform": "log", "smearing": scale.smearing}
        described |= {"target_transform_reason": scale.reason} if scale.reason else {}
    if table.numeric:
        described["inputs"].append(
            {
                "name": NUMBERS,
                "dtype": "float32",
                "layout": "(batch, columns)",
                "missing": "NaN",
                "missing_numbers": table.index.missing_numbers,
                "columns": [column.name for column in table.numeric],
                "written": {c.name: c.written.model_dump() for c in table.numeric if c.written},
                "derived": {
                    c.name: c.derived.model_dump(exclude_none=True)
                    for c in table.numeric
                    if c.derived
                },
                "preparation": TREE_NUMBERS if is_tree else NETWORK_NUMBERS,
                "mean": preparation.mean.tolist(),
                "std": preparation.std.tolist(),
                "missing_flags": [table.numeric[place].name for place in preparation.flagged],
            }
        )
    if table.categorical:
        described["inputs"].append(
            {
                "name": CODES,
                "dtype": "int64",
                "layout": "(batch, columns)",
                "missing": -1,
                "columns": [column.name for column in table.categorical],
                "preparation": TREE_CODES if is_tree else NETWORK_CODES,
                "categories": {column.name: column.categories for column in table.categorical},
            }
        )
    return described


def list_complete_columns(table: Table) -> list[str]:
    """Return the columns of the file that have a value in every training row.

    A column from which only words or differences of dates were derived is not among them.
    """
    rows = slice(table.index.num_train)
    gaps = [np.isnan(table.numbers[rows]).any(axis=0), (table.codes[rows] < 0).any(axis=0)]
    columns = zip(table.numeric + table.categorical, np.concatenate(gaps), strict=True)
    complete: dict[str, None] = {}
    for column, is_gappy in columns:
        origin = column.derived
        if not is_gappy and (origin is None or origin.part not in ("word", DAYS_SINCE)):
            complete[column.name if origin is None else origin.column] = None
    return list(complete)


def _random_inputs(
    num: int, shape: TableShape, preparation: Preparation, *, seed: int
) -> dict[str, torch.Tensor]:
    """Generate raw rows, including gaps and unknown categories."""
    rng = np.random.default_rng(seed)
    inputs = {}
    if shape.num_numbers:
        mean, std = preparation.mean, preparation.std
        numbers = (mean + std * rng.normal(size=(num, len(mean)))).astype(np.float32)
        numbers[rng.random(numbers.shape) < 0.2] = np.nan
        inputs[NUMBERS] = torch.from_numpy(numbers)
    if shape.num_categories:
        codes = rng.integers(-1, shape.num_categories, size=(num, len(shape.num_categories)))
        inputs[CODES] = torch.from_numpy(codes)
    return inputs
