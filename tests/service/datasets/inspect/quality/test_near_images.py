"""Images that look alike: their small pictures, and how they are found among many."""

import io

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from service.datasets.inspect.images import probe_image
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.quality.near_images import (
    LEAST_CONTRAST,
    MOST_DIFFERENCE,
    MOST_LOCAL_DIFFERENCE,
    group_alike,
)

NUM_SCENES = 60


def scene(seed, size=(320, 240)):
    """A photo-like scene: one of three smooth backgrounds, objects and noise."""
    rng = np.random.default_rng(seed)
    background = np.random.default_rng(1000 + seed % 3).integers(60, 200, (3, 4, 3))
    background = (background + rng.normal(0, 12, (3, 4, 3))).clip(0, 255).astype(np.uint8)
    pixels = np.array(Image.fromarray(background).resize(size), float)
    y, x = np.mgrid[: size[1], : size[0]]
    for _ in range(rng.integers(2, 6)):
        middle, radius = rng.uniform(0, size), rng.uniform(8, 70, 2)
        inside = ((x - middle[0]) / radius[0]) ** 2 + ((y - middle[1]) / radius[1]) ** 2 < 1
        pixels[inside] = rng.integers(0, 256, 3) * 0.7 + pixels[inside] * 0.3
    pixels += rng.normal(0, 6, pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def shrink(image, *, kind="PNG", quality=90):
    """Save an image and return the small picture that the inspection takes of it."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **({} if kind == "PNG" else {"quality": quality}))
    look = probe_image(buffer.getvalue(), limits=Limits()).look
    return np.frombuffer(look.picture, np.uint8)


@pytest.fixture(scope="module")
def scenes():
    return [scene(seed) for seed in range(NUM_SCENES)]


@pytest.fixture(scope="module")
def pictures(scenes):
    return np.stack([shrink(image, kind="JPEG") for image in scenes])


def test_different_images_of_the_same_kind_of_scene_are_not_alike(pictures):
    assert len(set(group_alike(pictures))) == NUM_SCENES


@pytest.mark.parametrize(
    "copy",
    [
        lambda image: shrink(image, kind="JPEG", quality=70),
        lambda image: shrink(image, kind="JPEG", quality=40),
        lambda image: shrink(image, kind="WEBP", quality=70),
        lambda image: shrink(image.resize((160, 120)), kind="JPEG"),
        lambda image: shrink(image.resize((160, 120), Image.Resampling.NEAREST)),
        lambda image: shrink(image.resize((200, 200)), kind="JPEG"),
        lambda image: shrink(image.resize((640, 480)), kind="JPEG"),
        lambda image: shrink(image.resize((80, 60)), kind="JPEG", quality=70),
        lambda image: shrink(image.quantize(palette=image.quantize(64))),
        lambda image: shrink(image.convert("P")),
        lambda image: shrink(image.point(lambda value: value * 4 // 5)),
    ],
    ids=[
        "jpeg70",
        "jpeg40",
        "webp",
        "half",
        "nearest",
        "other-aspect",
        "double",
        "quarter",
        "palette64",
        "dithered",
        "darker",
    ],
)
def test_each_image_and_its_copy_are_alike(scenes, pictures, copy):
    copies = np.stack([copy(image) for image in scenes])
    groups = group_alike(np.concatenate([pictures, copies]))
    assert groups[:NUM_SCENES].tolist() == groups[NUM_SCENES:].tolist()
    assert len(set(groups)) == NUM_SCENES


def test_copies_with_half_of_the_contrast_are_alike_and_no_other_images(scenes, pictures):
    copies = [shrink(ImageEnhance.Contrast(image).enhance(0.5)) for image in scenes]
    groups = group_alike(np.stack([*pictures, *copies]))
    is_shown = np.std(copies, axis=1) >= LEAST_CONTRAST
    assert is_shown.sum() > NUM_SCENES / 2
    assert (groups[:NUM_SCENES] == groups[NUM_SCENES:])[is_shown].all()
    assert len(set(groups[:NUM_SCENES])) == NUM_SCENES


def test_small_images_that_were_halved_and_enlarged_again_are_alike():
    spots = np.random.default_rng(0).integers(0, 86, (NUM_SCENES, 12, 12), dtype=np.uint8)
    small = [Image.fromarray(pixels).resize((32, 32)) for pixels in spots]
    copies = [image.resize((16, 16)).resize((32, 32)) for image in small]
    groups = group_alike(np.stack([shrink(image) for image in [*small, *copies]]))
    assert groups[:NUM_SCENES].tolist() == groups[NUM_SCENES:].tolist()
    assert len(set(groups)) == NUM_SCENES


def on_a_backdrop(seed, *, size=(320, 240)):
    """A photo of one of three small objects on a grey or beige backdrop in soft light."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: size[1], : size[0]] / size[1]
    right, down, turn = x - 0.15 - seed % 12 * 0.09, y - 0.25 - seed // 12 * 0.12, seed * 2.4
    across = np.abs(right * np.cos(turn) + down * np.sin(turn))
    along = np.abs(down * np.cos(turn) - right * np.sin(turn))
    needle = (across < 0.05) & (along < 0.3)
    shape = [needle, needle | (across * 0.3 + along < 0.05), (across**2 + along**2) < 0.015]
    light = 1.1 - 0.25 * x - 0.15 * y * y
    pixels = light[..., None] * np.array([(170, 170, 170), (180, 168, 155)][seed % 2], float)
    pixels[shape[seed % 3]] -= rng.uniform(10, 25)
    pixels += rng.normal(0, 2, pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


@pytest.fixture(scope="module")
def on_backdrops():
    return [on_a_backdrop(seed) for seed in range(NUM_SCENES)]


def test_small_objects_at_other_places_of_one_backdrop_are_not_alike(on_backdrops):
    pictures = np.stack([shrink(image, kind="JPEG") for image in on_backdrops])
    differences = np.abs(pictures[:, None].astype(int) - pictures[None])
    is_small = (differences.mean(axis=2) <= MOST_DIFFERENCE) & (
        differences.max(axis=2) <= MOST_LOCAL_DIFFERENCE
    )
    assert is_small.sum() > 2 * NUM_SCENES  # brightness alone does not separate them
    assert len(set(group_alike(pictures))) == NUM_SCENES


@pytest.mark.parametrize(
    "copy",
    [
        lambda image: shrink(image.resize((160, 120)), kind="JPEG", quality=70),
        lambda image: shrink(image, kind="JPEG", quality=40),
        lambda image: shrink(image.point(lambda value: min(255, value + 1))),
        lambda image: shrink(image.resize((160, 120)).resize((320, 240))),
    ],
    ids=["half", "jpeg40", "brighter", "halved-and-enlarged"],
)
def test_copies_of_small_objects_on_one_backdrop_are_found(on_backdrops, copy):
    images = [shrink(image) for image in on_backdrops]
    groups = group_alike(np.stack([*images, *(copy(image) for image in on_backdrops)]))
    assert groups[:NUM_SCENES].tolist() == groups[NUM_SCENES:].tolist()
    assert len(set(groups)) == NUM_SCENES


def test_plain_pictures_do_not_count_as_alike():
    assert len(set(group_alike(np.uint8([[100], [101], [102]]).repeat(256, axis=1)))) == 3


def test_pictures_that_differ_much_in_one_place_do_not_count_as_alike(pictures):
    other = pictures[0].copy()
    other[136:138] ^= 64
    assert len(set(group_alike(np.stack([pictures[0], other])))) == 2


def test_copies_are_found_in_a_crowd_and_all_pictures_of_a_crowd_are_one_group(pictures):
    rng = np.random.default_rng(0)
    noise = np.rint(rng.normal(0, 1, (300, 256)))
    crowd = (pictures[0].clip(10, 240) + noise).astype(np.uint8)
    groups = group_alike(np.concatenate([crowd, pictures[1:], pictures[1:] ^ 1]))
    assert len(set(groups[:300])) == 1
    assert groups[300 : 300 + NUM_SCENES - 1].tolist() == groups[300 + NUM_SCENES - 1 :].tolist()
    assert len(set(groups)) == NUM_SCENES


@pytest.mark.parametrize("num", [0, 1])
def test_fewer_than_two_pictures_are_alone(pictures, num):
    assert group_alike(pictures[:num]).shape == (num,)
