"""Accuracy of a default job and of a plain loop after equal epochs: speed must not cost accuracy.

Both train the same network on the same images with the same augmentation and number of epochs. The
job leaves batch size, learning rate, precision and validation split at their defaults. The plain
loop uses a DataLoader over files with PIL transforms, batch 64, AdamW, fp32. Each is scored on the
test images once, at the end. A figure is the mean over the seeds. An epoch of resnet18 takes
minutes on two cores, so it has one seed and few epochs.
"""

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from bench.image_archives import DATA, archive_dataset
from bench.machine import DEVICE, describe_device
from bench.result import Result, at_least, info
from bench.training.bare_step import build_network
from bench.training.plain_loops import FileDataset, plain_loader
from bench.training.whole_job import train_job

ARCHIVE = "cifar10-12k.zip"
RUNS: dict[str, tuple[int, Sequence[int]]] = {"amdnet": (10, (0, 1, 2)), "resnet18": (2, (0,))}
"""Epochs and seeds by model."""
TARGET = -0.005
"""Half a percentage point."""
LEARNING_RATE = 2e-3
EVALUATED_AT_ONCE = 500
AUGMENT = {"flip": True, "rotate_degrees": 10.0, "crop": 0.0}


def measure() -> list[Result]:
    """Return the accuracy of the default job minus that of the plain loop, for each model."""
    return [_measure(model, epochs=epochs, seeds=seeds) for model, (epochs, seeds) in RUNS.items()]


def _measure(model: str, *, epochs: int, seeds: Sequence[int]) -> Result:
    name = f"{model}: test accuracy of the default job minus that of a plain loop, {epochs} epochs"
    archive = DATA / ARCHIVE
    if not archive.exists():
        return info(name, float("nan"), "", f"not measured: {ARCHIVE} is missing")
    ours, theirs, batches, seconds = [], [], [], {"ours": 0.0, "theirs": 0.0}
    for seed in seeds:
        start = time.perf_counter()
        training: dict[str, Any] = {"epochs": epochs, "seed": seed, "augment": AUGMENT}
        spec = {"task": "image-classification", "model": model, "training": training}
        with tempfile.TemporaryDirectory(prefix="bench-equal-") as folder:
            dataset = archive_dataset(archive, Path(folder))
            trained = train_job({"dataset": dataset.name, **spec}, dataset, Path(folder))
        ours.append(trained.metrics["test/accuracy"])
        batches.append(str(trained.training["batch_size"]))
        seconds["ours"] += time.perf_counter() - start
        start = time.perf_counter()
        theirs.append(_train_plain(archive, model=model, epochs=epochs, seed=seed))
        seconds["theirs"] += time.perf_counter() - start
    detail = (
        f"{_list(ours)}, plain loop {_list(theirs)}, seeds {list(seeds)}; batch "
        f"{', '.join(batches)} in {trained.training['precision']}; {seconds['ours']:.0f} s with "
        f"export, plain loop {seconds['theirs']:.0f} s; {ARCHIVE}, {describe_device()}"
    )
    difference = statistics.mean(ours) - statistics.mean(theirs)
    return at_least(name, difference, "", TARGET, detail)


def _train_plain(archive: Path, *, model: str, epochs: int, seed: int) -> float:
    torch.manual_seed(seed)
    loader, folder = plain_loader(archive)
    network = build_network(model).to(DEVICE)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE)
    for _ in range(epochs):
        for images, labels in loader:
            outputs = network(images.to(DEVICE))
            functional.cross_entropy(outputs, labels.to(DEVICE)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
    test = FileDataset(Path(folder.name) / "test", is_augmented=False)
    return _score(network, test)


@torch.no_grad()
def _score(network: nn.Module, test: FileDataset) -> float:
    network.eval()
    num_right = 0
    for start in range(0, len(test), EVALUATED_AT_ONCE):
        rows = [test[place] for place in range(start, min(start + EVALUATED_AT_ONCE, len(test)))]
        outputs = network(torch.stack([image for image, _ in rows]).to(DEVICE)).cpu()
        num_right += int((outputs.argmax(1) == torch.tensor([label for _, label in rows])).sum())
    return num_right / len(test)


def _list(accuracies: list[float]) -> str:
    return ", ".join(f"{accuracy:.4f}" for accuracy in accuracies)
