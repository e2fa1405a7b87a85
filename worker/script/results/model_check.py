"""The verdict on an ONNX file that a script left."""

import json
from collections.abc import Sequence

from pydantic import BaseModel, Field


class ModelCheck(BaseModel):
    """The verdict on one file.

    Attributes:
        verified: True: its outputs are as expected. False: it does not run, or its outputs differ.
            None: it runs, and there is nothing to compare with.
        difference: Largest difference, relative to the largest expected value.
    """

    verified: bool | None
    words: str
    difference: float | None = None
    inputs: dict[str, list[int | str | None]] = Field(default_factory=dict)


def read_checks(output: str, names: Sequence[str]) -> dict[str, ModelCheck]:
    """Parse the output of a checking process, which may have ended early, by file name."""
    verdicts: dict[str, ModelCheck] = {}
    lines = [line for line in output.splitlines() if line.startswith("{")]
    for place, name in enumerate(names):
        if place < len(lines):
            try:
                verdicts[name] = ModelCheck.model_validate(json.loads(lines[place]))
                continue
            except ValueError:
                words = "the checking process printed an unreadable line"
        else:
            words = "the checking process crashed: the file is damaged or too large"
        verdicts[name] = ModelCheck(verified=False, words=words)
        break
    return verdicts
