"""What the predicting process is asked, and what it answers."""

from typing import Any, Literal

from pydantic import BaseModel

RESULT = "predictions.json"
MOST_SAMPLES = 1000
MOST_SCORES = 100
"""Most classes of one answer."""
Ending = Literal["", ".csv", ".tsv", ".jsonl"]


class PredictOrder(BaseModel):
    """Inputs to predict; the files are next to the order.

    Attributes:
        model: Name of the ONNX file, whose manifest and tokenizer are in the same folder.
        input: Name of the file with the inputs; without an ending it suits the model.
        top: Number of classes of each answer; None for 1, or for all with several labels.
        threshold: Smallest score of a detector's boxes; None for the model's default.
        threads: Threads that run the model.
        parent_pid: Process that waits for the answer; this one ends with it.
    """

    model: str
    input: str
    top: int | None
    threshold: float | None = None
    threads: int
    parent_pid: int


class Answer(BaseModel):
    """Predictions, or the reason for their absence."""

    document: dict[str, Any] | None = None
    problem: str | None = None
