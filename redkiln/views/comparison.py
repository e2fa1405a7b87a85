"""How a job's model compares with models that cost little, as the result of the job shows it."""

from statistics import mean, stdev
from typing import Literal

from pydantic import BaseModel, Field

Interval = tuple[float, float]
"""Lower and upper end of a 95 % confidence interval."""
Judgement = Literal["better", "equal", "worse"]
"""How a model compares with another one; `equal` if the difference may be chance."""


IMAGE_BASELINES = ("linear model on edges and colours", "linear models on edges and colours")
"""Baselines that are often as good as a network on small or simple images, which needs no
warning."""
TEXT_BASELINES = "TF-IDF"
"""Part of the name of each baseline of texts that learns."""
HELD_OUT = "held-out rows of all folds"
"""What the models of all folds are scored on together."""


class BaselineScore(BaseModel):
    """A baseline on the test split, or on the held-out rows of all folds.

    Attributes:
        name: `majority class`, `mean`, `linear model`, `gradient-boosted trees`, ...
        metrics: Metrics of the test split, named `test/...`, or of the folds, without `test/`;
            empty if it was not trained.
        note: Why it was not trained, or how its training was shortened.
    """

    name: str
    metrics: dict[str, float] = Field(default_factory=dict)
    note: str = ""


class Comparison(BaseModel):
    """A model next to its baselines, all scored on the test split or on all folds.

    Attributes:
        metric: The metric that is compared, as in `test/accuracy`, or `accuracy` for folds.
        value: The model's value.
        interval: 95 % confidence interval of this value.
        baselines: All baselines; the first one always gives the same answer.
        best: Name of the best baseline.
        verdict: Whether the model is surely better or worse than the best baseline, by a paired
            test on the same samples; `equal` if the difference may be chance. For boxes and masks,
            which have no such test, `equal` means a baseline within the interval.
        beats_constant: Whether the model is surely better than always giving the same answer.
        both_perfect: Whether the model and the best baseline are right on every test sample, so
            that neither can be better.
        num_different: Test samples that the model and the best baseline answer differently; None if
            answers are not classes, and for jobs of earlier versions.
        num_test: Number of test samples; None for jobs of earlier versions.
        is_paired: Whether a paired test decided; otherwise the model's interval did.
    """

    metric: str
    value: float
    interval: Interval
    baselines: list[BaselineScore]
    best: str
    verdict: Judgement
    beats_constant: bool
    both_perfect: bool = False
    num_different: int | None = None
    num_test: int | None = None
    is_paired: bool = False

    def describe(self, samples: str = "test samples") -> str:
        """Return the verdict as a sentence without its full stop.

        Args:
            samples: Name of the samples that both were scored on.
        """
        baseline = f"the best baseline, {self.best}"
        if self.verdict == "equal":
            unsure = f"the {samples} do not show whether the model or {baseline}, is better"
            return unsure + self.count_different()
        return f"the model is {self.verdict} than {baseline}"

    def count_different(self) -> str:
        """Return ` (their answers differ for 3 of 26)`; nothing if it is not known."""
        if self.num_different is None or self.num_test is None:
            return ""
        if self.num_different == 0:
            return " (both give the same answers)"
        return f" (their answers differ for {self.num_different:,} of {self.num_test:,})"

    @property
    def is_matched(self) -> bool:
        """Whether a baseline of images is as good as a model that beats the constant answer."""
        is_equal = self.verdict == "equal" and self.beats_constant
        return is_equal and self.best in IMAGE_BASELINES and not self.both_perfect

    @property
    def doubt(self) -> str:
        """What to check if all models that learnt are right on every test sample; else empty.

        This says nothing of images, which have a single baseline that learns.
        """
        values = [b.metrics.get(self.metric) for b in self.baselines[1:]]
        are_right = self.both_perfect and all(value in (None, 1) for value in values)
        if not are_right or self.best in IMAGE_BASELINES:
            return ""
        return f"{TOO_EASY} {LIKE_TRAINING if TEXT_BASELINES in self.best else ANSWER_INSIDE}"


TOO_EASY = "All trained models answer everything right: check whether"
ANSWER_INSIDE = "a column already contains the answer"
LIKE_TRAINING = "the test texts are copies of training texts or follow the same patterns"


FEW_SAMPLES = 20
"""Samples of the rarer of two classes below which they do not show which threshold is better.

Their recall then has an interval of 40 points or more.
"""
BY_FOLDS = "For a table, --folds 5 chooses it on all training rows"
AT_THRESHOLD = "macro_f1_at_threshold"


class ThresholdChoice(BaseModel):
    """The probability with the highest F1 of the rarer of two classes on some samples.

    Attributes:
        class_name: The rarer class.
        label: Its number.
        probability: The threshold; 0.5 if no other one is better.
        f1: F1 of the class at the threshold.
        num_of_class: Samples of the class.
    """

    class_name: str
    label: int
    probability: float
    f1: float
    num_of_class: int


