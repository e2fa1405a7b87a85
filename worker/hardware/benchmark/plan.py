"""Plans a benchmark: pure decisions from a spec and what the device can do.

Tests that are compared with each other (types, layouts, kinds of memory) form a group. Its members
are measured alternately, so that a changing clock affects all of them.

Legend: B batch, S side of a square image or matrix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from redkiln.tasks.benchmark import Measure, TestName
from redkiln.views.benchmark import Layout, Unit
from redkiln.views.hardware import Precision

MEMORY_SHARE = 0.8
"""Share of the free memory that the members of a group may use together."""
COPY_BYTES = {"gpu": 256 * 2**20, "cpu": 64 * 2**20}
"""Size of a buffer in the memory tests: far above the caches, up to 256 MB on RDNA and CDNA alike.

Source: AMD RDNA 2 and CDNA 3 white papers, size of the Infinity Cache."""
AUTO_SIZES = {"gpu": [1024, 2048, 4096, 8192], "cpu": [256, 512, 1024]}
AUTO_BATCH_SIZE = {"gpu": 64, "cpu": 4}
AUTO_IMAGE_SIZE = {"gpu": 224, "cpu": 32}
ITEM_BYTES: dict[Precision, int] = {"fp32": 4, "fp16": 2, "bf16": 2}
CONVOLUTION_CHANNELS = 128
CONVOLUTION_SIDE = 28
"""The 3x3 convolutions of ResNet-18's second stage at 224 pixels: 128 channels, 28 x 28."""
LAYOUTS: tuple[Layout, ...] = ("contiguous", "channels_last")
SMALL_IMAGE = 64
STEP_BYTES_PER_PIXEL = {"small": 4600, "large": 450}
"""Bytes that ResNet-18 keeps in float32 for its backward pass; its first layer does not reduce
images of up to 64 pixels.

Source: tensors saved by autograd, 22.2 MB an image at 224 pixels and 18.8 MB at 64 (torch 2.13)."""
STEP_WEIGHT = 3.0
"""Most recommendations are based on it."""
STEP_ROOM = 2
"""Room for gradients and the work space of convolution libraries."""

Pass = Literal["forward", "step"]


