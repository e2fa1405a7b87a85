"""Tiny models of transformers as folders of files, as a user would put them there."""

import pytest

TINY = {
    "resnet": {
        "embedding_size": 8,
        "hidden_sizes": [8, 16],
        "depths": [1, 1],
        "layer_type": "basic",
    },
    "convnext": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "patch_size": 2},
    "vit": {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "image_size": 12,
        "patch_size": 4,
    },
    "siglip": {
        "vision_config": {
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 16,
            "image_size": 16,
            "patch_size": 4,
        },
        "text_config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    },
}


@pytest.fixture(scope="session")
def tiny_configs():
    return TINY


@pytest.fixture(scope="session")
def models_dir(tmp_path_factory):
    """`mine/<type>` for each tiny architecture, with a head of 5 classes."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForImageClassification

    root = tmp_path_factory.mktemp("models")
    for model_type, fields in TINY.items():
        torch.manual_seed(3)
        config = CONFIG_MAPPING[model_type](**fields, num_labels=5)
        network = AutoModelForImageClassification.from_config(config)
        network.save_pretrained(root / "mine" / model_type)
    return root
