"""Tiny detectors of transformers, with sides of 64 pixels."""

import pytest
import torch

from redkiln.tasks.object_detection import Detector
from worker.trainer.queries.configuration import complete_config
from worker.trainer.queries.detector import QueryDetector

SIDE, WIDTH, CLASSES = 64, 32, 3
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
    "d_model": WIDTH,
    "encoder_hidden_dim": WIDTH,
    "encoder_ffn_dim": WIDTH,
    "decoder_ffn_dim": WIDTH,
    "decoder_layers": 2,
    "decoder_in_channels": [WIDTH] * 3,
    "decoder_attention_heads": 2,
    "encoder_attention_heads": 2,
    "decoder_n_points": 2,
    "num_denoising": 8,
    "num_queries": 30,
}
FINE = {**DECODER, "backbone_config": HGNET, "encoder_in_channels": [32, 32, 64]}
TINY = {
    "rt_detr_v2": {**DECODER, "backbone_config": RESNET, "encoder_in_channels": [16, 32, 32]},
    "d_fine": {**FINE, "lqe_hidden_dim": 16},
    "deimv2": {**FINE, "lqe_hidden_dim": 16},
    "rf_detr": {
        "backbone_config": {
            "hidden_size": WIDTH,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "out_features": ["stage1", "stage2"],
            "mlp_ratio": 2,
        },
        "d_model": WIDTH,
        "decoder_ffn_dim": WIDTH,
        "decoder_self_attention_heads": 2,
        "decoder_cross_attention_heads": 2,
        "decoder_n_points": 2,
        "num_queries": 10,
        "group_detr": 3,
        "c2f_num_blocks": 1,
    },
}
KINDS = sorted(TINY)


def complete(kind, *, channels=3, config=None, size=SIDE):
    """A resolved model with its whole configuration."""
    fields = TINY[kind] if config is None else config
    model = Detector(name=kind, config=fields, options={"image_size": size, "channels": channels})
    whole = complete_config(model, None, num_classes=CLASSES)
    return model.model_copy(update={"config": whole})


def build(kind, **changes):
    torch.manual_seed(0)
    return QueryDetector(complete(kind, **changes), num_classes=CLASSES)


@pytest.fixture(scope="package", params=KINDS)
def detector(request):
    """A detector of each type; a test leaves it as it was."""
    return build(request.param)


@pytest.fixture
def targets():
    """One image with two objects and a crowd, one without any, (2, 8, 5)."""
    table = torch.zeros(2, 8, 5)
    table[..., 0] = -1
    table[0, 0] = torch.tensor([0.0, 8.0, 16.0, 24.0, 48.0])
    table[0, 1] = torch.tensor([2.0, 0.0, 0.0, 64.0, 32.0])
    table[0, 2] = torch.tensor([-2.0, 0.0, 0.0, 64.0, 64.0])
    return table
