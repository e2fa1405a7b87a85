"""Chooses the probability from which one of two classes is the answer.

Shapes: N samples.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from redkiln.views.comparison import Decision, Threshold, ThresholdChoice
from worker.export.scoring.class_metrics import macro_f1

USUAL = 0.5
SHOWN = (USUAL, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Probabilities whose decisions are counted, in addition to the chosen one."""
Outputs = NDArray[np.float32]
Labels = NDArray[np.int64]


def choose_threshold(classes: list[str], known: tuple[Outputs, Labels]) -> ThresholdChoice | None:
    """Choose the threshold with the highest F1.

    It is for the class with fewer samples, or the second one. It is None if all samples are of one
    class.

    Args:
        classes: The names of both classes.
        known: Logits (N, 2) and labels (N,) of samples that the model was not trained on.
    """
    counts = np.bincount(known[1].astype(np.int64), minlength=2)
    if not counts.all():
        return None
    rarer = 0 if counts[0] < counts[1] else 1
    probabilities, is_class = _of_class(*known, rarer)
    chosen = find_best_threshold(probabilities, is_class)
    return ThresholdChoice(
        class_name=classes[rarer],
        label=rarer,
        probability=chosen,
        f1=f1_at(chosen, probabilities, is_class),
        num_of_class=int(counts[rarer]),
    )


def score_threshold(
    choice: ThresholdChoice,
    test: tuple[Outputs, Labels],
    *,
    chosen_on: Literal["validation", "folds"],
) -> Threshold:
    """Score a chosen threshold, and other ones, on the test split: logits (N, 2), labels (N,)."""
    tested, chosen = _of_class(*test, choice.label), choice.probability
    return Threshold(
        class_name=choice.class_name,
        probability=chosen,
        validation_f1=choice.f1,
        chosen_on=chosen_on,
        num_of_class=choice.num_of_class,
        test_f1=f1_at(chosen, *tested),
        test_f1_at_half=f1_at(USUAL, *tested),
        decisions=[count_at(one, *tested) for one in sorted({chosen, *SHOWN}, reverse=True)],
    )


def macro_f1_at(choice: ThresholdChoice, scored: tuple[Outputs, Labels]) -> float:
    """Return macro F1 of logits (N, 2) and labels (N,) at a chosen threshold."""
    logits, labels = scored
    # Shifted so that the higher output is the answer that the threshold gives.
    shifted = logits.astype(np.float32)
    shifted[:, choice.label] -= np.log(choice.probability) - np.log1p(-choice.probability)
    return float(macro_f1(shifted, labels, np.ones((1, len(labels))))[0])


def find_best_threshold(probabilities: NDArray[np.float64], is_class: NDArray[np.bool_]) -> float:
    """Return the threshold with the highest F1 of a class; 0.5 unless another one is better."""
    chosen = _find_best(probabilities, is_class)
    if f1_at(chosen, probabilities, is_class) <= f1_at(USUAL, probabilities, is_class):
        return USUAL
    return chosen


def f1_at(
    threshold: float, probabilities: NDArray[np.float64], is_class: NDArray[np.bool_]
) -> float:
    """Return the F1 of a class that is the answer from a probability on; 0 if it never occurs."""
    answered = probabilities >= threshold
    both = int(answered.sum()) + int(is_class.sum())
    return 2 * int((answered & is_class).sum()) / both if both else 0.0


def count_at(
    threshold: float, probabilities: NDArray[np.float64], is_class: NDArray[np.bool_]
) -> Decision:
    """Return how many samples are found, missed and wrongly answered from a probability on."""
    answered = probabilities >= threshold
    return Decision(
        probability=threshold,
        found=int((answered & is_class).sum()),
        missed=int((~answered & is_class).sum()),
        false_alarms=int((answered & ~is_class).sum()),
    )


def _of_class(
    logits: Outputs, labels: Labels, label: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the probabilities (N,) of a class, and whether it is right (N,)."""
    margin = logits[:, label].astype(np.float64) - logits[:, 1 - label]
    return 1 / (1 + np.exp(-np.clip(margin, -500, 500))), labels == label


def _find_best(probabilities: NDArray[np.float64], is_class: NDArray[np.bool_]) -> float:
    """Return the middle between the two probabilities where F1 is highest."""
    order = np.argsort(-probabilities, kind="stable")
    ordered = probabilities[order]
    right = np.cumsum(is_class[order])
    f1 = 2 * right / (np.arange(1, len(order) + 1) + right[-1] + 1e-12)
    below = np.append(ordered[1:], 0.0)
    f1[ordered == below] = -1.0  # equal probabilities are answered alike
    best = int(f1.argmax())
    return float((ordered[best] + below[best]) / 2)
