"""What was found of an ONNX file that a script left."""

import json
from collections.abc import Sequence

from pydantic import BaseModel, Field


class Verdict(BaseModel):
    """What became of one file.

    Attributes:
        verified: True: its numbers are those expected; False: it does not run, or they are not;
            None: it runs, and there is nothing to compare with.
        difference: largest one, relative to the largest expected value.
    """

    verified: bool | None
    words: str
    difference: float | None = None
    inputs: dict[str, list[int | str | None]] = Field(default_factory=dict)


def read_verdicts(output: str, names: Sequence[str]) -> dict[str, Verdict]:
    """Verdicts of a checking process that may have ended too soon, by the files' names."""
    verdicts: dict[str, Verdict] = {}
    lines = [line for line in output.splitlines() if line.startswith("{")]
    for place, name in enumerate(names):
        if place < len(lines):
            try:
                verdicts[name] = Verdict.model_validate(json.loads(lines[place]))
                continue
            except ValueError:
                words = "what checked it said nothing that can be read"
        else:
            words = "what checked it came to an end: the file is damaged, or too large"
        verdicts[name] = Verdict(verified=False, words=words)
        break
    return verdicts
