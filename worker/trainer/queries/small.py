"""Small configurations for detectors of transformers that start from random weights.

They are the smallest published sizes: RT-DETRv2-R18, D-FINE-S and DEIMv2-S with HGNetV2-B0, and
RF-DETR-nano. Those of the library itself are twice as large.
"""

from typing import Any

RESNET18 = {
    "model_type": "rt_detr_resnet",
    "layer_type": "basic",
    "hidden_sizes": [64, 128, 256, 512],
    "depths": [2, 2, 2, 2],
    "out_indices": [2, 3, 4],
}
HGNET_B0 = {
    "model_type": "hgnet_v2",
    "stem_channels": [3, 16, 16],
    "stage_in_channels": [16, 64, 256, 512],
    "stage_mid_channels": [16, 32, 64, 128],
    "stage_out_channels": [64, 256, 512, 1024],
    "stage_num_blocks": [1, 1, 2, 1],
    "stage_numb_of_layers": [3, 3, 3, 3],
    "hidden_sizes": [64, 256, 512, 1024],
    "depths": [1, 1, 2, 1],
    "use_learnable_affine_block": True,
    "out_indices": [2, 3, 4],
}
FINE = {
    "backbone_config": HGNET_B0,
    "encoder_in_channels": [256, 512, 1024],
    "hidden_expansion": 0.5,
    "depth_mult": 0.34,
    "decoder_layers": 3,
}
SMALL: dict[str, dict[str, Any]] = {
    "rt_detr_v2": {
        "backbone_config": RESNET18,
        "encoder_in_channels": [128, 256, 512],
        "hidden_expansion": 0.5,
        "decoder_layers": 3,
    },
    "d_fine": FINE,
    "deimv2": FINE,
    "rf_detr": {
        "backbone_config": {
            "model_type": "rf_detr_dinov2",
            "hidden_size": 384,
            "num_attention_heads": 6,
            "patch_size": 16,
            "num_windows": 2,
            "out_features": ["stage3", "stage6", "stage9", "stage12"],
        },
        "decoder_layers": 2,
    },
}
"""Changes of the library's configuration, by type."""
