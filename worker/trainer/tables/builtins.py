"""Built-in tables, created once from scikit-learn as Parquet files like validated ones."""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.datasets import (
    BUILTIN_SEED,
    BUILTIN_TABLES,
    BuiltinTable,
    find_test_rows,
    rank_within_classes,
)
from redkiln.failure import FailureCode
from redkiln.predict.labelled.builtins import list_strata, load_table
from redkiln.tables import METADATA_KEY, RANK, TARGET, Column, TableIndex
from worker.process.failed import TrainingFailed


def open_builtin_table(name: str, *, cache_dir: Path) -> Path:
    """Return the Parquet file of a built-in table, creating it if needed.

    Raises:
        TrainingFailed: there is no such table.
    """
    if name not in BUILTIN_TABLES:
        known = ", ".join(BUILTIN_TABLES)
        message = f"there is no built-in table {name!r}; use one of: {known}"
        raise TrainingFailed(FailureCode.BAD_INPUT, message)
    path = cache_dir / "builtin" / f"{name}.parquet"
    if not path.exists():
        _make(BUILTIN_TABLES[name], path)
    return path


def _make(facts: BuiltinTable, path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    # Importing scikit-learn takes over a second; this happens once per cache.
    numbers, targets = load_table(facts)
    labels = list_strata(facts, targets)
    ranks = np.array(rank_within_classes(labels, seed=BUILTIN_SEED))
    is_test = np.array(find_test_rows(labels))
    held = np.bincount(np.array(labels)[is_test], minlength=max(labels) + 1)
    # A rank counts from 0 within its split.
    ranks = np.where(is_test, ranks, ranks - held[labels])
    order = np.concatenate([np.flatnonzero(~is_test), np.flatnonzero(is_test)])
    num_train = int((~is_test).sum())
    columns = {
        **{name: numbers[order, place] for place, name in enumerate(facts.columns)},
        TARGET: targets[order].astype(np.int32 if facts.classes else np.float64),
        RANK: ranks[order].astype(np.int32),
    }
    index = _index(facts, numbers[order[:num_train]], targets[order[:num_train]], len(order))
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: index.model_dump_json()})
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, staged = tempfile.mkstemp(dir=path.parent, prefix=f".{facts.name}-")
    os.close(descriptor)
    try:
        parquet.write_table(table, staged)
        Path(staged).replace(path)
    finally:
        Path(staged).unlink(missing_ok=True)


def _index(
    facts: BuiltinTable, numbers: NDArray[np.float64], targets: NDArray[Any], num_rows: int
) -> TableIndex:
    columns = [
        Column(
            name=name,
            type="numeric",
            mean=float(values.mean()),
            std=float(values.std()) or 1.0,
            minimum=float(values.min()),
            maximum=float(values.max()),
        )
        for name, values in zip(facts.columns, numbers.T, strict=True)
    ]
    is_regression = not facts.classes
    return TableIndex(
        task="tabular-regression" if is_regression else "tabular-classification",
        columns=columns,
        target=facts.target,
        classes=facts.classes,
        target_mean=float(targets.mean()) if is_regression else 0.0,
        target_std=(float(targets.std()) or 1.0) if is_regression else 1.0,
        num_train=len(numbers),
        num_test=num_rows - len(numbers),
        seed=BUILTIN_SEED,
        held_out_test=True,
    )
