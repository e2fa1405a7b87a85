"""A plain PyTorch loop that learns which of two spirals a point is on, and leaves an ONNX file."""

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from torch import nn

import redkiln

OUT = Path(os.environ.get("REDKILN_OUT", "out"))
CHECKPOINTS = Path(os.environ.get("REDKILN_CHECKPOINTS", "checkpoints"))


def make_spirals(num: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points on two spirals, (num, 2) float32, and the spiral of each, (num,) int64."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(num) % 2
    turn = torch.rand(num, generator=generator) * 3 * torch.pi
    angle = turn + labels * torch.pi
    points = torch.stack([angle.cos(), angle.sin()], dim=1) * (turn / 10).unsqueeze(1)
    return points + 0.02 * torch.randn(num, 2, generator=generator), labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1500)
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    CHECKPOINTS.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(0)
    points, labels = make_spirals(4096)
    model = nn.Sequential(
        nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )
    if torch.cuda.is_available():  # also true on AMD: torch for ROCm uses the same names
        model, points, labels = model.cuda(), points.cuda(), labels.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    first = 0
    newest = CHECKPOINTS / "newest.pt"
    if newest.exists():
        state = torch.load(newest, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
        print(f"resumes after step {first}")

    for step in range(first + 1, options.steps + 1):
        batch = torch.randint(0, len(points), (256,), device=points.device)
        loss = nn.functional.cross_entropy(model(points[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            accuracy = (model(points).argmax(1) == labels).float().mean()
            redkiln.log(step=step, steps=options.steps, loss=loss, accuracy=accuracy)
            print(f"step {step}: loss {loss.item():.4f}, accuracy {accuracy.item():.3f}")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            partial = newest.with_suffix(".tmp")
            torch.save(state, partial)
            partial.replace(newest)  # atomic

    # Redkiln runs the ONNX file when the script has ended, and compares it if there are samples.
    model = model.cpu().eval()
    sample = points[:8].cpu()
    batch_axis = {0: torch.export.Dim("batch")}
    torch.onnx.export(
        model, (sample,), OUT / "spirals.onnx", dynamo=True, input_names=["points"],
        output_names=["logits"], dynamic_shapes=(batch_axis,), external_data=False, verbose=False,
    )  # fmt: skip
    with torch.no_grad():
        np.savez(OUT / "samples.npz", points=sample.numpy(), logits=model(sample).numpy())


if __name__ == "__main__":
    main()
