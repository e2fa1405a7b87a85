"""Masks of objects in the square, and as augmented pictures show them."""

import numpy as np
import pytest
import torch

from redkiln.annotations import AnnotatedImage, Box, DetectionIndex, ObjectMask
from redkiln.predict.instances.regions import decode
from redkiln.predict.masks.coding import pack_mask
from redkiln.predict.pixels import PixelFormat
from redkiln.spec.image_training import ViewChanges
from worker.process.failed import TrainingFailed
from worker.trainer.images.augment.views import Views, draw_views, take_pixels
from worker.trainer.instances.bits import pack_bits, unpack_bits
from worker.trainer.instances.objects import MaskedObjects, move_masks, read_masks

SIDE = 64
CPU = torch.device("cpu")


def triangle(left, top, side, *, label=0, crowd=False):
    """A right triangle whose right angle is at the left top."""
    inside = np.tri(side, dtype=np.uint8)[::-1]
    packed = ObjectMask(packed=pack_mask(inside), size=(side, side))
    xyxy = (left, top, left + side, top + side)
    return Box(label=label, xyxy=xyxy, crowd=crowd, mask=packed)


def open_objects(*images, width=SIDE, height=SIDE, resize="pad"):
    found = [
        AnnotatedImage(path=f"{n}.png", width=width, height=height, label=0, boxes=boxes, rank=n)
        for n, boxes in enumerate(images)
    ]
    index = DetectionIndex(
        task="instance-segmentation",
        classes=["triangle"],
        splits={"train": found, "test": []},
        image_size=(width, height),
        mixed_sizes=False,
        channels=3,
        seed=0,
        annotation_format="coco",
    )
    return MaskedObjects(index, PixelFormat(size=SIDE, channels=3, resize=resize), device=CPU)


def targets_of(objects, rows, views=None):
    rows = np.array(rows)
    places = objects.find_places(rows, is_used=np.ones(rows.shape, dtype=bool))
    return objects.find_targets(places, views)


def test_bits_are_kept_exactly():
    masks = (torch.rand(5, 16 * 7) < 0.5).to(torch.uint8)
    assert torch.equal(unpack_bits(pack_bits(masks)), masks)


def test_an_image_has_its_objects_with_their_masks():
    objects = open_objects([triangle(8, 16, 32), triangle(40, 0, 16)], [])
    targets = targets_of(objects, [[0], [1]])
    assert targets[0, :2, 1:5].tolist() == [[8, 16, 40, 48], [40, 0, 56, 16]]
    assert (targets[0, 2:, 0] == -1).all()
    assert (targets[1, :, 0] == -1).all()
    mask = read_masks(targets[0, :1])[0]
    assert mask.shape == (16, 16)
    assert 0.4 < float(mask[4:12, 2:10].float().mean()) < 0.6
    assert int(mask.sum()) == int(mask[4:12, 2:10].sum())
    truth = objects.get_truth(0)
    whole = decode(truth.regions, truth.side)[0]
    np.testing.assert_array_equal(whole[16:48, 8:40], np.tri(32, dtype=np.uint8)[::-1])
    assert whole.sum() == whole[16:48, 8:40].sum()


@pytest.mark.parametrize("resize", ["pad", "stretch"])
def test_a_mask_is_fitted_as_its_box_is(resize):
    objects = open_objects([triangle(64, 16, 32)], width=128, height=64, resize=resize)
    truth = objects.get_truth(0)
    rows, columns = np.nonzero(decode(truth.regions, truth.side)[0])
    ends = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    np.testing.assert_allclose(ends, truth.boxes[0], atol=1)


def test_masks_stay_on_their_objects_in_augmented_pictures():
    num = 64
    objects = open_objects(*[[triangle(8 + n % 20, 4 + n % 28, 28)] for n in range(num)])
    augment = ViewChanges(flip_vertical=True, scale=0.5, translate=0.2, crop=0.5)
    generator = torch.Generator().manual_seed(1)
    nothing = torch.zeros(num, dtype=torch.bool)
    views = draw_views(augment, is_mosaic=nothing, size=SIDE, generator=lambda _: generator)
    truth = [objects.get_truth(row) for row in range(num)]
    planes = np.stack([decode(one.regions, SIDE) for one in truth])  # the object is the picture
    shown = take_pixels(torch.from_numpy(planes * np.uint8(255)), views)[:, 0]
    targets = targets_of(objects, [[row] for row in range(num)], views)
    num_seen = 0
    for picture, table in zip(shown, targets, strict=True):
        if table[0, 0] < 0:
            continue
        num_seen += 1
        mask = read_masks(table[:1])[0].float()
        wanted = torch.nn.functional.avg_pool2d(picture[None], 4)[0] / 255
        assert float((mask - wanted).abs().mean()) < 0.08
        left, top, right, bottom = (table[0, 1:5] / 4).tolist()
        rows, columns = np.nonzero(mask.numpy())
        assert left - 1 <= columns.min() <= columns.max() + 1 <= right + 1
        assert top - 1 <= rows.min() <= rows.max() + 1 <= bottom + 1
    assert num_seen > num / 2


def test_a_mosaic_shows_the_masks_of_four_images():
    objects = open_objects(*[[triangle(16, 16, 32)] for _ in range(4)])
    whole = Views(torch.full((1, 2), 2.0), torch.zeros(1, 2), SIDE)
    (table,) = targets_of(objects, [[0, 1, 2, 3]], whole)
    masks = read_masks(table[:4])
    centres = [np.argwhere(mask.numpy()).mean(axis=0) // 8 for mask in masks]
    assert [tuple(one) for one in centres] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_an_object_without_a_visible_pixel_is_left_out():
    objects = open_objects([triangle(16, 16, 32)])
    # The window begins at the diagonal: the box reaches into it, but none of its pixels.
    corner = Views(torch.full((1, 2), 0.45), torch.full((1, 2), 0.55), SIDE)
    (table,) = targets_of(objects, [[0]], corner)
    assert (table[:, 0] == -1).all()


def test_what_is_beyond_the_image_belongs_to_no_object():
    masks = torch.ones(1, 32, 32, dtype=torch.uint8)
    view = Views(torch.full((1, 2), 2.0), torch.full((1, 2), -0.5), SIDE)
    shown = move_masks(masks, torch.zeros(1, dtype=torch.int64), view, side=16)[0]
    assert int(shown.sum()) == int(shown[4:12, 4:12].sum()) == 64


def test_a_damaged_mask_is_named():
    box = triangle(0, 0, 8)
    box.mask.packed = "no mask"
    with pytest.raises(TrainingFailed, match=r"0\.png: the mask cannot be read.*push it again"):
        open_objects([box])
