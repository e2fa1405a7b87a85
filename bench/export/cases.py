"""The models that `python -m bench export` trains and exports, each with its data.

Every built-in model of every task is one, and every architecture of transformers and timm that has
a short name; those are as small as their data.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.image_archives import DATA, archive_dataset
from bench.training.shape_sets import write_boxed, write_masked
from bench.training.text import read_texts, write_table
from worker.jobdir import LocalDataset

VARIANTS = ("fp16", "int8-dynamic", "int8-static")
FINE_TUNED = "int8-qat"
SHAPES: dict[str, Any] = {"num_train": 120, "num_test": 40, "side": 64}
"""Images of shapes for detectors and segmenters, and their sides in pixels."""
Time = Literal["small", "epoch", "none"]
"""What a warm export is judged by: the limit of small networks, one epoch, or nothing."""


@dataclass(frozen=True)
class Case:
    """A model, its data, and the length of its training.

    Attributes:
        model: Name of the model.
        data: A built-in data set, an archive of `shared/data`, or `shapes`.
        epochs: Epochs of training.
        config: Fields of the configuration of a network of a library.
        options: Options of the model.
        training: Further fields of `training`; `steps` is a length in place of epochs.
        interface: Kind of inputs that the files take (`model.interface`).
        variants: Variants next to float32; with int8-qat the training has an epoch more.
        is_convolutional: Whether the size of its int8 files has a limit.
        warm: Limit of its warm export.
    """

    model: str
    data: str
    task: str = "image-classification"
    epochs: int = 2
    config: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    interface: str = "plain"
    variants: tuple[str, ...] = VARIANTS
    is_convolutional: bool = False
    warm: Time = "none"

    @property
    def name(self) -> str:
        """Name of the case."""
        kind = "-regression" if self.task == "tabular-regression" else ""
        return f"{self.model}{kind}/{Path(self.data).stem}"

    @property
    def is_missing(self) -> bool:
        """Whether its data are an archive that is not next to the checkout."""
        return self.data.endswith(".zip") and not (DATA / self.data).is_file()

    @property
    def all_epochs(self) -> int:
        """Epochs of training and of fine-tuning."""
        return self.epochs + (FINE_TUNED in self.variants)

    @property
    def spec(self) -> dict[str, Any]:
        """The job's spec."""
        model: dict[str, Any] = {"name": self.model}
        for name in ("config", "options"):
            if getattr(self, name):
                model[name] = getattr(self, name)
        if self.interface != "plain":
            model["interface"] = self.interface
        length = {} if "steps" in self.training else {"epochs": self.epochs}
        training = {**length, **self.training}
        if FINE_TUNED in self.variants:
            training["quantize"] = {"epochs": 1}
        return {
            "task": self.task,
            "dataset": "bench",
            "model": model,
            "training": training,
            "export": {"variants": list(self.variants)},
        }

    def open(self, root: Path) -> LocalDataset:
        """Return its data, with what they need below a folder."""
        if self.data.endswith(".zip"):
            grey_side = 28 if self.data.startswith("mnist") else None
            return archive_dataset(DATA / self.data, root, grey_side=grey_side)
        if (write := WRITTEN.get((self.task, self.data))) is not None:
            return write(root)
        name = f"builtin:{self.data}"
        return LocalDataset(name=name, kind="builtin", fingerprint=name)


TEXTS = "sms-spam.tsv"


def _write_texts(root: Path) -> LocalDataset:
    path = root / "texts.parquet"
    write_table(path, read_texts()[0])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return LocalDataset(name="bench", kind="archive", index_path=str(path), fingerprint=digest)


DETECTION, SEGMENTATION = "object-detection", "semantic-segmentation"
TEXT, CLASSES, NUMBER = "text-classification", "tabular-classification", "tabular-regression"
WRITTEN: dict[tuple[str, str], Callable[[Path], LocalDataset]] = {
    (TEXT, TEXTS): _write_texts,
    (DETECTION, "shapes"): lambda root: write_boxed(root / "shapes", **SHAPES),
    (SEGMENTATION, "shapes"): lambda root: write_masked(root / "shapes", **SHAPES),
}


def _built_in(model: str, data: str, *, epochs: int = 2, **how: Any) -> Case:
    how = {"variants": (*VARIANTS, FINE_TUNED), "warm": "small", **how}
    training = {"batch_size": 128}
    return Case(model, data, epochs=epochs, training=training, is_convolutional=True, **how)


def _trees(data: str, task: str) -> Case:
    # Trees have no weights for other variants.
    return Case("gradient-boosting", data, task, training={"steps": 200}, variants=("fp32",))


def _image(name: str, *, side: int = 8, **config: Any) -> Case:
    """Return a small network of a library on the digits."""
    return Case(name, "digits", epochs=8, config=config, options={"image_size": side})


def _text(name: str, **config: Any) -> Case:
    options = {"dim": 32, "layers": 1, "heads": 4, "max_length": 32}
    return Case(name, TEXTS, TEXT, epochs=1, options=options, config=config)


def _dense(name: str, task: str, *, epochs: int = 60, **how: Any) -> Case:
    training: dict[str, Any] = {"batch_size": 8}
    if task == DETECTION:  # so few images are learnt sooner as they are
        training["augment"] = {"mosaic": 0, "crop": 0, "scale": 0, "translate": 0}
    return Case(name, "shapes", task, epochs=epochs, training=training, **how)


