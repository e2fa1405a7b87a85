"""The networks of the suite, built without weights: image networks, a U-Net, an LSTM, BERT, GPT.

Legend: B batch, C channels, H and W sides of an image, T tokens or steps, F features.

Sources: MobileNet-V2 (Sandler et al. 2018), Inception-V3 (Szegedy et al. 2015, without its
auxiliary classifier), ResNet-50 (He et al. 2015, stride in the 3x3 convolution), VGG-16 (Simonyan
and Zisserman 2014, average pooling before its dense layers), U-Net (Ronneberger et al. 2015, with
padding).
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

NUM_CLASSES = 1000
NUM_WORDS = 8192


def convolve(
    channels: int,
    out: int,
    size: int | tuple[int, int] = 1,
    *,
    stride: int = 1,
    groups: int = 1,
    padding: int | tuple[int, int] | None = None,
    activation: Callable[[], nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    """Build a convolution with batch norm and an activation."""
    sides = size if isinstance(size, tuple) else (size, size)
    same = (sides[0] // 2, sides[1] // 2) if padding is None else padding
    layers: list[nn.Module] = [
        nn.Conv2d(channels, out, sides, stride, same, groups=groups, bias=False),
        nn.BatchNorm2d(out),
    ]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class Residual(nn.Module):
    """Adds a shortcut to a block: the input itself, or a projection of it."""

    def __init__(self, block: nn.Module, shortcut: nn.Module, activation: nn.Module) -> None:
        super().__init__()
        self.block, self.shortcut, self.activation = block, shortcut, activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the block for (B, C, H, W)."""
        return self.activation(self.block(x) + self.shortcut(x))  # type: ignore[no-any-return]


class Branches(nn.Module):
    """Concatenates the outputs of parallel branches."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the branches for (B, C, H, W)."""
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def classify(*layers: nn.Module, channels: int) -> nn.Sequential:
    """Append pooling and the classifier."""
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, NUM_CLASSES))
    return nn.Sequential(*layers, *head)


def build_mobilenet_v2() -> nn.Module:
    """Build MobileNet-V2."""
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
    layers: list[nn.Module] = [convolve(3, 32, 3, stride=2, activation=nn.ReLU6)]
    channels = 32
    for expand, out, count, stride in rows:
        for number in range(count):
            layers.append(_invert(channels, out, expand, stride if number == 0 else 1))
            channels = out
    layers.append(convolve(channels, 1280, activation=nn.ReLU6))
    return classify(*layers, channels=1280)


def _invert(channels: int, out: int, expand: int, stride: int) -> nn.Module:
    wide = channels * expand
    first = [] if expand == 1 else [convolve(channels, wide, activation=nn.ReLU6)]
    block = nn.Sequential(
        *first,
        convolve(wide, wide, 3, stride=stride, groups=wide, activation=nn.ReLU6),
        convolve(wide, out, activation=None),
    )
    same = stride == 1 and channels == out
    return Residual(block, nn.Identity(), nn.Identity()) if same else block


def build_resnet50() -> nn.Module:
    """Build ResNet-50."""
    layers: list[nn.Module] = [convolve(3, 64, 7, stride=2), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for number in range(count):
            stride = 2 if stage and number == 0 else 1
            layers.append(_bottleneck(channels, width, stride))
            channels = 4 * width
    return classify(*layers, channels=channels)


def _bottleneck(channels: int, width: int, stride: int) -> nn.Module:
    out = 4 * width
    block = nn.Sequential(
        convolve(channels, width),
        convolve(width, width, 3, stride=stride),
        convolve(width, out, activation=None),
    )
    is_same = channels == out and stride == 1
    shortcut = nn.Identity() if is_same else convolve(channels, out, stride=stride, activation=None)
    return Residual(block, shortcut, nn.ReLU())


def build_vgg16() -> nn.Module:
    """Build VGG-16."""
    layers: list[nn.Module] = []
    channels = 3
    for out, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU()]
            channels = out
        layers.append(nn.MaxPool2d(2))
    dense = (nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(512 * 49, 4096), nn.ReLU(),
             nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, NUM_CLASSES))  # fmt: skip
    return nn.Sequential(*layers, *dense)


def build_inception_v3() -> nn.Module:
    """Build Inception-V3."""
    stem = (
        convolve(3, 32, 3, stride=2, padding=0), convolve(32, 32, 3, padding=0),
        convolve(32, 64, 3), nn.MaxPool2d(3, 2), convolve(64, 80), convolve(80, 192, 3, padding=0),
        nn.MaxPool2d(3, 2),
    )  # fmt: skip
    blocks = (
        _inception_a(192, 32), _inception_a(256, 64), _inception_a(288, 64), _reduce_a(288),
        _inception_b(128), _inception_b(160), _inception_b(160), _inception_b(192), _reduce_b(),
        _inception_c(1280), _inception_c(2048),
    )  # fmt: skip
    return classify(*stem, *blocks, channels=2048)


