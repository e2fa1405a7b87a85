"""`python -m worker.hardware.selftest.probe`: check whether this GPU works at all.

This is the child that an override has to pass (worker.hardware.override): it computes one product
and one convolution with its gradients, compares them with float64 on the CPU, and prints a
`ProbeOutput`. If the kernels do not fit the GPU it may crash instead, which is also an answer.
"""

import argparse
import sys
from collections.abc import Sequence

import torch
from torch.nn import functional

from worker.hardware.override import ProbeOutput


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute and print; return 0 whatever the numbers are."""
    parser = argparse.ArgumentParser(prog="python -m worker.hardware.selftest.probe")
    parser.add_argument("--device", default="cuda:0", help="torch device")
    device = torch.device(parser.parse_args(arguments).device)
    sys.stdout.write(probe(device).model_dump_json() + "\n")
    return 0


def probe(device: torch.device) -> ProbeOutput:
    """Compare a device's numbers with the CPU's."""
    if device.type == "cuda" and not torch.cuda.is_available():
        return ProbeOutput(error="torch opens no GPU with the override")
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(256, 256, generator=generator) for _ in range(2))
    images = torch.randn(4, 8, 16, 16, generator=generator)
    weight = torch.randn(16, 8, 3, 3, generator=generator)
    try:
        errors = {
            "product": _error(left.to(device) @ right.to(device), left.double() @ right.double()),
            "convolution": _error(
                _convolve(images.to(device), weight.to(device)),
                _convolve(images.double(), weight.double()),
            ),
        }
    except RuntimeError as error:
        return ProbeOutput(error=f"torch could not compute: {str(error).splitlines()[0]}")
    return ProbeOutput(gfx=_name_gfx(device), errors=errors)


def _convolve(images: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return a convolution and both of its gradients, as one row of numbers."""
    images.requires_grad_()
    weight.requires_grad_()
    out = functional.conv2d(images, weight, padding=1)
    gradients = torch.autograd.grad(out.square().mean(), [images, weight])
    scaled = [tensor / tensor.detach().square().mean().sqrt() for tensor in (out, *gradients)]
    return torch.cat([tensor.detach().flatten() for tensor in scaled])


def _error(found: torch.Tensor, right: torch.Tensor) -> float | None:
    difference = (found.detach().cpu().double() - right).abs().max() / right.square().mean().sqrt()
    return float(difference) if bool(torch.isfinite(difference)) else None


def _name_gfx(device: torch.device) -> str | None:
    if device.type != "cuda":
        return None
    name = getattr(torch.cuda.get_device_properties(device), "gcnArchName", "")
    return name.partition(":")[0] or None


if __name__ == "__main__":
    sys.exit(main())