def _query(name: str, **config: Any) -> Case:
    # A detector of transformers has no int8-static.
    return _dense(name, DETECTION, epochs=30, config=config, variants=("fp16", "int8-dynamic"))


TOKENS = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
}  # fmt: skip
RESNET = {"embedding_size": 16, "hidden_sizes": [16, 16, 32, 32], "depths": [1, 1, 1, 1]}
HGNET = {
    "stem_channels": [3, 8, 16],
    "stage_in_channels": [16, 16, 32, 32],
    "stage_mid_channels": [8, 8, 16, 16],
    "stage_out_channels": [16, 32, 32, 64],
    "stage_num_blocks": [1, 1, 1, 1],
    "stage_numb_of_layers": [1, 1, 1, 1],
    "hidden_sizes": [16, 32, 32, 64],
    "depths": [1, 1, 1, 1],
}
DECODER = {
    "d_model": 32, "encoder_hidden_dim": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
    "decoder_layers": 2, "decoder_in_channels": [32, 32, 32], "decoder_attention_heads": 2,
    "encoder_attention_heads": 2, "decoder_n_points": 2, "num_denoising": 8, "num_queries": 30,
}  # fmt: skip
FINE = {
    **DECODER,
    "backbone_config": HGNET,
    "encoder_in_channels": [32, 32, 64],
    "lqe_hidden_dim": 16,
}
CASES = [
    _built_in("mnist-cnn", "digits"),
    _built_in("amdnet", "digits"),
    _built_in("small-cnn", "digits"),
    _built_in("cifar-fast", "digits", warm="none"),
    _built_in("resnet18", "digits", epochs=1, warm="none"),
    *(Case(name, "breast-cancer", CLASSES, 20, warm="small") for name in ("mlp", "tabm", "linear")),
    _trees("breast-cancer", CLASSES),
    *(Case(name, "diabetes", NUMBER, 20, warm="small") for name in ("mlp", "tabm", "linear")),
    _trees("diabetes", NUMBER),
    _dense("dense-nano", DETECTION),
    _dense("unet-nano", SEGMENTATION, epochs=40),
    Case("distilbert", TEXTS, TEXT, epochs=1, interface="embedded"),
    _text("bert"),
    _text("roberta"),
    _text("electra"),
    _text("albert"),
    _image("vit", patch_size=2, **TOKENS),
    _image("deit", patch_size=2, **TOKENS),
    _image(
        "dinov2", patch_size=2, mlp_ratio=2,
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
    ),
    _image("swin", patch_size=1, window_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2]),
    _image("resnet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"),
    _image("resnet50", embedding_size=8, hidden_sizes=[16, 32], depths=[1, 1]),
    _image("regnet", embedding_size=8, hidden_sizes=[16, 32], depths=[1, 1], groups_width=8),
    _image("convnext", hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, patch_size=2),
    _image("convnextv2", hidden_sizes=[16, 32], depths=[1, 1], num_stages=2, patch_size=2),
    _image("mobilenet-v2", side=32, depth_multiplier=0.35),
    _image(
        "mobilevit",
        side=32,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32],
    ),
    _image("efficientnet", side=32, width_coefficient=0.35, depth_coefficient=0.35, hidden_dim=448),
    _image("timm:test_resnet", side=32),
    _query("rt_detr_v2", **DECODER, backbone_config=RESNET, encoder_in_channels=[16, 32, 32]),
    _query("d_fine", **FINE),
    _query("deimv2", **FINE),
    _query(
        "rf_detr",
        backbone_config={
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
            "out_features": ["stage1", "stage2"], "mlp_ratio": 2,
        },
        d_model=32, decoder_ffn_dim=32, decoder_self_attention_heads=2,
        decoder_cross_attention_heads=2, decoder_n_points=2, num_queries=10, group_detr=3,
        c2f_num_blocks=1,
    ),
    _dense("dense-small", DETECTION, epochs=30),
    _dense("dense-medium", DETECTION, epochs=15),
    _dense("unet-small", SEGMENTATION, epochs=20),
    _dense("unet-medium", SEGMENTATION, epochs=5),
    _dense(
        "segformer", SEGMENTATION, epochs=30,
        config={
            "hidden_sizes": [8, 8, 16, 16], "num_attention_heads": [1, 1, 2, 2],
            "depths": [1, 1, 1, 1], "decoder_hidden_size": 16,
        },
    ),
    _dense(
        "upernet", SEGMENTATION, epochs=30,
        config={"backbone_config": {**RESNET, "embedding_size": 8}, "hidden_size": 16},
    ),
    _built_in("mnist-cnn", "mnist-12k.zip"),
    _built_in("amdnet", "mnist-12k.zip"),
    _built_in("amdnet", "cifar10-12k.zip"),
    _built_in("small-cnn", "mnist-12k.zip"),
    _built_in("small-cnn", "cifar10-12k.zip"),
    _built_in("cifar-fast", "cifar10-12k.zip"),
    _built_in("resnet18", "cifar10-12k.zip", epochs=1, variants=VARIANTS, warm="epoch"),
    # By itself, because the time of the export is compared with an epoch without fine-tuning.
    _built_in("resnet18", "cifar10-12k.zip", epochs=1, variants=(FINE_TUNED,), warm="none"),
]  # fmt: skip
