"""The fine-tuning with int8 rounding that the variant `int8-qat` needs."""

from pydantic import Field

from redkiln.spec.strict import StrictModel


class Quantize(StrictModel):
    """A short training after the training, in which the network learns with int8 rounding."""

    epochs: int = Field(
        2, ge=1, le=1000, description="Passes over the training split for `int8-qat`."
    )
    lr: float = Field(
        1e-4, gt=0, le=1, description="Learning rate of this fine-tuning, which uses AdamW."
    )
