import numpy as np
import pytest
import torch

from redkiln.annotations import DetectionIndex
from redkiln.spec.image_training import ColourChanges
from worker.trainer.images.augment.colour import apply_colours, draw_colours
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.decode.facts import DecodedFacts
from worker.trainer.images.pixel_set import PixelSet

NUM, SIDE = 5, 12
CHANGES = ColourChanges(brightness=0.9, contrast=0.9, saturation=0.5, hue=0.3)


def open_pixels(channels, memory_format):
    index = DetectionIndex(
        classes=["thing"],
        splits={"train": [], "test": []},
        image_size=(SIDE, SIDE),
        mixed_sizes=False,
        channels=channels,
        seed=0,
        annotation_format="coco",
    )
    facts = DecodedFacts(
        num_rows=NUM, mean=[0.5, 0.4, 0.3][:channels], std=[0.2, 0.3, 0.4][:channels]
    )
    return PixelSet(
        DecodedImages(np.zeros((NUM, SIDE, SIDE, channels), dtype=np.uint8), facts),
        index,
        validation_fraction=0.0,
        device=torch.device("cpu"),
        memory_format=memory_format,
    )


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("cut", [0, 2])
def test_colours_change_and_are_clamped_before_images_are_normalised(channels, memory_format, cut):
    pixels = open_pixels(channels, memory_format)
    generator = torch.Generator().manual_seed(1)
    pictures = 255 * torch.rand(NUM, channels, SIDE, SIDE, generator=generator)
    colours = draw_colours(CHANGES, num=NUM, channels=channels, generator=generator)
    changed = apply_colours(pictures.clone(), colours)
    is_clamped = (changed == 0) | (changed == 255)
    assert 0.02 < float(is_clamped.float().mean()) < 0.9
    scaled = pixels.scale_colours(colours)
    found = pixels.finish_images(NUM, lambda at: (pictures[at].clone(), scaled[at]), cut=cut)
    wanted = pixels.finish_images(NUM, lambda at: (changed[at], None))
    assert found.is_contiguous(memory_format=memory_format)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_images_on_both_sides_of_a_cut_are_prepared_apart():
    pixels, parts = open_pixels(3, torch.channels_last), []

    def prepare(places):
        parts.append((places.start, places.stop))
        return torch.zeros(places.stop - places.start, 3, SIDE, SIDE), None

    for cut in (0, 2, NUM):
        pixels.finish_images(NUM, prepare, cut=cut)
    assert parts == [(0, 5), (0, 2), (2, 5), (0, 5)]
