"""What a job that has ended achieved, as the API shows it."""

from enum import StrEnum

from pydantic import BaseModel, Field, computed_field

from redkiln.views.artifact import ArtifactView
from redkiln.views.comparison import Comparison, CrossValidation, Interval, Threshold
from redkiln.views.variants import VariantView


class Verdict(StrEnum):
    """How the exported models of a job compare with the trained ones.

    VERIFIED: All of them passed the comparison.
    UNVERIFIED: At least one failed it.
    NOT_CHECKED: At least one could not be compared, as a script's model without samples.
    """

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    NOT_CHECKED = "not_checked"


class CopiesInTest(BaseModel):
    """How many samples of the test split are copies.

    Attributes:
        noun: Plural name of the samples, such as `images`.
        num_test: Number of test samples.
        num_copies: Copies and near copies of training samples; at least so many.
        num_repeated: Copies and near copies of other test samples.
    """

    noun: str
    num_test: int
    num_copies: int = 0
    num_repeated: int = 0

    def describe(self) -> str:
        """Return what the copies do to the result, as one line."""
        test = f"{self.num_test:,} test {self.noun}"
        found = []
        if self.num_copies:
            found.append(
                f"at least {self.num_copies:,} of {test} {self.describe_known()}, so the result "
                "may be too good"
            )
        if self.num_repeated:
            found.append(f"{self.num_repeated:,} of {test} {self.describe_repeated()}")
        return "; ".join(found)

    def describe_known(self) -> str:
        """Return what test samples that are copies of training samples are."""
        if self.num_copies == 1:
            return f"is a copy or near copy of a training {self.noun[:-1]}"
        return f"are copies or near copies of training {self.noun}"

    def describe_repeated(self) -> str:
        """Return what test samples that are copies of others are, and what this means."""
        copies = f"are copies or near copies of other test {self.noun}"
        if self.num_repeated == 1:
            copies = f"is a copy or near copy of another test {self.noun[:-1]}"
        return f"{copies}, so the 95 % intervals are narrower than they should be"


class Outcome(BaseModel):
    """The result of a job, as a list of jobs shows it.

    Attributes:
        metrics: The final metrics by name: those of the test split (`test/...`), or all that a
            script or benchmark reported.
        headline: Name of the metric by which the exported model is judged, if it has one.
        intervals: 95 % confidence intervals by metric; the headline has one if its metric can have
            one. Jobs of earlier versions have it under the headline's name without `_onnx`.
        comparison: The model next to its baselines; None if the job's task has none.
        copies: Test samples that are copies of training samples or of each other; None without any.
        threshold: For two classes, the probability with the highest F1 on validation.
        cross_validation: Scores of the folds, if the job has `training.folds`.
        variants: The model's files in several precisions, if `export.variants` asks for them.
        recommendation: The file to use, and the reason.
        verdict: None if the job published no model.
        queued_seconds: Time in the queue.
        paused_seconds: Time as a paused job.
        running_seconds: Time in which an attempt ran; the sum over all attempts.
        phase_seconds: Parts of `running_seconds` by phase (`training`, `exporting`, ...).
    """

    metrics: dict[str, float] = Field(default_factory=dict)
    headline: str | None = None
    intervals: dict[str, Interval] = Field(default_factory=dict)
    comparison: Comparison | None = None
    copies: CopiesInTest | None = None
    threshold: Threshold | None = None
    cross_validation: CrossValidation | None = None
    variants: list[VariantView] = Field(default_factory=list)
    recommendation: str = ""
    verdict: Verdict | None = None
    queued_seconds: float = 0.0
    paused_seconds: float = 0.0
    running_seconds: float = 0.0
    phase_seconds: dict[str, float] = Field(default_factory=dict)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def threshold_advice(self) -> str:
        """Whether the threshold is better than 0.5, as far as held-out samples show it."""
        return "" if self.threshold is None else self.threshold.advise(self.cross_validation)


class JobResult(Outcome):
    """The result of a job with the files that it published."""

    files: list[ArtifactView] = Field(default_factory=list)

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"<JobResult {self.verdict or 'unjudged'}: {scores}; {len(self.files)} files>"

    __str__ = __repr__
