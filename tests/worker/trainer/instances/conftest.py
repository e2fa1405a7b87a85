"""A tiny RF-DETR with masks, for sides of 64 pixels."""

import pytest
import torch

from redkiln.tasks.instance_segmentation import InstanceSegmenter
from tests.worker.trainer.queries.conftest import CLASSES, SIDE
from tests.worker.trainer.queries.conftest import TINY as DETECTORS
from worker.trainer.instances.bits import pack_bits
from worker.trainer.instances.detector import InstanceDetector
from worker.trainer.queries.configuration import complete_config

TINY = {**DETECTORS["rf_detr"], "intermediate_size": 32, "decoder_layers": 2}
MASK_SIDE = SIDE // 4


def build(*, size=SIDE, channels=3, **config):
    """A new network, always with the same weights."""
    options = {"image_size": size, "channels": channels}
    model = InstanceSegmenter(name="rf_detr", config={**TINY, **config}, options=options)
    whole = complete_config(model, None, num_classes=CLASSES)
    torch.manual_seed(0)
    model = model.model_copy(update={"config": whole})
    return InstanceDetector(model, num_classes=CLASSES)


@pytest.fixture
def targets():
    """One image with two objects and a crowd, one without any, with the columns of masks."""
    table = torch.zeros(2, 8, 5)
    table[..., 0] = -1
    table[0, 0] = torch.tensor([0.0, 8.0, 16.0, 24.0, 48.0])
    table[0, 1] = torch.tensor([2.0, 0.0, 0.0, 64.0, 32.0])
    table[0, 2] = torch.tensor([-2.0, 0.0, 0.0, 64.0, 64.0])
    masks = torch.zeros(2, 8, MASK_SIDE, MASK_SIDE)
    masks[0, 0, 4:12, 2:6] = 1
    masks[0, 1, :8] = 1
    packed = torch.stack([pack_bits(one.flatten(1)) for one in masks])
    return torch.cat([table, packed], dim=-1)
