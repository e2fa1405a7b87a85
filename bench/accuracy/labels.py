"""Log loss of several labels with few validation rows: how temperatures should be chosen.

`python -m bench.accuracy labels [--seeds N]` trains scikit-learn's MLP on 100 to 1,000 rows with
four labels each, a tenth of them for validation. It prints the mean log loss on the other rows
with temperatures of 1, with those of a classifier (`find_temperature`), and with those of labels
(`find_label_temperatures`).
"""

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from worker.export.scoring.temperature import (
    SMALLEST,
    apply_temperatures,
    find_label_temperatures,
    find_temperature,
)

ROWS = (100, 215, 430, 1000)


def main(arguments: list[str]) -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy labels", description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print("| rows | data | temperatures of 1 | of a classifier | of labels |\n" + "| -- " * 5 + "|")
    for num_rows in ROWS:
        found: dict[str, list[list[float]]] = {}
        for seed in range(chosen.seeds):
            for name, inputs, targets in list_sets(seed):
                found.setdefault(name, []).append(score(inputs, targets, num_rows, seed=seed))
        for name, losses in found.items():
            means = " | ".join(f"{loss:.4f}" for loss in np.mean(losses, axis=0))
            print(f"| {num_rows} | {name} | {means} |", flush=True)


def list_sets(seed: int) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Yield names, inputs (N, D) and targets (N, 4)."""
    inputs, targets = make_multilabel_classification(
        1500, 20, n_classes=4, n_labels=2, random_state=seed
    )
    yield "generated", inputs, targets
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.data))
    number = digits.target[order]
    of_digits = [number % 2 == 1, number > 4, np.isin(number, (0, 6, 8, 9)), number % 3 == 1]
    yield "digits: odd, large, round, 1 4 7", digits.data[order], np.stack(of_digits, 1).astype(int)


def score(inputs: NDArray[Any], targets: NDArray[Any], num_rows: int, *, seed: int) -> list[float]:
    """Return the log loss on the test rows with each way to choose temperatures."""
    num_train = num_rows - num_rows // 10
    train, validation, test = np.split(np.arange(len(inputs)), [num_train, num_rows])
    scaled = (inputs - inputs[train].mean(0)) / (inputs[train].std(0) + 1e-6)
    model = MLPClassifier((64,), max_iter=200, learning_rate_init=0.005, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(scaled[train], targets[train])
    found = model.predict_proba(scaled).astype(np.float32)
    clipped = torch.from_numpy(found[validation]).double().clamp(SMALLEST, 1 - SMALLEST)
    both = torch.stack([torch.zeros_like(clipped), clipped.logit()], dim=2)
    labels = torch.from_numpy(targets[validation]).long()
    plain = [find_temperature(both[:, k], labels[:, k]) for k in range(labels.shape[1])]
    own = find_label_temperatures(found[validation], targets[validation])
    tried = (found[test], *(apply_temperatures(found[test], rule) for rule in (plain, own)))
    return [_log_loss(probabilities, targets[test]) for probabilities in tried]


def _log_loss(probabilities: NDArray[np.float32], targets: NDArray[Any]) -> float:
    clipped = probabilities.astype(np.float64).clip(SMALLEST, 1 - SMALLEST)
    losses = np.where(targets == 1, np.log(clipped), np.log(1 - clipped))
    return float(-losses.mean())
