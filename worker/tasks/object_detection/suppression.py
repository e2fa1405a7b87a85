"""Writes the suppression of overlapping boxes as operators of ONNX.

Shapes: B batch, N candidates, K classes, R boxes that remain in the whole batch.
"""

from typing import Any

import onnx
from onnxscript import opset18

from worker.trainer.detection.selection import MOST_FOUND, OVERLAP

op: Any = opset18


def write_suppression(boxes: Any, labels: Any, scores: Any, num_classes: int) -> Any:
    """Write `worker.trainer.detection.selection.suppress`; onnxscript traces the body.

    NonMaxSuppression wants the scores of each class alone, and returns which boxes remain. Here a
    candidate has one class, so its scores for other classes are too low to remain.
    """
    classes = op.Constant(value_ints=list(range(num_classes)))
    column = op.Constant(value_ints=[1, -1, 1])
    second = op.Constant(value_ints=[1])
    is_class = op.Equal(op.Unsqueeze(labels, second), op.Reshape(classes, column))
    absent = op.Constant(value_float=-1.0)
    by_class = op.Where(is_class, op.Unsqueeze(scores, second), absent)  # (B, K, N)
    most = op.Constant(value_ints=[MOST_FOUND])
    overlap, above = op.Constant(value_floats=[OVERLAP]), op.Constant(value_floats=[0.0])
    kept = op.NonMaxSuppression(boxes, by_class, most, overlap, above)  # (R, 3)
    places = op.Gather(kept, op.Constant(value_ints=[0, 2]), axis=1)  # image and candidate
    none = op.Mul(labels, op.Constant(value_int=0))  # (B, N)
    zeros = op.Mul(op.Gather(kept, op.Constant(value_int=0), axis=1), op.Constant(value_int=0))
    ones = op.Add(zeros, op.Constant(value_int=1))  # (R,)
    return op.Cast(op.ScatterND(none, places, ones), to=onnx.TensorProto.BOOL)
