"""Repeats an export's comparison with torch, on the samples that the job saved in `parity.npz`.

Shapes: N samples.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.errors import ModelError
from redkiln.predict.boxes.joined import OBJECTS, OUTPUTS, THRESHOLD, join_outputs
from redkiln.predict.compare import (
    Floats,
    OutputDifference,
    compare,
    find_drop,
    score,
    suspect,
    wilson,
)
from redkiln.predict.cpu import detect_cpu
from redkiln.predict.description import Description, check_digest, describe
from redkiln.predict.images import feed_pixels
from redkiln.predict.instances.joined import OUTPUTS as MASKED_OUTPUTS
from redkiln.predict.instances.joined import list_objects, load_found, load_truth
from redkiln.predict.items import Arrays
from redkiln.predict.masks.outputs import CLASSES, TARGETS
from redkiln.predict.session import find_provider, name_input, open_session, run_session
from redkiln.predict.signature import find_miss, read_signer
from redkiln.predict.texts import IDS, MASK, TEXTS, feed_tokens
from redkiln.views.models.signature import SigningKey

PARITY = "parity.npz"
BATCHES = (64, 7, 1)
"""The whole set in the first size, and a few samples in the others: users have any size."""
FEW = 14
TOLERANCE, MAX_DROP = 1e-3, 0.005
"""Limits for a file without a manifest: the defaults of a job spec."""
LEAST_AGREEMENT = 0.99
"""Share of a detector's boxes that must have a partner among torch's, or of a segmenter's pixels
that must have torch's class."""
METRIC_NAMES = {"map": "mean average precision", "miou": "mean IoU", "macro_f1": "macro F1"}
WAYS = {"optimised for this CPU": True, "as written": False}
"""How ONNX Runtime runs a file: whether it may rewrite the graph."""


@dataclass(frozen=True)
class Saved:
    """What `parity.npz` holds.

    Attributes:
        inputs: Samples by the names of the model's inputs, as saved.
        outputs: (N, ...) torch's outputs.
        targets: (N,) labels or values.
        is_test: (N,) bool; only these are scored.
    """

    inputs: dict[str, NDArray[Any]]
    outputs: Floats
    targets: NDArray[Any]
    is_test: NDArray[np.bool_]


@dataclass(frozen=True)
class Limits:
    """The gate of a file.

    Attributes:
        tolerance: Largest relative difference of outputs; None for a file in lower precision.
        max_metric_drop: How much worse the metric may be.
    """

    tolerance: float | None
    max_metric_drop: float


@dataclass(frozen=True)
class Way:
    """The comparison for one way of running the file.

    Attributes:
        metric: Accuracy, or RMSE, of the saved test samples.
        drop: How much worse it is than under torch.
        misses: Limits that were exceeded, each with its numbers.
        suspicions: Likely causes of the difference.
    """

    difference: OutputDifference
    metric: float
    drop: float
    misses: list[str]
    suspicions: list[str]


@dataclass(frozen=True)
class Verification:
    """What a verification found.

    Attributes:
        metric_name: `accuracy`, `rmse`, `miou` of masks, or `map` of boxes and if a sample can have
            several labels.
        framework: The library whose saved outputs the file is compared with, such as `torch`.
        torch_metric: Metric of these outputs.
        interval: Wilson's 95 % interval of the accuracy under ONNX Runtime; None for others.
        limits: The gate of the job.
        ways: Results of running the file optimised, as written, and on a chosen provider.
        misses: Limits that were exceeded, each with its numbers; empty if the file is verified.
        suspicions: Likely causes of the differences.
        cpu: The CPU that this is true for.
        signer: Key that signed the manifest; None if it is not signed.
    """

    description: Description
    num_samples: int
    num_test: int
    metric_name: str
    torch_metric: float
    interval: tuple[float, float] | None
    limits: Limits
    ways: dict[str, Way]
    framework: str = "torch"
    misses: list[str] = field(default_factory=list)
    suspicions: list[str] = field(default_factory=list)
    cpu: dict[str, object] = field(default_factory=dict)
    signer: SigningKey | None = None

    @property
    def verified(self) -> bool:
        """Whether no limit was exceeded."""
        return not self.misses


