"""Whole configurations of detectors of transformers."""

import pytest

from redkiln.tasks.object_detection import Detector
from tests.worker.trainer.queries.conftest import KINDS, TINY, complete
from worker.process.failed import TrainingFailed
from worker.trainer.queries.configuration import complete_config


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_configuration_stays_the_same(kind):
    once = complete(kind)
    assert complete(kind, config=once.config).config == once.config
    assert once.config["model_type"] == kind


def test_without_weights_the_configuration_is_small_and_follows_the_images():
    model = complete("rf_detr", config={})
    assert model.config["backbone_config"]["hidden_size"] == 384
    assert model.config["backbone_config"]["image_size"] == 64
    assert model.config["num_queries"] == 16, "an image has no more places"
    grey = complete("d_fine", config={}, channels=1).config["backbone_config"]
    assert (grey["num_channels"], grey["stem_channels"][0]) == (1, 1)


def test_pretrained_configurations_keep_their_own_fields():
    theirs = {"model_type": "d_fine", "decoder_layers": 4, "anchor_image_size": [640, 640]}
    model = Detector(pretrained="org/name", options={"image_size": 640, "channels": 3})
    whole = complete_config(model, theirs, num_classes=7)
    assert whole["decoder_layers"] == 4
    assert whole["freeze_backbone_batch_norms"] is True
    assert whole["anchor_image_size"] is None


@pytest.mark.parametrize(
    ("fields", "pretrained", "pointer", "words"),
    [
        (
            {"name": "d_fine", "config": {"num_querys": 3}},
            None,
            "/model/config/num_querys",
            "did you mean 'num_queries'",
        ),
        ({"name": "d_fine", "config": {"d_model": 33}}, None, "/model/config", "not valid"),
        ({"pretrained": "a/b"}, {"model_type": "detr"}, "/model/pretrained", "rt_detr_v2"),
        (
            {"name": "d_fine", "pretrained": "a/b"},
            {"model_type": "rf_detr"},
            "/model/name",
            "set model.name to rf_detr",
        ),
        (
            {"name": "rf_detr", "pretrained": "a/b"},
            {"model_type": "rf_detr", "num_queries": 300, "backbone_config": {"patch_size": 16}},
            "/model/options/image_size",
            "300 queries",
        ),
        (
            {"name": "rf_detr", "config": {"backbone_config": {"patch_size": 14}}},
            None,
            "/model/options/image_size",
            "one of 224, 448",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(fields, pretrained, pointer, words):
    model = Detector(**fields, options={"image_size": 64, "channels": 3})
    with pytest.raises(TrainingFailed) as refused:
        complete_config(model, pretrained, num_classes=3)
    assert refused.value.failure.details["pointer"] == pointer
    assert words in refused.value.failure.message


def test_a_changed_backbone_of_the_same_type_keeps_its_other_fields():
    config = complete("rf_detr", config=TINY["rf_detr"]).config["backbone_config"]
    assert (config["hidden_size"], config["patch_size"]) == (32, 16)
