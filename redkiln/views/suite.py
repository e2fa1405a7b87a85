"""The result of `bench --suite ai`, as stored in `suite.json`, and the comparison of two results.

The score is 1000 times the geometric mean of the reached TFLOP/s of the workloads: of inference, of
training, and of both. It needs no reference machine: a machine that is twice as fast everywhere has
twice the score. Two scores are comparable only if the same workloads in the same sizes were run.
"""

import math
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from redkiln.views.benchmark import Machine, Rate, ResultModel
from redkiln.views.hardware import Precision

FILE_NAME = "suite.json"
SCORE_SCALE = 1000.0


class SuiteTest(ResultModel):
    """One network in one mode.

    Attributes:
        size: Side of an image in pixels, or number of tokens or steps.
        flop: Floating-point operations of one call; a multiply-add counts as two.
        num_bytes: Bytes that its layers move in one call, without fusion.
        rate: Samples a second; None if it was not measured, and `skipped` says why.
        joules: Energy of one call; None if power is not measured.
        providers: Samples a second of each execution provider of ONNX Runtime.
        provider_errors: Why a provider, or the export for all of them, failed.
    """

    id: str
    mode: Literal["inference", "training"]
    batch_size: int
    size: int
    flop: float = 0.0
    num_bytes: float = 0.0
    rate: Rate | None = None
    joules: float | None = None
    providers: dict[str, float] = Field(default_factory=dict)
    provider_errors: dict[str, str] = Field(default_factory=dict)
    skipped: str | None = None

    @property
    def tflops(self) -> float | None:
        """The reached TFLOP/s."""
        if self.rate is None or not self.flop:
            return None
        return self.rate.value / self.batch_size * self.flop / 1e12

    @property
    def samples_per_joule(self) -> float | None:
        """Samples for each joule; None if power is not measured."""
        return self.batch_size / self.joules if self.joules else None


class SuiteResult(ResultModel):
    """A run of the suite.

    Attributes:
        sizes: `full` as listed, or the smaller ones of a CPU or of a quick check.
        source: Author, date and method of the measurement, for results that are passed on.
    """

    at: datetime
    sizes: Literal["full", "cpu", "quick"]
    precision: Precision
    machine: Machine
    tests: list[SuiteTest]
    peak_tflops: float | None = None
    peak_bytes_per_second: float | None = None
    source: str = ""

    @property
    def scores(self) -> dict[str, float | None]:
        """Inference, training, and total score; None if a workload of it is missing."""
        modes = ("inference", "training")
        found = {m: compute_score(t for t in self.tests if t.mode == m) for m in modes}
        return {**found, "total": compute_score(self.tests)}


def compute_score(tests: Iterable[SuiteTest]) -> float | None:
    """Return 1000 times the geometric mean of the reached TFLOP/s; None if one is missing."""
    rates = [test.tflops for test in tests]
    known = [rate for rate in rates if rate]
    if not known or len(known) != len(rates):
        return None
    return SCORE_SCALE * math.exp(sum(map(math.log, known)) / len(known))


def compare_scores(first: SuiteResult, second: SuiteResult) -> list[dict[str, float | None]]:
    """Return the scores of two results; without numbers unless both have the same workloads."""
    ids = [{test.id for test in result.tests} for result in (first, second)]
    scores = [result.scores for result in (first, second)]
    return scores if ids[0] == ids[1] else [dict.fromkeys(each) for each in scores]


def load_suite(path: Path) -> SuiteResult:
    """Load a result.

    Raises:
        OSError: The file cannot be read.
        pydantic.ValidationError: It is not a result of the suite.
    """
    return SuiteResult.model_validate_json(path.read_bytes())