def _pool(channels: int, out: int) -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), convolve(channels, out))


def _inception_a(channels: int, pooled: int) -> nn.Module:
    return Branches(
        convolve(channels, 64),
        nn.Sequential(convolve(channels, 48), convolve(48, 64, 5)),
        nn.Sequential(convolve(channels, 64), convolve(64, 96, 3), convolve(96, 96, 3)),
        _pool(channels, pooled),
    )


def _reduce_a(channels: int) -> nn.Module:
    deep = (convolve(channels, 64), convolve(64, 96, 3), convolve(96, 96, 3, stride=2, padding=0))
    return Branches(
        convolve(channels, 384, 3, stride=2, padding=0), nn.Sequential(*deep), nn.MaxPool2d(3, 2)
    )


def _chain(channels: list[int], sizes: list[int | tuple[int, int]]) -> nn.Module:
    """Build convolutions one after another."""
    pairs = zip(pairwise(channels), sizes, strict=True)
    return nn.Sequential(*(convolve(before, out, size) for (before, out), size in pairs))


def _inception_b(width: int) -> nn.Module:
    row, column = (1, 7), (7, 1)
    return Branches(
        convolve(768, 192),
        _chain([768, width, width, 192], [1, row, column]),
        _chain([768, width, width, width, width, 192], [1, column, row, column, row]),
        _pool(768, 192),
    )


def _reduce_b() -> nn.Module:
    return Branches(
        nn.Sequential(convolve(768, 192), convolve(192, 320, 3, stride=2, padding=0)),
        nn.Sequential(
            _chain([768, 192, 192, 192], [1, (1, 7), (7, 1)]),
            convolve(192, 192, 3, stride=2, padding=0),
        ),
        nn.MaxPool2d(3, 2),
    )


def _inception_c(channels: int) -> nn.Module:
    def split() -> nn.Module:
        return Branches(convolve(384, 384, (1, 3)), convolve(384, 384, (3, 1)))

    return Branches(
        convolve(channels, 320),
        nn.Sequential(convolve(channels, 384), split()),
        nn.Sequential(convolve(channels, 448), convolve(448, 384, 3), split()),
        _pool(channels, 192),
    )


class UNet(nn.Module):
    """U-Net with four levels and skip connections, (B, 3, H, W) to (B, 2, H, W)."""

    def __init__(self, widths: tuple[int, ...] = (64, 128, 256, 512, 1024)) -> None:
        super().__init__()
        inputs = (3, *widths[:-1])
        self.down = nn.ModuleList(map(self._double, inputs, widths))
        self.raise_ = nn.ModuleList(
            nn.ConvTranspose2d(below, out, 2, 2) for out, below in pairwise(widths)
        )
        self.up = nn.ModuleList(self._double(2 * out, out) for out in widths[:-1])
        self.out = nn.Conv2d(widths[0], 2, 1)

    @staticmethod
    def _double(channels: int, out: int) -> nn.Module:
        return nn.Sequential(convolve(channels, out, 3), convolve(out, out, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the mask's logits."""
        skipped: list[torch.Tensor] = []
        for level in self.down:
            x = level(functional.max_pool2d(x, 2) if skipped else x)
            skipped.append(x)
        for raised, level, skip in zip(
            reversed(self.raise_), reversed(self.up), reversed(skipped[:-1]), strict=True
        ):
            x = level(torch.cat([skip, raised(x)], dim=1))
        return self.out(x)  # type: ignore[no-any-return]


class SentimentLstm(nn.Module):
    """An LSTM over (B, T, 300) with a classifier of its last step."""

    FEATURES, HIDDEN = 300, 256

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(self.FEATURES, self.HIDDEN, batch_first=True)
        self.out = nn.Linear(self.HIDDEN, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the logits (B, 2)."""
        states, _ = self.lstm(x)
        return self.out(states[:, -1])  # type: ignore[no-any-return]


class Logits(nn.Module):
    """Returns the logits of a network of transformers as a tensor."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Compute the logits of tokens (B, T)."""
        return self.model(tokens).logits  # type: ignore[no-any-return]


def build_bert() -> nn.Module:
    """Build a small BERT: 4 layers of 512, 8 heads, a classifier of two classes."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(vocab_size=NUM_WORDS, hidden_size=512, num_hidden_layers=4,
                        num_attention_heads=8, intermediate_size=2048)  # fmt: skip
    return Logits(BertForSequenceClassification(config))


def build_gpt() -> nn.Module:
    """Build a small GPT-2: 4 layers of 512, 8 heads, logits of the next token."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=NUM_WORDS, n_embd=512, n_layer=4, n_head=8, use_cache=False,
                        bos_token_id=0, eos_token_id=0)  # fmt: skip
    return Logits(GPT2LMHeadModel(config))
