import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from redkiln.tasks.object_detection import DetectionAugment
from tests.worker.trainer.detection.conftest import SIDE, build_index
from worker.process.failed import TrainingFailed
from worker.trainer.detection.batches import DetectionBatches
from worker.trainer.detection.objects import MOST_OBJECTS
from worker.trainer.ranks.distributed import Ranks

STILL = dict.fromkeys(("brightness", "contrast", "saturation", "hue"), 0.0)
OFF = {**STILL, "flip": False, "scale": 0.0, "translate": 0.0, "crop": 0.0, "mosaic": 0.0}
ONE_OBJECT = [[(n % 3, 4 + n, 8, 28 + n, 40 - n)] for n in range(8)]


def build_batches(images, objects, *, batch_size=4, epochs=10, seed=0, **augment):
    changes = DetectionAugment(**{**OFF, **augment})
    return DetectionBatches(
        images, objects, batch_size=batch_size, augment=changes, seed=seed, epochs=epochs
    )


def list_objects(targets):
    """The rows of each image's targets that are objects."""
    return [image[image[:, 0] >= 0].tolist() for image in targets]


def test_without_augmentation_images_and_boxes_are_those_of_the_data_set(open_set):
    index = build_index(ONE_OBJECT)
    images, targets = build_batches(*open_set(index)).get(0, 0)
    assert images.shape == (4, 3, SIDE, SIDE)
    for image, (found,) in zip(images, list_objects(targets), strict=True):
        label, left, top, right, bottom = map(int, found)
        assert image[label, top:bottom, left:right].min() == 1
        assert image.sum() == pytest.approx((right - left) * (bottom - top))


@pytest.mark.parametrize(
    "augment",
    [
        {"flip": True},
        {"flip_vertical": True},
        {"scale": 0.5},
        {"translate": 0.3},
        {"crop": 1.0},
        {"mosaic": 1.0},
        {"mosaic": 0.5, "crop": 0.5, "scale": 0.5, "translate": 0.2, "flip": True},
    ],
    ids=lambda augment: "-".join(augment),
)
def test_a_box_stays_on_its_object(open_set, augment):
    # The objects of an image are of different classes, so each channel shows one object of a tile.
    index = build_index(
        [[(0, 4, 6, 24, 30), (1, 30, 10, 60, 26), (2, 20, 36, 44, 60)] for _ in range(16)]
    )
    batches = build_batches(*open_set(index), batch_size=16, **augment)
    num_checked = 0
    for epoch in range(3):
        images, targets = batches.get(epoch, 0)
        for image, found in zip(images, list_objects(targets), strict=True):
            for label, *box in found:
                left, top, right, bottom = (round(value) for value in box)
                inside = image[int(label), top:bottom, left:right]
                assert inside.mean() > 0.85, "the box is full of its object"
                around = image[int(label)].clone()
                around[max(0, top - 1) : bottom + 1, max(0, left - 1) : right + 1] = 0
                others = [row for row in found if row[0] == label and row[1:] != box]
                if not others:
                    seen = around > 0.5
                    assert seen.sum() <= _most_dropped(augment), "no pixel of it is outside"
                num_checked += 1
    assert num_checked > 40


def _render(index):
    """Pixels (N, S, S, 3) in which channel `label` shows a disc or triangle as large as its box."""
    pixels = []
    for number, image in enumerate(index.splits["train"]):
        channels = [Image.new("L", (SIDE, SIDE)) for _ in range(3)]
        for box in image.boxes:
            left, top, right, bottom = (side - 0.5 for side in box.xyxy)
            draw = ImageDraw.Draw(channels[box.label])
            if number % 2:
                draw.ellipse((left, top, right - 1, bottom - 1), fill=255)
            else:
                middle = (left + right) / 2
                draw.polygon([(left, bottom - 1), (right - 1, bottom - 1), (middle, top)], fill=255)
        pixels.append(np.stack([np.asarray(channel) for channel in channels], axis=-1))
    return np.stack(pixels)


