"""The optimisers that a spec can name.

Defaults are torch's where torch has the optimiser, except for the learning rates of `sgd` and
`adamw`, which were measured here.
"""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from redkiln.spec.strict import Shorthand

Betas = tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]]

PEAK = "Peak learning rate; the schedule scales it."
ADDED_DECAY = "Weight decay: this times the weights is added to gradients."
DECOUPLED_DECAY = "Weight decay: a step shrinks weights by `lr` times this."
BETAS = (
    "Decay of the moving averages of the gradient and of its square, each at least 0 and below 1."
)


class Sgd(Shorthand):
    """Stochastic gradient descent with momentum."""

    name: Literal["sgd"] = "sgd"
    lr: float = Field(0.05, gt=0, le=100, description=PEAK)
    momentum: float = Field(0.9, ge=0, lt=1, description="Share of the last update that is kept.")
    nesterov: bool = Field(True, description="Use Nesterov momentum; ignored if momentum is 0.")
    weight_decay: float = Field(5e-4, ge=0, le=1, description=ADDED_DECAY)


class Adam(Shorthand):
    """Adam, with weight decay inside the gradient. Source: Kingma and Ba, arXiv:1412.6980."""

    name: Literal["adam"] = "adam"
    lr: float = Field(1e-3, gt=0, le=100, description=PEAK)
    betas: Betas = Field((0.9, 0.999), strict=False, description=BETAS)
    weight_decay: float = Field(0.0, ge=0, le=1, description=ADDED_DECAY)


class AdamW(Shorthand):
    """Adam with decoupled weight decay."""

    name: Literal["adamw"] = "adamw"
    lr: float = Field(2e-3, gt=0, le=100, description=PEAK)
    betas: Betas = Field((0.9, 0.999), strict=False, description=BETAS)
    weight_decay: float = Field(0.01, ge=0, le=1, description=DECOUPLED_DECAY)


class Muon(Shorthand):
    """Momentum with orthogonal updates for weight matrices and convolutions; AdamW for the rest.

    Both use AdamW's scale of learning rates. Source: Jordan et al.,
    kellerjordan.github.io/posts/muon; for the scale Liu et al., arXiv:2502.16982, section 2.2.
    """

    name: Literal["muon"] = "muon"
    lr: float = Field(2e-3, gt=0, le=100, description=PEAK)
    momentum: float = Field(0.95, ge=0, lt=1, description="Share of the last update that is kept.")
    nesterov: bool = Field(True, description="Use Nesterov momentum.")
    weight_decay: float = Field(0.01, ge=0, le=1, description=DECOUPLED_DECAY)


class Adagrad(Shorthand):
    """Rates that shrink with the sum of squared gradients. Source: Duchi et al., JMLR 12 (2011)."""

    name: Literal["adagrad"] = "adagrad"
    lr: float = Field(0.01, gt=0, le=100, description=PEAK)
    lr_decay: float = Field(
        0.0, ge=0, le=1, description="The rate of step n is divided by 1 + (n - 1) times this."
    )
    weight_decay: float = Field(0.0, ge=0, le=1, description=ADDED_DECAY)


class Adadelta(Shorthand):
    """Steps scaled by a moving average of earlier steps. Source: Zeiler, arXiv:1212.5701."""

    name: Literal["adadelta"] = "adadelta"
    lr: float = Field(1.0, gt=0, le=100, description=PEAK)
    rho: float = Field(0.9, ge=0, lt=1, description="Decay of the moving averages of the squares.")
    weight_decay: float = Field(0.0, ge=0, le=1, description=ADDED_DECAY)


class RmsProp(Shorthand):
    """Rates divided by the root of a moving average of squared gradients.

    Source: Hinton, Neural Networks for Machine Learning, lecture 6e (2012).
    """

    name: Literal["rmsprop"] = "rmsprop"
    lr: float = Field(0.01, gt=0, le=100, description=PEAK)
    alpha: float = Field(0.99, ge=0, lt=1, description="Decay of the moving average.")
    momentum: float = Field(0.0, ge=0, lt=1, description="Share of the last update that is kept.")
    centered: bool = Field(False, description="Divide by the gradient's standard deviation.")
    weight_decay: float = Field(0.0, ge=0, le=1, description=ADDED_DECAY)


class Lion(Shorthand):
    """Steps along the sign of an averaged gradient, with half of Adam's memory.

    Rates are 3 to 10 times lower than AdamW's, and weight decay higher by the same factor.
    Source: Chen et al., arXiv:2302.06675.
    """

    name: Literal["lion"] = "lion"
    lr: float = Field(2e-4, gt=0, le=100, description=PEAK)
    betas: Betas = Field(
        (0.9, 0.99),
        strict=False,
        description="Weight of the average in a step's direction, and decay of the average, each "
        "at least 0 and below 1.",
    )
    weight_decay: float = Field(0.1, ge=0, le=1, description=DECOUPLED_DECAY)


class Adafactor(Shorthand):
    """Adam with row and column sums in place of all squares, for little memory.

    Source: Shazeer and Stern, arXiv:1804.04235.
    """

    name: Literal["adafactor"] = "adafactor"
    lr: float = Field(0.01, gt=0, le=100, description=PEAK)
    beta2_decay: float = Field(
        -0.8, le=0, ge=-10, description="Step n averages squares with weight 1 - n to this power."
    )
    clip: float = Field(
        1.0, gt=0, le=1000, description="Largest root mean square of a weight's update."
    )
    weight_decay: float = Field(0.0, ge=0, le=1, description=DECOUPLED_DECAY)


def _tag(value: Any) -> Any:
    if isinstance(value, dict):
        return value.get("name", "adamw")
    return getattr(value, "name", value)


Optimizer = Annotated[
    Annotated[AdamW, Tag("adamw")]
    | Annotated[Sgd, Tag("sgd")]
    | Annotated[Muon, Tag("muon")]
    | Annotated[Adam, Tag("adam")]
    | Annotated[Lion, Tag("lion")]
    | Annotated[RmsProp, Tag("rmsprop")]
    | Annotated[Adagrad, Tag("adagrad")]
    | Annotated[Adadelta, Tag("adadelta")]
    | Annotated[Adafactor, Tag("adafactor")],
    Discriminator(_tag),
]
