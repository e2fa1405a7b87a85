"""How much of a drop of accuracy may be chance: a few samples whose answers changed.

Shapes: N samples, C classes.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.compare import Z
from worker.export.target import Outputs


def find_doubt(outputs: Outputs, reference: Outputs, targets: NDArray[Any]) -> float:
    """Return the standard error of a drop of accuracy; 0 if no answer became right or wrong.

    Args:
        outputs: (N, C) of a variant.
        reference: (N, C) of the model in float32.
        targets: (N,) labels.
    """
    before, after = reference.argmax(axis=1) == targets, outputs.argmax(axis=1) == targets
    changes = before.astype(np.int64) - after
    return float(changes.std() / math.sqrt(len(targets)))


def describe_chance(drop: float, *, doubt: float, allowed: float, num: int) -> str:
    """Return a remark on a drop that may be chance; empty if it is clearly too large.

    Args:
        drop: The drop on the test split.
        doubt: Its standard error; 0 if it is not known.
        allowed: The allowed drop.
        num: Samples of the test split.
    """
    low, high = drop - Z * doubt, drop + Z * doubt
    if doubt == 0 or low > allowed:
        return ""
    return (
        f" (with {num:,} test samples, the 95 % interval of this is {low:.4f} to {high:.4f}: they "
        "are too few to say that the file is really worse)"
    )
