"""The tests: what each case of the plan runs on a device; its tensors are created beforehand."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from redkiln.views.hardware import Precision
from worker.hardware.benchmark.plan import CONVOLUTION_CHANNELS, ITEM_BYTES, Case

DTYPES: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
NUM_CLASSES = 1000
MOMENTUM = 0.9
LEARNING_RATE = 1e-3

Call = Callable[[], torch.Tensor]
"""Runs a test once; its result can be compared with another device's or setting's."""
BuildModel = Callable[[int], nn.Module]
"""Builds the training step's network for images of a given side in pixels and 1000 classes."""


def build_call(case: Case, *, device: torch.device, build_model: BuildModel) -> Call:
    """Build a test that can be called repeatedly.

    Raises:
        RuntimeError: The device does not support it, or has too little memory.
    """
    match case.test:
        case "matmul":
            return _matmul(case, device)
        case "convolution":
            return _convolution(case, device)
        case "memory":
            return _memory(case, device)
        case "training":
            return _training(case, device, build_model)
        case "copies":
            return _copy(case, device)
        case "allreduce":
            raise ValueError("all-reduce runs in a process for each GPU")


def probe(precision: Precision, *, device: torch.device) -> None:
    """Run each kind of operation once, on little data.

    Raises:
        RuntimeError: The device does not support it in this type.
    """
    dtype = DTYPES[precision]
    square = torch.ones(16, 16, device=device, dtype=dtype)
    (square @ square).sum().item()
    images = torch.ones(1, 2, 8, 8, device=device, dtype=dtype, requires_grad=True)
    weight = torch.ones(2, 2, 3, 3, device=device, dtype=dtype)
    functional.conv2d(images, weight).sum().backward()  # type: ignore[no-untyped-call]


def _matmul(case: Case, device: torch.device) -> Call:
    assert case.size is not None
    assert case.precision is not None
    shape, dtype = (case.size, case.size), DTYPES[case.precision]
    a, b = (torch.randn(shape, device=device, dtype=dtype) for _ in range(2))  # (S, S)
    out = torch.empty(shape, device=device, dtype=dtype)
    return partial(torch.mm, a, b, out=out)


def _convolution(case: Case, device: torch.device) -> Call:
    assert case.size is not None
    assert case.precision is not None
    needs_grad = "/step/" in case.id
    dtype, memory_format = DTYPES[case.precision], _memory_format(case)
    shape = (case.batch_size, CONVOLUTION_CHANNELS, case.size, case.size)
    images = torch.randn(shape, device=device, dtype=dtype)  # (B, C, S, S)
    images = images.to(memory_format=memory_format).requires_grad_(needs_grad)
    layer = nn.Conv2d(CONVOLUTION_CHANNELS, CONVOLUTION_CHANNELS, 3, padding=1, bias=False)
    layer = layer.to(device=device, dtype=dtype, memory_format=memory_format)  # type: ignore[call-overload]
    if not needs_grad:
        layer.requires_grad_(False)
        return partial(layer, images)
    gradient = torch.randn_like(images)

    weight: torch.Tensor = layer.weight

    def step() -> torch.Tensor:
        images.grad = weight.grad = None
        layer(images).backward(gradient)
        assert weight.grad is not None
        return weight.grad

    return step


def _memory(case: Case, device: torch.device) -> Call:
    assert case.size is not None
    count = case.size // ITEM_BYTES["fp32"]
    a, b, c = (torch.ones(count, device=device) for _ in range(3))
    if case.id == "memory/copy":
        return partial(a.copy_, b)
    return partial(torch.add, b, c, alpha=0.5, out=a)


def _training(case: Case, device: torch.device, build_model: BuildModel) -> Call:
    assert case.size is not None
    assert case.precision is not None
    memory_format = _memory_format(case)
    model = build_model(case.size).train()
    model = model.to(device=device, memory_format=memory_format)  # type: ignore[call-overload]
    shape = (case.batch_size, 3, case.size, case.size)
    images = torch.rand(shape, device=device).to(memory_format=memory_format)  # (B, 3, S, S)
    labels = torch.randint(NUM_CLASSES, (case.batch_size,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    dtype, is_mixed = DTYPES[case.precision], case.precision != "fp32"
    # fp16 training needs loss scaling, so its cost is included.
    scaler = torch.amp.GradScaler(device.type, enabled=case.precision == "fp16")

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=dtype, enabled=is_mixed):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
        return logits.detach()  # type: ignore[no-any-return]

    return step


def _copy(case: Case, device: torch.device) -> Call:
    assert case.size is not None
    source = torch.ones(case.size, dtype=torch.uint8, pin_memory=case.id == "copies/pinned")
    target = torch.empty(case.size, dtype=torch.uint8, device=device)
    return partial(target.copy_, source, non_blocking=True)


def _memory_format(case: Case) -> torch.memory_format:
    is_last = case.layout == "channels_last"
    return torch.channels_last if is_last else torch.contiguous_format