def verify(
    path: Path,
    *,
    threads: int = 0,
    signed_by: str | None = None,
    provider: str | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Verification:
    """Compare a file with torch's saved outputs, optimised by ONNX Runtime and as written.

    Args:
        path: The ONNX file; `parity.npz` and `manifest.json` are next to it.
        threads: Threads of an operator; 0 for one on each core.
        signed_by: Public key, or its id, that must have signed the manifest; None for any or none.
        provider: Execution provider to run the file on in addition to the CPU, such as `cuda`.
        on_batch: Called with the number of samples of each batch.

    Raises:
        ModelError: A file is missing, damaged, or does not belong to the others, or the provider
            does not run here.
    """
    signer = read_signer(path.parent)
    sessions = {
        name: open_session(path, threads=threads, is_optimized=is_optimized)
        for name, is_optimized in WAYS.items()
    }
    if provider is not None:
        name = find_provider(provider)
        sessions[name] = open_session(path, threads=threads, provider=name)
    first = next(iter(sessions.values()))
    description = describe(path, first.get_modelmeta().custom_metadata_map)
    check_digest(path, description.manifest)
    parity_path = path.parent / PARITY
    saved = load_saved(parity_path, description)
    check_digest(parity_path, description.manifest)
    limits = find_limits(description)
    on_batch = on_batch or (lambda _num: None)
    ways: dict[str, Way] = {}
    for name, session in sessions.items():
        outputs, few = _run(session, description, saved, on_batch)
        ways[name] = _judge_way(name, outputs, few, saved, limits, description)
    scored, targets = _scored(saved.outputs, saved)
    metric = next(iter(ways.values())).metric
    metric_name = name_metric(description)
    return Verification(
        description=description,
        num_samples=len(saved.outputs),
        num_test=int(saved.is_test.sum()),
        metric_name=metric_name,
        torch_metric=score(scored, targets),
        interval=wilson(metric, len(scored)) if metric_name == "accuracy" else None,
        limits=limits,
        ways=ways,
        framework=find_framework(description),
        misses=[
            *(miss for way in ways.values() for miss in way.misses),
            *filter(None, [signed_by and find_miss(signer, wanted=signed_by)]),
        ],
        signer=signer,
        suspicions=_list_suspicions(ways),
        cpu=detect_cpu(),
    )


def name_metric(description: Description) -> str:
    """Return the name of the metric that files of this kind are judged by."""
    if description.is_regression:
        return "rmse"
    if description.segmentation is not None:
        return "miou"
    is_accuracy = description.thresholds is None and description.detection is None
    return "accuracy" if is_accuracy else "map"


def _list_suspicions(ways: dict[str, Way]) -> list[str]:
    found = dict.fromkeys(text for way in ways.values() for text in way.suspicions)
    optimised, written = (ways[name] for name in WAYS)
    if optimised.misses and not written.misses:
        found[
            "the file is right: run as written, it gives the right answers. ONNX Runtime's "
            "optimised graph does not on this CPU; sums of int8 products may saturate"
        ] = None
    return list(found)


def find_framework(description: Description) -> str:
    """Return the library whose outputs the job saved; torch if the manifest does not say."""
    return str(description.manifest.get("verification", {}).get("compared_with", "torch"))


def find_limits(description: Description) -> Limits:
    """Return the limits that the manifest has for a file; lower precision has no tolerance."""
    if description.variant is not None:
        tolerance = description.variant.get("details", {}).get("tolerance")
        return Limits(tolerance, float(description.variant["max_metric_drop"]))
    gate = description.manifest.get("verification", {}).get("gate", {})
    return Limits(
        tolerance=float(gate.get("tolerance", TOLERANCE)),
        max_metric_drop=float(gate.get("max_metric_drop", MAX_DROP)),
    )


def load_saved(path: Path, description: Description) -> Saved:
    """Read `parity.npz`.

    Raises:
        ModelError: The file is missing, damaged, or of another model.
    """
    if not path.is_file():
        raise ModelError(
            f"{path} is missing. Put the job's {path.name} next to the model, or name the job."
        )
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except Exception as error:
        raise ModelError(f"{path} cannot be read ({error}). Download it again.") from error
    side = description.mask_square
    if side is not None:
        outputs, targets = load_found(arrays, side=side), load_truth(arrays, side=side)
    elif description.segmentation is not None:
        outputs, targets = arrays.pop(CLASSES, None), arrays.pop(TARGETS, None)
    elif description.detection is None:
        outputs = arrays.pop(description.output, None)
        targets = arrays.pop("labels", arrays.pop("targets", None))
    else:
        parts = [arrays.pop(name, None) for name in OUTPUTS]
        outputs = None if any(part is None for part in parts) else join_outputs(parts)
        targets = arrays.pop(OBJECTS, None)
    is_test, texts = arrays.pop("is_test", None), arrays.pop(TEXTS, None)
    if texts is not None and description.preprocessing.get("interface") == "embedded":
        arrays = {TEXTS: np.array(json.loads(texts.tobytes()), dtype=object)}
    if outputs is None or targets is None or is_test is None or not arrays:
        raise ModelError(f"{path} does not belong to {description.path}. Use the files of one job.")
    return Saved(arrays, outputs, targets, is_test)


def feed(description: Description, inputs: dict[str, NDArray[Any]]) -> Arrays:
    """Turn samples as saved in `parity.npz` into the model's inputs."""
    if IDS in inputs:
        return feed_tokens(inputs[IDS], inputs[MASK])
    if description.detection is not None:
        least = np.array([description.detection["scored_threshold"]], np.float32)
        return {**feed_pixels(next(iter(inputs.values()))), THRESHOLD: least}
    if "resize" in description.preprocessing:
        return feed_pixels(next(iter(inputs.values())))
    return dict(inputs)


def _run(
    session: Any, description: Description, saved: Saved, on_batch: Callable[[int], None]
) -> tuple[Floats, dict[int, Floats]]:
    """Return the outputs of all samples in large batches, and of a few in other sizes."""
    sizes = {size: len(saved.outputs) if size == BATCHES[0] else FEW for size in BATCHES}
    found: dict[int, Floats] = {}
    for size, num in sizes.items():
        outputs = []
        for start in range(0, min(num, len(saved.outputs)), size):
            some = {name: array[start : start + size] for name, array in saved.inputs.items()}
            fed = feed(description, some)
            outputs.append(read_outputs(session, description, fed))
            on_batch(len(outputs[-1]))
        found[size] = np.concatenate(outputs)
    return found[BATCHES[0]], found


def read_outputs(session: Any, description: Description, fed: Arrays) -> Floats:
    """Return the output; the boxes of a detector as (B, M, 6), the classes of pixels (B, S, S)."""
    if description.mask_square is not None:
        found = session.run(list(MASKED_OUTPUTS), fed)
        return list_objects(found, side=description.mask_square)
    if description.detection is not None:
        return join_outputs(session.run(list(OUTPUTS), fed))
    if description.segmentation is not None:
        classes: Floats = session.run([CLASSES], name_input(session, fed))[0]
        return classes
    outputs: Floats = run_session(session, fed, description.output)
    return outputs


def _judge_way(
    name: str,
    outputs: Floats,
    few: dict[int, Floats],
    saved: Saved,
    limits: Limits,
    description: Description,
) -> Way:
    everything = np.concatenate(list(few.values()))
    reference = np.concatenate([saved.outputs[: len(some)] for some in few.values()])
    scored, targets = _scored(outputs, saved)
    difference = compare(everything, reference, thresholds=description.thresholds)
    drop = find_drop(scored, _scored(saved.outputs, saved)[0], targets)
    metric = METRIC_NAMES.get(name_metric(description), "accuracy")
    is_mask = description.segmentation is not None
    if is_mask and limits.tolerance is not None:
        # Classes are labels: the share of equal ones is judged instead of their difference.
        found = _find_misses(difference, drop, Limits(None, limits.max_metric_drop), metric=metric)
    else:
        found = _find_misses(difference, drop, limits, metric=metric)
    if (description.detection is not None or is_mask) and limits.tolerance is not None:
        noun = "boxes" if description.mask_square is None else "masks"
        what = "pixels have torch's class" if is_mask else f"{noun} equal torch's"
        found += _find_lonely(difference, what)
    misses = [f"{name}: {miss}" for miss in found]
    suspicions = suspect(outputs, saved.outputs, singles=few[1]) if misses else ()
    return Way(difference, score(scored, targets), drop, misses, list(suspicions))


def _find_lonely(difference: OutputDifference, what: str) -> list[str]:
    share = difference.agreement or 0.0
    if share >= LEAST_AGREEMENT:
        return []
    return [f"only {share:.2%} of the {what}, less than {LEAST_AGREEMENT:.0%}"]


def _scored(outputs: Floats, saved: Saved) -> tuple[Floats, NDArray[Any]]:
    """Return outputs and targets of the test samples, or of all if none is one."""
    chosen = saved.is_test if saved.is_test.any() else np.ones_like(saved.is_test)
    return outputs[chosen], saved.targets[chosen]


def _find_misses(
    difference: OutputDifference, drop: float, limits: Limits, *, metric: str
) -> list[str]:
    misses = []
    if limits.tolerance is None:
        if not np.isfinite(difference.max_abs):
            misses.append("some outputs are not finite numbers")
    elif not difference.relative <= limits.tolerance:
        misses.append(
            f"outputs differ by up to {difference.relative:.2e} of the largest output, more than "
            f"tolerance {limits.tolerance:.2e}"
        )
    if not drop <= limits.max_metric_drop:
        what = (
            f"the RMSE is {drop:.2%} larger"
            if difference.agreement is None
            else f"the {metric} is {drop:.4f} lower"
        )
        misses.append(f"{what}, more than max_metric_drop {limits.max_metric_drop:.4f}")
    return misses
