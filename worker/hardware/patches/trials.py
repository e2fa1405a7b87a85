"""Measurements of a patch against its absence on one machine, and when one has won.

Whoever measures writes them beside the kernels of the same GPUs and versions, so that they are
forgotten when either changes.
"""

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

LEAST_GAIN = 0.03
"""A patch that gains less is not worth what it may break."""
LEAST_PAIRS = 5


class Trial(BaseModel):
    """One A/B run: the same work with and without the patch, by turns, warm and synchronised.

    Attributes:
        ratio: median time with the patch over the one without; below 1 it is faster.
        spread: half the range between the quartiles of the ratios of single pairs.
        num_pairs: how many pairs were measured.
        is_right: whether both computed the same numbers, within what their types allow.
        what: the work that was measured.
    """

    patch: str
    ratio: float
    spread: float = 0.0
    num_pairs: int
    is_right: bool
    what: str
    at: datetime

    @property
    def has_won(self) -> bool:
        """Whether the patch is right and surely faster."""
        is_faster = self.ratio + self.spread <= 1 - LEAST_GAIN
        return self.is_right and is_faster and self.num_pairs >= LEAST_PAIRS

    def describe(self) -> str:
        """The measurement in words."""
        numbers = "" if self.is_right else ", and its numbers are wrong"
        return (
            f"measured on {self.what}: {self.ratio:.2f} of the time without it "
            f"(±{self.spread:.2f}, {self.num_pairs} pairs){numbers}"
        )


_TRIALS = TypeAdapter(dict[str, Trial])


def load_trials(cache_dir: Path) -> dict[str, Trial]:
    """The newest trial of each patch; none when there is no readable file."""
    try:
        return _TRIALS.validate_json(_path(cache_dir).read_bytes())
    except (OSError, ValidationError):
        return {}


def save_trial(cache_dir: Path, trial: Trial) -> None:
    """Keep a trial in place of the one before.

    Raises:
        OSError: the folder cannot be written.
    """
    cache_dir.mkdir(parents=True, exist_ok=True)
    trials = load_trials(cache_dir) | {trial.patch: trial}
    partial = _path(cache_dir).with_suffix(".partial")
    partial.write_bytes(_TRIALS.dump_json(trials, indent=1))
    partial.replace(_path(cache_dir))


def _path(cache_dir: Path) -> Path:
    return cache_dir / "trials.json"