@dataclass(frozen=True)
class DeviceFacts:
    """Facts about the device that the plan depends on.

    Attributes:
        free_bytes: Free memory in bytes.
        refused: Types that it does not support, with the reason.
    """

    kind: Literal["gpu", "cpu"]
    free_bytes: int
    num_gpus: int = 0
    refused: Mapping[Precision, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One test in one type and layout.

    Attributes:
        work: Work of one call, in the unit's base (operations, bytes, images).
        num_bytes: Memory that it needs, in bytes.
        moved_bytes: Bytes of the operands of a single operation, each read or written once.
        skipped: Why it is not measured; None if it is.
    """

    id: str
    test: TestName
    title: str
    unit: Unit
    work: float
    num_bytes: int
    precision: Precision | None = None
    layout: Layout | None = None
    size: int | None = None
    batch_size: int = 1
    moved_bytes: int | None = None
    skipped: str | None = None


@dataclass(frozen=True)
class Group:
    """Tests that are measured alternately; `weight` is the group's share of the time."""

    title: str
    cases: tuple[Case, ...]
    weight: float = 1.0


SCALE: dict[Unit, float] = {"TFLOP/s": 1e12, "GB/s": 1e9, "images/s": 1.0}


def resolve_measure(asked: Measure, device: DeviceFacts) -> Measure:
    """Resolve every `auto` of a spec."""
    kind = device.kind
    return asked.model_copy(
        update={
            "sizes": AUTO_SIZES[kind] if asked.sizes == "auto" else asked.sizes,
            "batch_size": AUTO_BATCH_SIZE[kind] if asked.batch_size == "auto" else asked.batch_size,
            "image_size": AUTO_IMAGE_SIZE[kind] if asked.image_size == "auto" else asked.image_size,
        }
    )


def describe_limits(asked: Measure, device: DeviceFacts) -> list[str]:
    """Return notes that a reader needs before the numbers."""
    notes = []
    if device.kind == "cpu":
        notes.append(
            "There is no GPU: these are the numbers of a CPU, measured with smaller sizes. Compare "
            "them only with other CPUs."
            if "auto" in (asked.sizes, asked.batch_size, asked.image_size)
            else "There is no GPU: these are the numbers of a CPU."
        )
    return notes


def plan_groups(measure: Measure, device: DeviceFacts) -> list[Group]:
    """Plan the groups of a resolved spec; `skipped` marks what cannot be measured."""
    assert measure.sizes != "auto"
    assert measure.batch_size != "auto"
    assert measure.image_size != "auto"
    precisions = list(dict.fromkeys(measure.precisions))
    batch, side = measure.batch_size, measure.image_size
    groups: list[Group] = []
    for test in dict.fromkeys(measure.tests):
        match test:
            case "matmul":
                groups += [_matmul(size, precisions) for size in sorted(set(measure.sizes))]
            case "convolution":
                groups += [_convolution(which, batch, precisions) for which in ("forward", "step")]
            case "memory":
                groups.append(_memory(device))
            case "training":
                groups.append(_training(batch, side, precisions))
            case "copies":
                groups.append(_copies(device))
            case "allreduce":
                pass  # it runs in separate processes
    return [_fit(group, device) for group in groups]


def _matmul(size: int, precisions: Sequence[Precision]) -> Group:
    cases = tuple(
        Case(
            id=f"matmul/{size}/{precision}",
            test="matmul",
            title=f"matrix product {size}, {precision}",
            unit="TFLOP/s",
            work=2.0 * size**3,
            num_bytes=3 * size * size * ITEM_BYTES[precision],
            moved_bytes=3 * size * size * ITEM_BYTES[precision],
            precision=precision,
            size=size,
        )
        for precision in precisions
    )
    return Group(f"matrix product {size} x {size}", cases)


def _convolution(which: Pass, batch: int, precisions: Sequence[Precision]) -> Group:
    channels, side = CONVOLUTION_CHANNELS, CONVOLUTION_SIDE
    forward = 2.0 * batch * channels * channels * 9 * side * side
    words = "forward" if which == "forward" else "forward and backward"
    # Forward: images, weights and output; backward twice as much, with the gradients.
    moved = (2 * batch * side * side + 9 * channels) * channels * (1 if which == "forward" else 3)
    cases = tuple(
        Case(
            id=f"convolution/{which}/{precision}/{layout}",
            test="convolution",
            title=f"convolution {words}, {precision}, {layout}",
            unit="TFLOP/s",
            work=forward * (1 if which == "forward" else 3),
            num_bytes=8 * batch * channels * side * side * ITEM_BYTES[precision],
            moved_bytes=moved * ITEM_BYTES[precision],
            precision=precision,
            layout=layout,
            size=side,
            batch_size=batch,
        )
        for precision in precisions
        for layout in LAYOUTS
    )
    return Group(f"3x3 convolution, {words}", cases)


def _memory(device: DeviceFacts) -> Group:
    num_bytes = min(COPY_BYTES[device.kind], device.free_bytes // 8)
    tests = (("copy", 2, "copy within the memory"), ("triad", 3, "triad a = b + s c"))
    cases = tuple(
        Case(
            id=f"memory/{name}",
            test="memory",
            title=title,
            unit="GB/s",
            work=float(passes * num_bytes),
            num_bytes=3 * num_bytes,
            precision="fp32",
            size=num_bytes,
        )
        for name, passes, title in tests
    )
    return Group("memory bandwidth", cases)


def _training(batch: int, side: int, precisions: Sequence[Precision]) -> Group:
    cases = tuple(
        Case(
            id=f"training/resnet18/{precision}/{layout}",
            test="training",
            title=f"ResNet-18 step, {precision}, {layout}",
            unit="images/s",
            work=float(batch),
            num_bytes=_step_bytes(batch, side),
            precision=precision,
            layout=layout,
            size=side,
            batch_size=batch,
        )
        for precision in precisions
        for layout in LAYOUTS
    )
    return Group(f"ResNet-18 step, {batch} images of {side} x {side}", cases, weight=STEP_WEIGHT)


def _step_bytes(batch: int, side: int) -> int:
    each = STEP_BYTES_PER_PIXEL["small" if side <= SMALL_IMAGE else "large"]
    return STEP_ROOM * batch * side * side * each


def _copies(device: DeviceFacts) -> Group:
    num_bytes = min(COPY_BYTES["cpu"], device.free_bytes // 8)
    no_device = "a CPU has no device to copy to" if device.kind == "cpu" else None
    cases = tuple(
        Case(
            id=f"copies/{name}",
            test="copies",
            title=f"copy to the device from {name} memory",
            unit="GB/s",
            work=float(num_bytes),
            num_bytes=num_bytes,
            size=num_bytes,
            skipped=no_device,
        )
        for name in ("pinned", "unpinned")
    )
    return Group("copies to the device", cases)


def _fit(group: Group, device: DeviceFacts) -> Group:
    """Skip unsupported cases, then the largest ones until the rest fits into memory."""
    cases = [_refuse(case, device) for case in group.cases]
    room = int(device.free_bytes * MEMORY_SHARE)
    # A step frees its activations at its end, so only the largest step counts.
    is_shared = bool(cases) and cases[0].test == "training"
    for case in sorted(cases, key=lambda case: -case.num_bytes):
        taken = [other.num_bytes for other in cases if other.skipped is None]
        needed = max(taken, default=0) if is_shared else sum(taken)
        if case.skipped is None and needed > room:
            words = f"skipped: the group needs {_gb(needed)}, but only {_gb(room)} may be used"
            cases[cases.index(case)] = _skip(case, words)
    return Group(group.title, tuple(cases), group.weight)


def _refuse(case: Case, device: DeviceFacts) -> Case:
    why = device.refused.get(case.precision) if case.precision else None
    return _skip(case, f"not supported: {why}") if why and case.skipped is None else case


def _skip(case: Case, why: str) -> Case:
    return Case(**{**vars(case), "skipped": why})


def _gb(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB"
