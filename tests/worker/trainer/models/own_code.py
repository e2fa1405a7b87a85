"""Users' code as tests send it: a small folder, packed as the command line packs one."""

import tarfile
import textwrap

NET = """\
import torch
from torch import nn

from blocks import block

class Net(nn.Module):
    def __init__(self, num_classes, channels, width=4):
        super().__init__()
        self.body = block(channels, width)
        self.last = nn.Linear(width, num_classes)

    def forward(self, x):
        return self.last(self.body(x).amax((2, 3)))

class Broken(Net):
    def forward(self, x):
        return self.last(x)

class NoClasses(Net):
    def forward(self, x):
        return self.body(x)

class Late(Net):
    def forward(self, x):
        if self.training and len(x) > 4:
            raise RuntimeError("only small batches")
        return super().forward(x)

def loss(logits, targets):
    return nn.functional.multi_margin_loss(logits, targets)

def no_loss(logits, targets):
    return 1.0

def preprocess(images):
    return images * 2 - 1
"""
BLOCKS = """\
from torch import nn

def block(channels, width):
    return nn.Sequential(nn.Conv2d(channels, width, 3), nn.BatchNorm2d(width), nn.ReLU())
"""


def pack(folder, **files):
    """Write files, named by the stems of their names, and pack them; the tar's path."""
    code = folder / "code"
    code.mkdir(parents=True)
    for name, text in {"net": NET, "blocks": BLOCKS, **files}.items():
        (code / f"{name}.py").write_text(textwrap.dedent(text))
    return pack_folder(code, folder / "bundle.tar")


def pack_folder(code, target):
    with tarfile.open(target, "w") as archive:
        for path in sorted(code.iterdir()):
            archive.add(path, path.name)
    return target


def own(name="Net", **fields):
    """The model of a spec that trains a class of these files."""
    code = {"source": "code", "name": "auto", "file": "net.py", "class": name}
    return {**code, "bundle": "0" * 64, **fields}