@pytest.mark.parametrize("augment", [{"crop": 1.0}, {"mosaic": 1.0, "flip": True}, {"scale": 0.5}])
def test_a_box_fits_a_rendered_shape_on_each_side(open_set, augment):
    index = build_index([[(n % 3, 8, 12, 40, 36)] for n in range(16)])
    batches = build_batches(*open_set(index, pixels=_render(index)), batch_size=16, **augment)
    num_checked = 0
    for epoch in range(3):
        images, targets = batches.get(epoch, 0)
        for image, found in zip(images, list_objects(targets), strict=True):
            for label, *box in found:
                if min(box) <= 0 or max(box) >= SIDE:
                    continue  # cut by the border
                left, top, right, bottom = (round(value) for value in box)
                seen = image[int(label)] > 0.5
                near = seen[max(0, top - 3) : bottom + 3, max(0, left - 3) : right + 3]
                rows, columns = near.any(dim=1).nonzero(), near.any(dim=0).nonzero()
                fits = [
                    columns.min() + max(0, left - 3) - box[0],
                    rows.min() + max(0, top - 3) - box[1],
                    columns.max() + 1 + max(0, left - 3) - box[2],
                    rows.max() + 1 + max(0, top - 3) - box[3],
                ]
                # The thin top of a triangle fades when it is made smaller.
                assert max(abs(float(gap)) for gap in fits) < 2.5
                num_checked += 1
    assert num_checked > 12


def _most_dropped(augment):
    """Pixels that objects without a target can cover: slivers, in a mosaic of several images."""
    return 0 if "mosaic" not in augment else 0.3 * SIDE * SIDE


def test_images_change_from_epoch_to_epoch_and_repeat_exactly(open_set):
    built = open_set(build_index(ONE_OBJECT))
    changes = {"flip": True, "scale": 0.5, "mosaic": 0.5, "brightness": 0.3}
    one, other = build_batches(*built, **changes), build_batches(*built, **changes)
    first = one.get(0, 1)
    one.get(1, 0)
    for ours, theirs in zip(first, other.get(0, 1), strict=True):
        assert torch.equal(ours, theirs)
    assert not torch.equal(first[0], one.get(1, 1)[0])


def test_what_scarcely_remains_visible_is_dropped(open_set):
    built = open_set(build_index([[(0, 0, 0, 20, 20)] for _ in range(8)]))
    batches = build_batches(*built, batch_size=8, translate=0.5)
    areas = []
    for epoch in range(8):
        for image in list_objects(batches.get(epoch, 0)[1]):
            areas += [(right - left) * (bottom - top) for _, left, top, right, bottom in image]
    assert 0.3 * 400 <= min(areas) < 0.7 * 400
    assert len(areas) < 64


def test_mosaics_end_before_the_training_does(open_set):
    built = open_set(build_index(ONE_OBJECT))
    batches = build_batches(*built, batch_size=8, mosaic=1.0, epochs=10)
    assert max(map(len, list_objects(batches.get(7, 0)[1]))) > 1
    assert max(map(len, list_objects(batches.get(8, 0)[1]))) == 1


def test_images_from_disk_make_the_same_batches(open_set):
    index = build_index(ONE_OBJECT)
    changes = {"mosaic": 0.5, "scale": 0.5, "contrast": 0.5}
    near = build_batches(*open_set(index), **changes)
    far_images, objects = open_set(index, budget_bytes=0)
    far = build_batches(far_images, objects, **changes)
    assert (near.images.home, far_images.home) == ("device", "disk")
    for epoch in range(2):
        for place in range(2):
            for ours, theirs in zip(near.get(epoch, place), far.get(epoch, place), strict=True):
                assert torch.equal(ours, theirs)
    far.close()


