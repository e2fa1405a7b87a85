"""Augmented batches keep each mask on its picture."""

from pathlib import Path

import numpy as np
import pytest
import torch

from redkiln.annotations import IGNORED, SegmentationIndex
from redkiln.predict.pixels import PixelFormat
from redkiln.tasks.semantic_segmentation import SegmentationAugment
from tests.worker.tasks.semantic_segmentation.conftest import write_masked
from worker.trainer.images.augment.views import draw_views, take_labels, take_pixels
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.decode.facts import DecodedFacts
from worker.trainer.images.pixel_set import PixelSet
from worker.trainer.ranks.distributed import Ranks
from worker.trainer.segmentation.batches import SegmentationBatches
from worker.trainer.segmentation.masks import Masks, load_masks
from worker.trainer.segmentation.samples import SegmentationSamples

SIDE, NUM = 32, 12
CPU = torch.device("cpu")
PLAIN = {"brightness": 0, "contrast": 0, "saturation": 0}


@pytest.mark.parametrize(
    "changes",
    [
        {"flip": True, "flip_vertical": True},
        {"scale": 1.0},
        {"translate": 0.4},
        {"crop": 1.0},
        {"flip": True, "scale": 0.5, "translate": 0.2, "crop": 0.5},
    ],
)
def test_a_view_shows_the_same_places_of_image_and_mask(changes):
    none = {"flip": False, "scale": 0, "translate": 0, "crop": 0}
    augment = SegmentationAugment(**{**none, **changes})
    generator = torch.Generator().manual_seed(3)
    nothing = torch.zeros(NUM, dtype=torch.bool)
    views = draw_views(augment, is_mosaic=nothing, size=SIDE, generator=lambda _: generator)
    masks = torch.zeros(NUM, SIDE, SIDE, dtype=torch.uint8)
    masks[:, 8:20, 6:25] = 1  # a picture of the mask itself: 200 inside, 100 outside
    planes = (100 + 100 * masks)[:, None]
    shown = take_pixels(planes, views)[:, 0]
    labels = take_labels(masks, views, outside=IGNORED)
    inside, outside, beyond = shown > 190, (shown > 90) & (shown < 110), shown < 10
    assert inside.any()
    assert (labels[inside] == 1).all()
    assert (labels[outside] == 0).all()
    assert (labels[beyond] == IGNORED).all()
    assert set(labels.unique().tolist()) <= {0, 1, IGNORED}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Opens the images and masks of a small set, in memory or on disk."""
    folder = tmp_path_factory.mktemp("masked")
    dataset = write_masked(folder, num_train=NUM, num_test=2, side=SIDE)
    index = SegmentationIndex.model_validate_json(Path(dataset.index_path).read_text())
    pixel_format = PixelFormat(size=SIDE, channels=3, resize="pad")
    masks = load_masks(index, pixel_format, folder=folder)
    images = np.repeat(50 * masks[..., None], 3, axis=3)
    facts = DecodedFacts(mean=[0.0] * 3, std=[1 / 255] * 3, num_rows=len(images))

    def open_samples(**options):
        pixels = PixelSet(
            DecodedImages(images, facts),
            index,
            validation_fraction=0,
            device=CPU,
            memory_format=torch.contiguous_format,
            **options,
        )
        return SegmentationSamples(pixels, Masks(masks, device=CPU))

    return open_samples


def build(samples, **augment):
    changes = SegmentationAugment(**{**PLAIN, **augment})
    return SegmentationBatches(samples, batch_size=4, augment=changes, seed=1)


def test_pictures_and_masks_of_a_batch_belong_together(opened):
    images, masks = build(opened(), flip=True, scale=0, translate=0, crop=0).get(0, 1)
    assert masks.shape == (4, SIDE, SIDE)
    np.testing.assert_allclose(images[:, 0] / 50, masks, atol=0.02)


def test_a_batch_is_a_function_of_its_place_wherever_the_pixels_are(opened):
    near, far = build(opened()), build(opened(budget_bytes=0))
    for epoch, place in ((0, 0), (0, 1), (1, 0)):
        for one, other in zip(near.get(epoch, place), far.get(epoch, place), strict=True):
            assert torch.equal(one, other)
    far.close()


def test_two_ranks_share_a_batch(opened):
    whole = build(opened()).get(0, 0)
    for rank, part in ((0, slice(0, 2)), (1, slice(2, 4))):
        batches = build(opened())
        batches.ranks = Ranks(rank, 2)
        for one, other in zip(batches.get(0, 0), whole, strict=True):
            assert torch.equal(one, other[part])


def test_training_pixels_are_counted_by_class(opened):
    samples = opened()
    counts = samples.count_train()
    assert sum(counts) == NUM * SIDE**2
    assert all(counts)
