"""What tasks whose models have trained weights to start from share: freezing the backbone."""

from typing import Self

from pydantic import Field, model_validator

from redkiln.class_weights import ClassifierTraining


class TunedTraining(ClassifierTraining):
    """Training of classifiers that may begin with their head alone."""

    freeze_backbone_epochs: int = Field(
        0,
        ge=0,
        le=100_000,
        description="First epochs in which only the model's head is trained; for models that start "
        "from trained weights.",
    )

    @model_validator(mode="after")
    def _train_longer_than_frozen(self) -> Self:
        if self.epochs is not None and self.freeze_backbone_epochs > self.epochs:
            raise ValueError("freeze_backbone_epochs is not larger than epochs")
        return self


def check_frozen(training: TunedTraining, *, pretrained: str | None) -> None:
    """See that what is frozen has learnt something.

    Raises:
        ValueError: a model with random weights would keep them.
    """
    if training.freeze_backbone_epochs and pretrained is None:
        raise ValueError(
            "training.freeze_backbone_epochs is for models that start from trained weights; "
            "say which in model.pretrained"
        )
