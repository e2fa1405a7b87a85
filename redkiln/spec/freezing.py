"""Freezing the backbone, shared by tasks whose models can start from trained weights."""

from typing import Self

from pydantic import Field, model_validator

from redkiln.spec.class_weights import ClassifierTraining


class TunedTraining(ClassifierTraining):
    """Training of classifiers that can first train their head alone."""

    freeze_backbone_epochs: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Number of first epochs in which only the model's head is trained. Only for "
        "models that start from trained weights.",
    )

    @model_validator(mode="after")
    def _train_longer_than_frozen(self) -> Self:
        if self.epochs is not None and self.freeze_backbone_epochs > self.epochs:
            raise ValueError("freeze_backbone_epochs must not be larger than epochs")
        return self


def check_frozen(training: TunedTraining, *, pretrained: str | None) -> None:
    """Check that frozen weights are trained weights.

    Raises:
        ValueError: The model starts from random weights, which would stay random.
    """
    if training.freeze_backbone_epochs and pretrained is None:
        raise ValueError(
            "training.freeze_backbone_epochs needs a model that starts from trained weights; "
            "name them in model.pretrained"
        )
