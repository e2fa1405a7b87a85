"""Measurements with and without a patch on one machine, and whether the patch has won.

A benchmark stores them next to the kernels of the same GPUs and versions, so they become invalid
when either changes.
"""

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

LEAST_GAIN = 0.03
"""A patch that gains less is not worth its risk."""
LEAST_PAIRS = 5


class Trial(BaseModel):
    """One A/B run: the same work alternately with and without the patch, warm and synchronised.

    Attributes:
        ratio: Median time with the patch divided by the one without; below 1 it is faster.
        spread: Half the interquartile range of the ratios of single pairs.
        num_pairs: Number of measured pairs.
        is_right: Whether both computed the same numbers, within the tolerance of their types.
        what: The work that was measured.
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
        """Whether the patch is right and certainly faster."""
        is_faster = self.ratio + self.spread <= 1 - LEAST_GAIN
        return self.is_right and is_faster and self.num_pairs >= LEAST_PAIRS

    def describe(self) -> str:
        """Describe the measurement in words."""
        numbers = "" if self.is_right else ", and its numbers are wrong"
        return (
            f"measured on {self.what}: {self.ratio:.2f} of the time without it "
            f"(±{self.spread:.2f}, {self.num_pairs} pairs){numbers}"
        )


_TRIALS = TypeAdapter(dict[str, Trial])


def load_trials(cache_dir: Path) -> dict[str, Trial]:
    """Load the latest trial of each patch; empty without a readable file."""
    try:
        return _TRIALS.validate_json(_path(cache_dir).read_bytes())
    except (OSError, ValidationError):
        return {}


def save_trial(cache_dir: Path, trial: Trial) -> None:
    """Store a trial in place of the previous one.

    Raises:
        OSError: The folder cannot be written.
    """
    cache_dir.mkdir(parents=True, exist_ok=True)
    trials = load_trials(cache_dir) | {trial.patch: trial}
    partial = _path(cache_dir).with_suffix(".partial")
    partial.write_bytes(_TRIALS.dump_json(trials, indent=1))
    partial.replace(_path(cache_dir))


def _path(cache_dir: Path) -> Path:
    return cache_dir / "trials.json"
