import pytest
import torch

from redkiln.spec.image_models import Model
from worker.trainer.detection.detector import BINS, SIZES, Detector
from worker.trainer.models import build_model


def build(name="dense-nano", *, num_classes=3, channels=3, image_size=64):
    return Detector(name, num_classes=num_classes, channels=channels, image_size=image_size)


@pytest.mark.parametrize("name", SIZES)
def test_each_cell_predicts_the_distributions_of_four_sides_and_the_classes(name):
    raw = build(name, num_classes=5, channels=1)(torch.rand(2, 1, 64, 64))
    assert raw.shape == (2, 64 + 16 + 4, 4 * BINS + 5)


def test_a_certain_distribution_places_a_box_at_its_distances_from_the_centre_of_the_cell():
    detector = build()
    raw = torch.full((1, len(detector.points), 4 * BINS + 3), -50.0)
    cell = 8 * 3 + 4  # the finest level: the centre is at x 36, y 28, and the stride is 8
    for side, distance in enumerate([1, 2, 3, 0]):
        raw[0, cell, side * BINS + distance] = 50.0
    raw[0, cell, 4 * BINS + 2] = 50.0
    boxes, scores = detector.decode(raw)
    assert boxes[0, cell].tolist() == pytest.approx([28, 12, 60, 28])
    assert scores[0, cell].tolist() == pytest.approx([0, 0, 1])


def test_boxes_end_at_the_image():
    boxes, _ = build().decode(10 * torch.randn(2, 84, 4 * BINS + 3))
    assert boxes.min() >= 0
    assert boxes.max() <= 64


def test_an_untrained_detector_finds_almost_nothing():
    detector = build().eval()
    with torch.no_grad():
        _, scores = detector.decode(detector(torch.rand(2, 3, 64, 64)))
    assert scores.max() < 0.05


def test_a_side_that_the_strides_do_not_divide_is_refused():
    with pytest.raises(
        ValueError, match=r"100 is not a multiple of 32; set model\.options\.image_size to 128"
    ):
        build(image_size=100)


def test_the_backbone_of_the_medium_detector_takes_the_weights_of_a_classifier():
    spec = Model(name="resnet18", options={"image_size": 96, "channels": 3})
    classifier = build_model(spec, num_classes=2).state_dict()
    backbone = build("dense-medium").backbone.state_dict()
    assert {k: v.shape for k, v in backbone.items()} == {
        k: v.shape for k, v in classifier.items() if not k.startswith("head")
    }


def test_the_levels_share_no_tensor_that_a_checkpoint_would_store_twice():
    tensors = list(build().state_dict().values())
    assert len({tensor.data_ptr() for tensor in tensors}) == len(tensors)


def test_it_exports_with_any_number_of_images():
    detector = build().eval()
    example = torch.rand(2, 3, 64, 64)
    shapes = {"images": {0: torch.export.Dim("batch")}}
    program = torch.export.export(detector, (example,), dynamic_shapes=shapes)
    images = torch.rand(5, 3, 64, 64)
    torch.testing.assert_close(program.module()(images), detector(images))
