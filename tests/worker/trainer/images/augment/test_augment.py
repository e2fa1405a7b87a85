import math

import numpy as np
import pytest
import torch

from redkiln.tasks.image_classification import Augment
from worker.trainer.images.augment.augment import Transforms, apply_transforms, draw_transforms
from worker.trainer.images.augment.geometry import max_shift_pixels

CPU = torch.device("cpu")


def images(num=6, size=9, channels=3):
    return torch.rand(num, channels, size, size, generator=torch.Generator().manual_seed(3)) * 255


def draw(num=400, size=9, seed=0, epoch=0, **augment):
    settings = Augment(**{"flip": False, "rotate_degrees": 0.0, "crop": 0.0, **augment})
    return draw_transforms(settings, num=num, size=size, seed=seed, epoch=epoch, device=CPU)


def test_without_augmentation_images_are_unchanged():
    before = images()
    assert apply_transforms(before, draw(num=6)) is before


def test_a_rotation_by_zero_is_the_identity():
    maps = torch.eye(2, 3).repeat(6, 1, 1)
    after = apply_transforms(images(), Transforms(maps, is_smooth=True))
    torch.testing.assert_close(after, images(), rtol=1e-5, atol=1e-3)


def test_a_quarter_turn_moves_every_pixel_to_its_place():
    quarter = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]).repeat(6, 1, 1)
    after = apply_transforms(images(), Transforms(quarter, is_smooth=True))
    turned = torch.rot90(images(), k=1, dims=(2, 3))
    torch.testing.assert_close(after, turned, rtol=1e-4, atol=1e-2)


def test_a_flip_mirrors_about_half_of_the_images_exactly():
    before = images(num=400)
    after = apply_transforms(before, draw(flip=True))
    mirrored = before.flip(3)
    is_same = (after == before).flatten(1).all(dim=1)
    is_mirrored = (after == mirrored).flatten(1).all(dim=1)
    assert bool((is_same ^ is_mirrored).all())
    assert 150 < int(is_mirrored.sum()) < 250


def test_a_shift_moves_by_whole_pixels_and_mirrors_the_image_at_its_edges():
    before = images(num=400, size=10)
    after = apply_transforms(before, draw(size=10, crop=0.2))
    padded = torch.from_numpy(np.pad(before, [(0, 0), (0, 0), (2, 2), (2, 2)], mode="symmetric"))
    found = set()
    for image, source in zip(after, padded, strict=True):
        places = [
            (x - 2, y - 2)
            for x in range(5)
            for y in range(5)
            if torch.equal(image, source[:, y : y + 10, x : x + 10])
        ]
        assert len(places) == 1
        found.update(places)
    assert len(found) == 25


def test_rotations_stay_within_their_limit_and_differ_between_samples():
    maps = draw(rotate_degrees=30.0).maps
    degrees = torch.atan2(maps[:, 1, 0], maps[:, 1, 1]) * 180 / math.pi
    assert float(degrees.abs().max()) <= 30.0001
    assert float(degrees.min()) < -20 < 20 < float(degrees.max())


def test_no_movement_brings_in_a_colour_that_the_image_does_not_have():
    before = 200 + images(num=400) / 255 * 50
    after = apply_transforms(before, draw(rotate_degrees=45.0, crop=0.3, scale=0.4, translate=0.2))
    assert float(after.min()) >= 200 - 1e-3
    assert float(after.max()) <= 250 + 1e-3


def test_maps_depend_only_on_seed_and_epoch():
    first = draw(rotate_degrees=30.0, flip=True, crop=0.3).maps
    assert torch.equal(first, draw(rotate_degrees=30.0, flip=True, crop=0.3).maps)
    assert not torch.equal(first, draw(rotate_degrees=30.0, flip=True, crop=0.3, epoch=1).maps)
    assert not torch.equal(first, draw(rotate_degrees=30.0, flip=True, crop=0.3, seed=1).maps)


def test_a_slice_moves_its_images_like_the_whole_batch():
    transforms = draw(num=6, rotate_degrees=45.0, flip=True, crop=0.3)
    whole = apply_transforms(images(), transforms)
    part = apply_transforms(images()[2:5], transforms.slice(2, 5))
    assert torch.equal(part, whole[2:5])


@pytest.mark.parametrize(
    ("crop", "size", "pixels"), [(0.1, 28, 2), (0.1, 8, 0), (0.125, 32, 4), (0.5, 8, 4), (0, 9, 0)]
)
def test_a_shift_never_exceeds_its_share_of_the_side(crop, size, pixels):
    assert max_shift_pixels(Augment(crop=crop), size=size) == pixels
