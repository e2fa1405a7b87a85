"""The gate of detectors of transformers that have learnt something, from random weights.

A small configuration of each learns a few images of shapes by heart, which are also its test
images, so that its scores differ as those of a trained detector do. Each is a whole job: rehearsal,
training, export and gate. Results are printed as Markdown for `results/`.

`python -m bench.accuracy detectors [--only NAME] [--images N] [--epochs N]`
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.training.shape_sets import write_boxed
from bench.training.whole_job import Trained, train_job

SIDE, WIDTH = 64, 64
HGNET = {
    "stem_channels": [3, 16, 16],
    "stage_in_channels": [16, 32, 64, 64],
    "stage_mid_channels": [16, 16, 32, 32],
    "stage_out_channels": [32, 64, 64, 128],
    "stage_num_blocks": [1, 1, 1, 1],
    "stage_numb_of_layers": [2, 2, 2, 2],
    "hidden_sizes": [32, 64, 64, 128],
    "depths": [1, 1, 1, 1],
}
RESNET = {"embedding_size": 32, "hidden_sizes": [32, 32, 64, 64], "depths": [1, 1, 1, 1]}
DECODER = {
    "d_model": WIDTH,
    "encoder_hidden_dim": WIDTH,
    "encoder_ffn_dim": 2 * WIDTH,
    "decoder_ffn_dim": 2 * WIDTH,
    "decoder_layers": 2,
    "decoder_in_channels": [WIDTH] * 3,
    "decoder_attention_heads": 4,
    "encoder_attention_heads": 4,
    "num_denoising": 20,
    "num_queries": 30,
}
FINE = {**DECODER, "backbone_config": HGNET, "encoder_in_channels": [64, 64, 128]}
CONFIGS: dict[str, dict[str, Any]] = {
    "rt_detr_v2": {**DECODER, "backbone_config": RESNET, "encoder_in_channels": [32, 64, 64]},
    "d_fine": FINE,
    "deimv2": FINE,
    "rf_detr": {
        "backbone_config": {
            "hidden_size": WIDTH,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "out_features": ["stage1", "stage2"],
        },
        "d_model": WIDTH,
        "decoder_ffn_dim": 2 * WIDTH,
        "decoder_self_attention_heads": 4,
        "decoder_cross_attention_heads": 4,
        "num_queries": 30,
        "group_detr": 5,
        "c2f_num_blocks": 1,
    },
}
"""Small configurations by name."""
MASKS = "rf_detr with masks"
"""Instance segmentation; its scores are those of masks."""
TRAINING = {
    "batch_size": 4,
    "precision": "fp32",
    "compile": "off",
    "optimizer": {"name": "adamw", "lr": 1e-3},
    "backbone_lr": 1.0,
    "clip_norm": 1.0,
    "ema": None,
    "validation_fraction": 0.0,
    "augment": {
        **dict.fromkeys(("mosaic", "crop", "scale", "translate"), 0),
        **dict.fromkeys(("brightness", "contrast", "saturation", "hue"), 0),
        "flip": False,
    },
}


def measure(name: str, *, images: int, epochs: int) -> Trained:
    """Train and export one detector."""
    has_masks = name == MASKS
    model = "rf_detr" if has_masks else name
    spec = {
        "task": "instance-segmentation" if has_masks else "object-detection",
        "dataset": "shapes",
        "model": {"name": model, "config": CONFIGS[model], "options": {"image_size": SIDE}},
        "training": {**TRAINING, "epochs": epochs},
    }
    with tempfile.TemporaryDirectory(prefix="bench-detectors-") as folder:
        root = Path(folder)
        dataset = write_boxed(root / "shapes", num_train=images, side=SIDE, has_masks=has_masks)
        (root / "job").mkdir()
        return train_job(spec, dataset, root / "job")


def main(arguments: Sequence[str]) -> None:
    """Measure detectors one after the other, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy detectors")
    parser.add_argument("--images", type=int, default=12, help="images to learn by heart")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument(
        "--only", action="append", choices=[*CONFIGS, MASKS], help="may be repeated"
    )
    asked = parser.parse_args(arguments)
    print(
        "| detector | AP50 | AP | AP under ONNX Runtime | heads: largest difference "
        "| equal answers | verdict | CPU s of training | s with export |\n" + "| -- " * 9 + "|"
    )
    for name in asked.only or [*CONFIGS, MASKS]:
        start = time.perf_counter()
        found = measure(name, images=asked.images, epochs=asked.epochs)
        print(_row(name, found, seconds=time.perf_counter() - start), flush=True)


def _row(name: str, found: Trained, *, seconds: float) -> str:
    metrics, gate = found.metrics, found.verification
    verdict = "verified" if found.is_verified else f"unverified: {json.dumps(gate.get('misses'))}"
    return (
        f"| {name} | {metrics['test/map50']:.3f} | {metrics['test/map']:.4f} "
        f"| {metrics['test/map_onnx']:.4f} | {gate['relative']:.1e} | {gate['agreement']:.2%} "
        f"| {verdict} | {found.cpu_seconds:.0f} | {seconds:.0f} |"
    )
