"""Segmenters of transformers behind the interface of our own."""

import pytest
import torch

from redkiln.tasks.semantic_segmentation import Segmenter
from worker.process.failed import TrainingFailed
from worker.trainer.models.hub import PretrainedFiles
from worker.trainer.segmentation.from_transformers import LibrarySegmenter, complete_config

TINY = {
    "segformer": {
        "hidden_sizes": [8, 8, 16, 16],
        "num_attention_heads": [1, 1, 2, 2],
        "depths": [1, 1, 1, 1],
        "decoder_hidden_size": 16,
    },
    "upernet": {
        "backbone_config": {
            "embedding_size": 8,
            "hidden_sizes": [8, 8, 16, 16],
            "depths": [1, 1, 1, 1],
        },
        "hidden_size": 16,
    },
}
SIDE = 64


def build(kind, *, channels=3, num_classes=3, config=None):
    torch.manual_seed(0)
    options = {"image_size": SIDE, "channels": channels}
    model = Segmenter(name=kind, config=TINY[kind] if config is None else config, options=options)
    whole = complete_config(model, None, num_classes=num_classes)
    model = model.model_copy(update={"config": whole})
    return LibrarySegmenter(model, num_classes=num_classes), whole


@pytest.mark.parametrize(("kind", "channels"), [("segformer", 1), ("upernet", 3)])
def test_each_pixel_gets_logits(kind, channels):
    network, _ = build(kind, channels=channels)
    logits = network(torch.rand(2, channels, SIDE, SIDE))
    assert logits.shape == (2, 3, SIDE, SIDE)
    logits.square().mean().backward()
    unused = [name for name, p in network.named_parameters() if p.grad is None]
    assert not unused


@pytest.mark.parametrize("kind", sorted(TINY))
def test_a_whole_configuration_stays_the_same(kind):
    _, once = build(kind)
    assert build(kind, config=once)[1] == once


@pytest.mark.parametrize("kind", sorted(TINY))
def test_pretrained_weights_are_loaded_and_other_classes_are_new(kind, tmp_path):
    theirs, _ = build(kind)
    theirs.network.save_pretrained(tmp_path)
    ours, _ = build(kind, num_classes=5)
    new = ours.load_pretrained(PretrainedFiles(tmp_path, (tmp_path / "model.safetensors",)))
    assert set(new) == {"decode_head.classifier.weight", "decode_head.classifier.bias"}
    before = theirs.state_dict()
    for name, value in ours.state_dict().items():
        assert "classifier" in name or torch.equal(value, before[name])
    assert ours.last_layer.out_channels == 5


def test_an_unknown_field_is_refused_with_the_nearest_one():
    with pytest.raises(TrainingFailed, match="did you mean 'hidden_sizes'"):
        build("segformer", config={"hidden_size": [8]})
