"""The shapes that are tested, as data, each with its reason.

Legend: M, K, N of a product (M, K) x (K, N); images are (batch, channels, side, side).

Source: hipBLASLt returned tall and skinny products with 93 % zeros on gfx1201
(ROCm/rocm-libraries#5706, pytorch/pytorch#189375); gradients of convolutions were wrong on gfx1033
(unslothai/unsloth#8412). AOTriton returned NaN for head size 72 and 4,096 tokens on gfx1151
(ROCm/aotriton#54, #179) and for 80, causal and of unequal lengths, on gfx1150 (#183), and wrong
numbers for 512 on gfx1151 (pytorch/pytorch#189849); all read on 2026-11-23.
"""

from dataclasses import dataclass
from typing import Literal

Layout = Literal["nn", "nt", "tn"]


@dataclass(frozen=True)
class GemmShape:
    """A matrix product.

    Attributes:
        layout: Factor that is passed transposed, as weights and gradients are.
        is_quick: Whether it is part of the quick test.
    """

    m: int
    k: int
    n: int
    layout: Layout = "nn"
    is_quick: bool = False

    @property
    def is_tall_skinny(self) -> bool:
        """Whether one side is at least 16 times another."""
        return max(self.m, self.k, self.n) >= 16 * min(self.m, self.k, self.n)

    def __str__(self) -> str:
        return f"{self.m}x{self.k}x{self.n} {self.layout}"


@dataclass(frozen=True)
class ConvolutionShape:
    """A convolution with padding of half its kernel."""

    batch: int
    channels: int
    filters: int
    side: int
    kernel: int = 3
    stride: int = 1
    groups: int = 1
    is_channels_last: bool = False
    is_quick: bool = False

    @property
    def out_side(self) -> int:
        """Side of the output in pixels."""
        return (self.side - 1) // self.stride + 1

    def __str__(self) -> str:
        text = (
            f"{self.batch}x{self.channels}x{self.side}x{self.side} -> {self.filters}, "
            f"{self.kernel}x{self.kernel}/{self.stride}"
        )
        text += f", {self.groups} groups" if self.groups > 1 else ""
        return text + (", channels last" if self.is_channels_last else "")


@dataclass(frozen=True)
class AttentionShape:
    """Scaled dot-product attention.

    Attributes:
        width: Size of a head.
        num_keys: Number of keys and values; None: as many as queries.
        magnitude: Factor of queries and keys. With a large one only overflow is tested: every
            number of the output must be finite.
    """

    batch: int
    heads: int
    length: int
    width: int
    is_causal: bool = False
    is_quick: bool = False
    num_keys: int | None = None
    magnitude: float = 1.0

    @property
    def key_length(self) -> int:
        """Number of keys and values."""
        return self.length if self.num_keys is None else self.num_keys

    def __str__(self) -> str:
        text = f"{self.batch}x{self.heads}x{self.length}x{self.width}"
        text += f", {self.num_keys} keys" if self.num_keys is not None else ""
        text += f", magnitude {self.magnitude:g}" if self.magnitude != 1 else ""
        return text + (" causal" if self.is_causal else "")


@dataclass(frozen=True)
class NormalizationShape:
    """Layer norm over the last dimension of (rows, width), or batch norm of images."""

    kind: Literal["layer_norm", "batch_norm"]
    size: tuple[int, ...]
    is_quick: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {'x'.join(map(str, self.size))}"


GEMMS = (
    GemmShape(256, 256, 256, is_quick=True),
    GemmShape(512, 1024, 256, "nt"),
    GemmShape(500, 333, 129, "tn"),  # no side is a multiple of a tile's
    # Tall and skinny, like classifier heads, small batches and their gradients.
    GemmShape(16384, 64, 8, is_quick=True),
    GemmShape(8192, 256, 16, "nt"),
    GemmShape(32768, 32, 10),
    GemmShape(16, 2048, 1024, "nt", is_quick=True),
    GemmShape(1, 2048, 2048),
    GemmShape(2048, 2048, 1),
    GemmShape(10, 16384, 64, "tn", is_quick=True),
    GemmShape(64, 16384, 3, "tn"),
)
MANY_ROWS = GemmShape(600_000, 16, 8)
"""More rows than a grid of gfx12 has groups; wrong in float32 on gfx1201.

Source: ROCm/legacy-rocm-build#6595.
"""
LINEARS = (
    GemmShape(128, 512, 10, is_quick=True),  # the head of resnet18
    GemmShape(4096, 256, 64),
)
CONVOLUTIONS = (
    ConvolutionShape(8, 3, 16, 16, is_quick=True),
    ConvolutionShape(8, 16, 32, 16, stride=2, is_quick=True),
    ConvolutionShape(16, 64, 64, 16),
    ConvolutionShape(8, 64, 128, 14, stride=2),
    ConvolutionShape(4, 3, 64, 64, kernel=7, stride=2),  # the first layer of resnet18
    ConvolutionShape(8, 64, 128, 8, kernel=1),
    ConvolutionShape(8, 32, 32, 16, groups=32),  # depthwise
    ConvolutionShape(16, 32, 64, 16, is_channels_last=True),
)
HEAD_SIZES = (64, 72, 80, 96, 128, 512)
"""Head sizes of current models; AOTriton was wrong for some alone, and causal or uneven only."""
ATTENTIONS = (
    AttentionShape(1, 2, 64, 32, is_quick=True),
    AttentionShape(2, 4, 128, 64),
    AttentionShape(2, 4, 197, 64),  # the patches of a 224-pixel image and a class token
    AttentionShape(1, 4, 128, 64, is_causal=True),
    # Each head size is causal or not, and with another number of keys.
    *(
        AttentionShape(1, 1, length, width, is_causal=is_causal, num_keys=num_keys)
        for width in HEAD_SIZES
        for length, is_causal, num_keys in (
            (1024, True, None),
            (4096, False, None),
            (1024, False, 1536),
        )
    ),
    AttentionShape(1, 1, 2048, 80, is_causal=True),
    AttentionShape(3, 5, 256, 80, is_causal=True, num_keys=32),
    AttentionShape(1, 1, 4096, 72, magnitude=40),  # products of over 65,504, fp16's largest number
)
NORMALIZATIONS = (
    NormalizationShape("layer_norm", (64, 256), is_quick=True),
    NormalizationShape("layer_norm", (33, 1000)),
    NormalizationShape("batch_norm", (16, 8, 12, 12), is_quick=True),
    NormalizationShape("batch_norm", (32, 64, 8, 8)),
)
