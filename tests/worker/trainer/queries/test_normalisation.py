"""The normalisation that published weights expect."""

import pytest

from worker.trainer.images.decode.facts import DecodedFacts
from worker.trainer.queries.normalisation import replace_normalisation


@pytest.mark.parametrize(
    ("backbone", "channels", "mean", "std"),
    [
        ("rf_detr_dinov2", 3, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ("rf_detr_dinov2", 1, [0.449], [0.226]),
        ("hgnet_v2", 3, [0.0] * 3, [1.0] * 3),
    ],
)
def test_each_backbone_has_its_own(backbone, channels, mean, std):
    facts = DecodedFacts(num_rows=1, mean=[0.3] * channels, std=[0.2] * channels)
    found = replace_normalisation(facts, {"backbone_config": {"model_type": backbone}})
    assert found.mean == pytest.approx(mean, abs=1e-3)
    assert found.std == pytest.approx(std, abs=1e-3)
