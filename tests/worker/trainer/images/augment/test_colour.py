import colorsys
import math

import pytest
import torch

from redkiln.tasks.image_classification import Augment
from worker.trainer.images.augment.augment import Transforms, apply_transforms, draw_transforms
from worker.trainer.images.augment.colour import GREY, apply_colours, draw_colours

CPU = torch.device("cpu")
STILL = {"flip": False, "rotate_degrees": 0.0, "crop": 0.0}


def images(num=5, size=6, channels=3):
    generator = torch.Generator().manual_seed(3)
    return 255 * (0.3 + 0.4 * torch.rand(num, channels, size, size, generator=generator))


def draw(num=400, channels=3, seed=0, epoch=0, **augment):
    return draw_transforms(
        Augment(**{**STILL, **augment}),
        num=num,
        size=6,
        seed=seed,
        epoch=epoch,
        device=CPU,
        channels=channels,
    )


def jitter(before, colours):
    return apply_transforms(before.clone(), Transforms(None, is_smooth=False, colours=colours))


def test_without_colour_changes_nothing_is_drawn():
    assert draw().colours is None
    assert draw(channels=1, saturation=0.5, hue=0.5).colours is None


@pytest.mark.parametrize("channels", [1, 3])
def test_brightness_multiplies_each_image_within_its_limits(channels):
    before = images(num=400, channels=channels)
    after = jitter(before, draw(channels=channels, brightness=0.2).colours)
    factors = (after / before).flatten(1)
    torch.testing.assert_close(factors, factors[:, :1].expand_as(factors))
    assert 0.8 <= float(factors.min()) < 0.82
    assert 1.18 < float(factors.max()) <= 1.2001


def test_contrast_keeps_the_mean_grey_and_scales_the_distance_from_it():
    before = images()
    colours = draw(num=5, contrast=0.5).colours
    after = jitter(before, colours)
    grey = torch.tensor(GREY).view(1, 3, 1, 1)
    means = [(grey * some).sum(1).mean((1, 2)) for some in (before, after)]
    torch.testing.assert_close(means[0], means[1], rtol=1e-4, atol=1e-2)
    factor = (after - means[0][:, None, None, None]) / (before - means[0][:, None, None, None])
    torch.testing.assert_close(factor.flatten(1).median(1).values, colours[:, 0, 0])


def test_saturation_keeps_the_grey_value_of_each_pixel():
    before = images()
    after = jitter(before, draw(num=5, saturation=0.4).colours)
    grey = torch.tensor(GREY).view(1, 3, 1, 1)
    torch.testing.assert_close((grey * before).sum(1), (grey * after).sum(1), rtol=1e-4, atol=1e-2)
    assert not torch.allclose(before, after, atol=1.0)


def test_a_third_of_the_hue_circle_turns_red_into_green():
    generator = torch.Generator().manual_seed(0)
    colours = draw_colours(Augment(**STILL, hue=0.5), num=2, channels=3, generator=generator)
    from worker.trainer.images.augment.colour import _turn

    colours[:, :, :3] = _turn(torch.tensor([0.0, 2 * math.pi / 3]))
    red = torch.tensor([255.0, 0.0, 0.0]).view(1, 3, 1, 1).expand(2, 3, 2, 2)
    after = apply_colours(red.clone(), colours)[:, :, 0, 0] / 255
    assert colorsys.rgb_to_hsv(*after[0].tolist())[0] == pytest.approx(0, abs=1e-3)
    assert colorsys.rgb_to_hsv(*after[1].tolist())[0] == pytest.approx(1 / 3, abs=1e-3)


def test_changed_colours_stay_in_the_range_of_a_pixel():
    after = jitter(images(num=400), draw(brightness=1.0, contrast=1.0, hue=0.5).colours)
    assert float(after.min()) >= 0
    assert float(after.max()) <= 255.001


def test_colours_depend_only_on_seed_and_epoch_and_do_not_change_maps():
    first = draw(hue=0.1, rotate_degrees=10)
    assert torch.equal(first.colours, draw(hue=0.1, rotate_degrees=10).colours)
    assert not torch.equal(first.colours, draw(hue=0.1, rotate_degrees=10, epoch=1).colours)
    assert torch.equal(first.maps, draw(rotate_degrees=10).maps)


def test_the_requested_share_of_images_has_one_black_box():
    before = torch.full((400, 3, 24, 24), 9.0)
    after = apply_transforms(before.clone(), draw(erase=0.5))
    is_black = (after == 0).all(1)
    shares = is_black.flatten(1).float().mean(1)
    erased = shares > 0
    assert 150 < int(erased.sum()) < 250
    assert float(shares.max()) < 0.4
    assert float(shares[erased].min()) > 0.005
    for black in is_black[erased][:20]:
        rows, columns = black.any(1), black.any(0)
        assert torch.equal(black, rows[:, None] & columns[None, :])


def test_scale_shear_and_translation_stay_within_their_limits():
    maps = draw(scale=0.25).maps
    zoom = maps[:, 0, 0]
    assert torch.equal(zoom, maps[:, 1, 1])
    assert 1 / 1.2501 <= float(zoom.min()) < 0.82
    assert 1.22 < float(zoom.max()) <= 1.2501
    slanted = draw(shear_degrees=20.0).maps
    assert float(slanted[:, 0, 1].abs().max()) <= math.tan(math.radians(20.001))
    assert float(slanted[:, 0, 1].std()) > 0.1
    moved = draw(translate=0.1).maps
    assert 0.19 < float(moved[:, :, 2].abs().max()) <= 0.2001


def test_an_enlarged_image_shows_its_middle():
    before = torch.zeros(1, 1, 8, 8)
    before[:, :, 2:6, 2:6] = 100
    maps = torch.tensor([[[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]]])
    after = apply_transforms(before, Transforms(maps, is_smooth=False))
    assert bool((after == 100).all())


def test_a_slice_changes_its_images_like_the_whole_batch():
    transforms = draw(num=6, scale=0.2, hue=0.2, contrast=0.4, erase=0.9)
    whole = apply_transforms(images(num=6), transforms)
    part = apply_transforms(images(num=6)[2:5].clone(), transforms.slice(2, 5))
    torch.testing.assert_close(part, whole[2:5])
