"""The inputs of a table's model that reads raw columns: one for each column.

Shapes: B batch, F numeric columns, K categorical columns.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = ""
"""Text for a category that is missing or unknown."""
RESERVED = ("numbers", "codes", "logits", "value", "probabilities", "top_scores", "top_classes")
"""Names that no column's input may have, because other inputs and outputs do."""


def name_inputs(columns: list[str]) -> dict[str, str]:
    """Return the name of each column's input: its own name, or with `_` if that is reserved."""
    taken = {*RESERVED, *columns}
    named = {column: column for column in columns}
    for column in {*RESERVED} & {*columns}:
        while named[column] in taken:
            named[column] += "_"
        taken.add(named[column])
    return named


def split_columns(
    feed: dict[str, NDArray[Any]], preprocessing: dict[str, Any]
) -> dict[str, NDArray[Any]]:
    """Turn numbers (B, F) and codes (B, K) into one array (B,) for each column's input.

    Args:
        feed: `numbers` and `codes`, whichever the table has.
        preprocessing: The model's preprocessing.
    """
    names = preprocessing["columns"]
    found: dict[str, NDArray[Any]] = {}
    for part in preprocessing["inputs"]:
        block = feed[part["name"]]
        for place, column in enumerate(part["columns"]):
            values = block[:, place]
            if "categories" in part:
                # The code -1 takes the last one.
                texts = np.array([*part["categories"][column], MISSING], dtype=object)
                values = texts[np.where(values < len(texts) - 1, values, -1)]
            found[names[column]] = values
    return found
