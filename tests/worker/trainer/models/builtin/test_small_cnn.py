import pytest
import torch

from worker.trainer.models.builtin.small_cnn import SmallCnn


def build(side):
    return SmallCnn(channels=3, image_size=side, num_classes=5)


@pytest.mark.parametrize("side", [8, 9, 15, 28, 32, 65, 224, 512])
def test_it_has_three_stages_at_least_and_trains_on_a_single_image(side):
    network = build(side).train()
    features = network.features(torch.rand(1, 3, side, side))
    assert features.shape[1] >= 128
    assert min(features.shape[2:]) >= 4
    assert network(torch.rand(1, 3, side, side)).shape == (1, 5)


def test_a_larger_picture_needs_no_more_weights():
    few, many = (sum(p.numel() for p in build(side).parameters()) for side in (128, 512))
    assert few == many


def test_the_place_of_a_thing_does_not_change_the_answer():
    network = build(96).eval()
    thing, images = torch.rand(3, 16, 16), torch.zeros(2, 3, 512, 512)
    images[0, :, 224:240, 224:240] = thing
    images[1, :, 256:272, 192:208] = thing  # 32 pixels further, as far as all halvings reach
    first, second = network(images)
    assert torch.allclose(first, second, atol=1e-5)
