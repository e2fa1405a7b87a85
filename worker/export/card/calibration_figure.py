"""The calibration curve of a classifier as a picture."""

from pathlib import Path

from worker.export.card.figures import GRID, MUTED, VALIDATION, use_fonts
from worker.export.scoring.calibration import Calibration


def draw_calibration(calibration: Calibration, path: Path, *, title: str) -> None:
    """Draw the share of right answers by probability, and below it the number of samples.

    Args:
        calibration: The measured curve.
        path: File to write.
        title: Name of the job.
    """
    from matplotlib import pyplot as plt

    use_fonts(title)
    figure, (curve, counts) = plt.subplots(2, 1, figsize=(5, 6), sharex=True, height_ratios=(3, 1))
    # Fixed margins: to find them by a layout takes a third of the picture's time.
    figure.subplots_adjust(left=0.15, right=0.96, top=0.94, bottom=0.09, hspace=0.08)
    bins = calibration.bins
    curve.plot([0, 1], [0, 1], "--", color=MUTED, linewidth=1)
    curve.plot([b.confidence for b in bins], [b.accuracy for b in bins], "o-", color=VALIDATION)
    curve.set(ylabel="share of right answers", xlim=(0, 1), ylim=(0, 1.02))
    curve.set_title(f"{title}: expected calibration error {calibration.error:.4f}", fontsize=10)
    centres = [(b.low + b.high) / 2 for b in bins]
    counts.bar(centres, [b.num for b in bins], width=0.09, color=VALIDATION)
    counts.set(ylabel="samples", xlabel="highest probability")
    for axis in (curve, counts):
        axis.grid(visible=True, color=GRID)
        axis.set_axisbelow(True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
