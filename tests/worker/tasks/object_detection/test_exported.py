"""What a rehearsal compares of a new detector, and how far torch's own rounding moves it."""

import numpy as np
import pytest
import torch

from tests.worker.trainer.queries.conftest import KINDS, build
from worker.export.rehearsal import _wake
from worker.tasks.object_detection.exported import make_exportable
from worker.trainer.detection.detector import Detector


def build_new(kind):
    if kind in KINDS:
        return build(kind)
    torch.manual_seed(0)
    return Detector(kind, num_classes=3, channels=3, image_size=64)


@pytest.mark.parametrize("kind", ["dense-nano", *KINDS])
def test_a_rehearsal_compares_what_depends_on_the_image(kind):
    detector = build_new(kind)
    exportable = make_exportable(detector, mean=[0.0] * 3, std=[1.0] * 3, architecture={})
    inputs = {name: tensor.numpy() for name, tensor in exportable.others.items()}
    awake = _wake(exportable, inputs)
    heads = awake.predict_compared(inputs)
    assert np.ptp(heads, axis=0).max() > 1e-3 * np.abs(heads).max()
    assert 1e-9 < awake.measure_noise(inputs) < 1e-4, "float64 differs from float32 by rounding"
    before = detector.state_dict()
    assert all(
        torch.equal(before[name], value) for name, value in build_new(kind).state_dict().items()
    )
