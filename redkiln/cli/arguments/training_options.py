"""Options for the fields of a spec that are changed most, so that `train` needs no spec file."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from redkiln.cli.arguments.specfile import SpecSource
from redkiln.spec.quality import Quality


def _option(*flags: str, text: str, **others: Any) -> Any:
    return typer.Option(*flags, help=text, rich_help_panel="Training", show_default=False, **others)


@dataclass(frozen=True)
class TrainingArguments:
    """The training options of one command line; None for those that the user did not give."""

    model: Annotated[
        str | None,
        _option(
            "--model",
            "-m",
            text="Model; `redkiln tasks show` lists them. Or an ONNX file to train, or "
            "FILE.py:CLASS, your own nn.Module, whose folder is sent.",
        ),
    ] = None
    pretrained: Annotated[
        str | None,
        _option(
            "--pretrained",
            text="Weights to start from: a .pt, .safetensors or .onnx file, org/name of the hub, "
            "or job:ID.",
            metavar="FILE",
        ),
    ] = None
    quality: Annotated[
        Quality | None,
        _option("--quality", text="How much time training may take; default: balanced."),
    ] = None
    epochs: Annotated[
        int | None, _option("--epochs", text="Passes over the training data.", metavar="N")
    ] = None
    lr: Annotated[float | None, _option("--lr", text="Peak learning rate.", metavar="RATE")] = None
    name: Annotated[str | None, _option("--name", text="Name of the job.")] = None
    seed: Annotated[
        int | None, _option("--seed", text="Seed of all random numbers.", metavar="N")
    ] = None
    folds: Annotated[
        int | None, _option("--folds", text="Cross-validate a table with N folds.", metavar="N")
    ] = None
    device: Annotated[
        Literal["any", "gpu", "cpu"] | None,
        _option("--device", text="What to train on; default: a GPU if a worker has one."),
    ] = None

    def write_to(self, source: SpecSource) -> None:
        """Set the fields of a spec that these options stand for."""
        fields = {
            "model": ("--model", self.model),
            "name": ("--name", self.name),
            "quality": ("--quality", self.quality),
            "training.epochs": ("--epochs", self.epochs),
            "training.optimizer.lr": ("--lr", self.lr),
            "training.seed": ("--seed", self.seed),
            "training.folds": ("--folds", self.folds),
            "resources.device": ("--device", self.device),
        }
        for path, (flag, value) in fields.items():
            if value is not None:
                source.put(path, value, place=flag)