def test_targets_do_not_depend_on_how_many_batches_of_them_are_made_together(open_set):
    boxes = [[(n % 3, 4, 4, 40, 40)] * (1 + 9 * (n % 2)) for n in range(16)]
    images, objects = open_set(build_index(boxes))
    changes = {"mosaic": 0.5, "crop": 0.5, "flip": True}
    together = build_batches(images, objects, **changes)
    single = build_batches(images, objects, **changes)
    for epoch, place in ((0, 0), (0, 1), (0, 3), (1, 2), (1, 0)):
        objects.batches_at_once = 32
        found = together.get(epoch, place)[1]
        objects.batches_at_once = 1
        assert torch.equal(found, single.get(epoch, place)[1])


def test_two_ranks_share_the_batch_of_one(open_set):
    built = open_set(build_index(ONE_OBJECT))
    changes = {"mosaic": 0.5, "flip": True, "brightness": 0.2}
    whole_images, whole_targets = build_batches(*built, **changes).get(0, 1)
    parts = []
    for rank in range(2):
        batches = build_batches(*built, **changes)
        batches.ranks = Ranks(rank, 2)
        parts.append(batches.get(0, 1))
    # Each rank puts its mosaics first, so only the order within the batch differs.
    pairs = list(zip(whole_images, list_objects(whole_targets), strict=True))
    assert sum(len(images) for images, _ in parts) == len(pairs)
    for images, targets in parts:
        for image, objects in zip(images, list_objects(targets), strict=True):
            (place,) = [n for n, (whole, _) in enumerate(pairs) if torch.equal(image, whole)]
            assert pairs.pop(place)[1] == objects


def test_a_batch_is_prepared_in_parts_if_memory_is_short(open_set):
    said = []
    images, objects = open_set(build_index(ONE_OBJECT), say=said.append)
    changes = {"mosaic": 0.6, "scale": 0.5}
    whole = build_batches(images, objects, batch_size=8, **changes).get(0, 0)
    normalise, limit = images._normalise, 1

    def run_short(pictures, colours, *, out):
        if len(pictures) > limit:
            raise torch.OutOfMemoryError("out of memory")
        normalise(pictures, colours, out=out)

    images._normalise = run_short
    parts = build_batches(images, objects, batch_size=8, **changes).get(0, 0)
    assert "prepared in 8 parts" in said[0]
    assert torch.equal(parts[0], whole[0])


def test_an_image_without_objects_has_targets_without_objects(open_set):
    index = build_index([[], [(1, 0, 0, 9, 9)]])
    _, targets = build_batches(*open_set(index), batch_size=2).get(0, 0)
    assert sorted(map(len, list_objects(targets))) == [0, 1]


def test_a_thousand_objects_are_read_and_never_combined_to_more(open_set):
    many = [(0, 1.0, 1.0, 9.0, 9.0)] * MOST_OBJECTS
    index = build_index([many, many])
    _, targets = build_batches(*open_set(index), batch_size=2, mosaic=1.0).get(0, 0)
    assert targets.shape == (2, MOST_OBJECTS, 5)


def test_an_image_with_too_many_objects_is_refused_by_name(open_set):
    index = build_index([[(0, 1.0, 1.0, 9.0, 9.0)] * (MOST_OBJECTS + 1)])
    with pytest.raises(TrainingFailed, match=r"0.png has 1,001 objects.*smaller ones"):
        open_set(index)


def test_objects_of_all_tiles_are_listed_with_their_tile(open_set):
    _, objects = open_set(build_index([[(0, 0, 0, 9, 9)], [], [(1, 0, 0, 9, 9), (2, 5, 5, 9, 9)]]))
    rows = np.array([[0, 2, 1, 2], [1, 0, 0, 0]])
    is_used = np.array([[True, True, True, False], [True, False, False, False]])
    places = objects.find_places(rows, is_used=is_used)
    targets = objects.find_targets(places, None)
    assert targets[0, :4, 0].tolist() == [0, 1, 2, -1]
    assert places.tiles[0, :3].tolist() == [0, 1, 1]
    assert (targets[1, :, 0] == -1).all()