class CrossValidation(BaseModel):
    """Models of the same kind, each trained without one fold and scored on it.

    Attributes:
        folds: Metrics of each fold by name, as `accuracy` or `rmse`. For two classes,
            `macro_f1_at_threshold` is macro F1 at the threshold that the other folds choose.
        threshold: For two classes, the decision threshold chosen on the training samples, each
            scored by the model that was trained without it.
        comparison: The models of all folds next to baselines that were trained on the same rows,
            on the held-out rows of all folds together; None for jobs of earlier versions.
    """

    folds: list[dict[str, float]]
    threshold: ThresholdChoice | None = None
    comparison: Comparison | None = None

    def compare_thresholds(self) -> tuple[float, float] | None:
        """Return mean macro F1 at chosen thresholds and at 0.5; None if a fold lacks one."""
        scores = self.summarise()
        if AT_THRESHOLD not in scores or "macro_f1" not in scores:
            return None
        return scores[AT_THRESHOLD][0], scores["macro_f1"][0]

    def summarise(self, *, first: str = "") -> dict[str, tuple[float, float]]:
        """Return the mean and the standard deviation over the folds by metric.

        The metric `first`, as in `test/accuracy`, comes before the others. A metric that is not
        defined in every fold, such as the AUC of a fold with one class, is left out.
        """
        names = [name for name in self.folds[0] if all(name in fold for fold in self.folds)]
        names.sort(key=lambda name: name != first.removeprefix("test/"))
        values = {name: [fold[name] for fold in self.folds] for name in names}
        return {name: (mean(some), stdev(some)) for name, some in values.items()}


def describe_spread(spread: tuple[float, float]) -> str:
    """Return a mean and a standard deviation, as in `0.8765 ± 0.012` or `30,060 ± 920`."""
    rounded = (float(f"{value:.{digits}g}") for value, digits in zip(spread, (4, 2), strict=True))
    return " ± ".join(f"{one:,.12g}" if abs(one) >= 1e4 else f"{one:.12g}" for one in rounded)


class Decision(BaseModel):
    """What a classifier of two classes answers on the test split from one probability on.

    Attributes:
        probability: Smallest probability with which the class is the answer.
        found: Samples of the class that are answered so.
        missed: The others of the class.
        false_alarms: Samples of the other class that are answered so.
    """

    probability: float
    found: int
    missed: int
    false_alarms: int


class Threshold(BaseModel):
    """The probability from which one of two classes is the answer, chosen on held-out samples.

    Attributes:
        class_name: The rarer class, which the threshold is for.
        probability: Probability with the highest F1 there; 0.5 if none is better.
        validation_f1: F1 of the class on the samples that it was chosen on.
        chosen_on: The validation split; or, if there are folds, the training rows, each scored by a
            model that was trained without it.
        num_of_class: Samples of the class among those that it was chosen on; 0 for jobs of earlier
            versions.
        test_f1: The same on the test split.
        test_f1_at_half: The same at 0.5, as the exported model's highest output decides.
        decisions: Answers of the model at this probability, at 0.5 and at smaller ones, from
            cautious to eager; empty for jobs of earlier versions.
    """

    class_name: str
    probability: float
    validation_f1: float
    chosen_on: Literal["validation", "folds"] = "validation"
    num_of_class: int = 0
    test_f1: float
    test_f1_at_half: float
    decisions: list[Decision] = []

    @property
    def num_tested(self) -> int:
        """Test samples of the class; 0 for jobs of earlier versions."""
        return sum(one.found + one.missed for one in self.decisions[:1])

    @property
    def is_hardly_tested(self) -> bool:
        """Whether the test split has too few samples of the class to compare thresholds."""
        return 0 < self.num_tested < FEW_SAMPLES

    def advise(self, folds: CrossValidation | None) -> str:
        """Return whether it is better than 0.5, as sentences without the last full stop.

        Folds decide, which score more samples than the test split. Few test samples decide nothing.

        Args:
            folds: Scores of the job's folds, if it has some.
        """
        if self.probability == 0.5:
            return ""
        if folds is not None and (scores := folds.compare_thresholds()) is not None:
            at, half = scores
            return (
                f"On the held-out rows of the folds, macro F1 is {at:.4g} with such a threshold "
                f"and {half:.4g} with 0.5{', so leave --threshold out' if at < half else ''}"
            )
        by_folds = f". {BY_FOLDS}" if self.chosen_on == "validation" else ""
        if self.is_hardly_tested:
            do = "1 test sample of this class does"
            if self.num_tested > 1:
                do = f"{self.num_tested} test samples of this class do"
            num = self.num_of_class
            chosen = f"; the threshold was chosen on {num:,} held-out ones" if num else ""
            return f"{do} not show which is better{chosen}{by_folds}"
        worse = self.test_f1 < self.test_f1_at_half and self.num_tested
        said = ["0.5 has the higher F1, so leave --threshold out"] if worse else []
        if by_folds and 0 < self.num_of_class < FEW_SAMPLES:
            said.append(
                f"It was chosen on only {self.num_of_class} samples of this class{by_folds}"
            )
        return ". ".join(said)

    def describe_source(self) -> str:
        """Return what it was chosen on, as in `the validation split (5 of class fraud)`."""
        is_folds = self.chosen_on == "folds"
        where = "the held-out samples of all folds" if is_folds else "the validation split"
        if not self.num_of_class:
            return where
        return f"{where} ({self.num_of_class:,} of class {self.class_name})"
