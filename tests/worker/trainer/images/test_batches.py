import contextlib
import threading

import numpy as np
import psutil
import pytest
import torch

from redkiln.predict.pixels import PixelFormat
from redkiln.tasks.image_classification import Augment
from worker.tasks.image_classification.exported import NormalizedClassifier
from worker.trainer.images import batches as batches_module
from worker.trainer.images import image_set as image_set_module
from worker.trainer.images.batches import TrainBatches
from worker.trainer.images.decode.decoded_set import DecodedImages, open_decoded
from worker.trainer.images.decode.facts import DecodedFacts
from worker.trainer.images.image_set import ImageSet
from worker.trainer.images.pixel_set import split_rows
from worker.trainer.images.sources.builtins import INDEX, open_builtin, split_index

CPU = torch.device("cpu")
STILL = Augment(flip=False, rotate_degrees=0.0, crop=0.0)


STRONG = Augment(flip=True, rotate_degrees=20.0, crop=0.2, hue=0.1, contrast=0.3, erase=0.5)


def resident(index, *, fraction=0.1, **options):
    num = sum(len(samples) for samples in index.splits.values())
    pixels = np.zeros((num, 5, 5, 3), dtype=np.uint8)
    pixels[:] = np.arange(num)[:, None, None, None]
    facts = DecodedFacts(num_rows=num, mean=[0.1, 0.2, 0.3], std=[0.5, 0.25, 0.2])
    return ImageSet(
        DecodedImages(pixels, facts),
        index,
        validation_fraction=fraction,
        device=CPU,
        memory_format=torch.channels_last,
        **options,
    )


def test_the_split_is_frozen_and_stratified(tiny):
    rows = split_rows(tiny.index, validation_fraction=0.1)
    assert rows == split_rows(tiny.index, validation_fraction=0.1)
    assert len(rows["train"]) == 54
    assert sorted(rows["train"] + rows["validation"]) == list(range(60))
    assert rows["test"] == list(range(60, 78))
    labels = [tiny.index.splits["train"][row].label for row in rows["validation"]]
    assert sorted(labels) == [0, 0, 1, 1, 2, 2]


def test_a_larger_fraction_contains_a_smaller_one(tiny):
    small = split_rows(tiny.index, validation_fraction=0.1)["validation"]
    large = split_rows(tiny.index, validation_fraction=0.3)["validation"]
    assert set(small) < set(large)


def test_a_fraction_of_zero_takes_nothing(tiny):
    assert split_rows(tiny.index, validation_fraction=0)["validation"] == []


@pytest.mark.parametrize("fraction", [0, 0.3])
def test_a_sets_own_validation_split_is_used_whatever_the_fraction(tiny, fraction):
    index = tiny.index.model_copy(update={"num_validation": 12})
    rows = split_rows(index, validation_fraction=fraction)
    assert rows["train"] == list(range(48))
    assert rows["validation"] == list(range(48, 60))
    assert rows["test"] == list(range(60, 78))


def test_batches_are_normalised_like_the_exported_model_does(tiny):
    images = resident(tiny.index)
    inputs, labels = images.get_batch(torch.tensor([0, 40, 77]))
    assert inputs.is_contiguous(memory_format=torch.channels_last)
    assert labels.tolist() == [0, 2, 2]
    raw = torch.tensor([0.0, 40.0, 77.0]).view(3, 1, 1, 1).expand(3, 3, 5, 5) / 255
    exported = NormalizedClassifier(torch.nn.Identity(), mean=[0.1, 0.2, 0.3], std=[0.5, 0.25, 0.2])
    torch.testing.assert_close(inputs, exported(raw), rtol=1e-5, atol=1e-6)


def seen(batches, epoch, num):
    """Which rows each batch holds: a row's pixels all carry its number."""
    scale = 1 / (255 * 0.5)
    rows = []
    for place in range(num):
        inputs, _ = batches.get(epoch, place)
        rows.append(((inputs[:, 0, 0, 0] + 0.1 / 0.5) / scale).round().int().tolist())
    return rows


def test_an_epoch_has_full_batches_without_repeated_images(tiny):
    batches = TrainBatches(resident(tiny.index), batch_size=8, augment=STILL, seed=0)
    assert batches.num_batches == 6
    rows = [row for batch in seen(batches, 0, 6) for row in batch]
    train = split_rows(tiny.index, validation_fraction=0.1)["train"]
    assert len(set(rows)) == 48
    assert set(rows) <= set(train)


def test_the_order_depends_only_on_seed_and_epoch(tiny):
    images = resident(tiny.index)
    batches = TrainBatches(images, batch_size=8, augment=STILL, seed=0)
    first = seen(batches, 0, 6)
    second = seen(batches, 1, 6)
    again = TrainBatches(images, batch_size=8, augment=STILL, seed=0)
    assert seen(again, 1, 6) == second
    assert first != second
    assert seen(TrainBatches(images, batch_size=8, augment=STILL, seed=1), 0, 6) != first


def test_small_batches_are_prepared_together_whichever_is_requested_first(tiny, monkeypatch):
    images = resident(tiny.index)
    made = []
    finish = images.finish

    def note(planes, labels, transforms):
        made.append(len(labels))
        return finish(planes, labels, transforms)

    monkeypatch.setattr(images, "finish", note)

    def sizes(*places, at_once=4, **changed):
        batches = TrainBatches(images, batch_size=8, augment=STILL, seed=0)
        monkeypatch.setattr(batches_module, "MOST_AT_ONCE", at_once)
        for name, value in changed.items():
            monkeypatch.setattr(batches_module, name, value)
        made.clear()
        for place in places:
            batches.get(0, place)
        return list(made)

    assert sizes(0, 1, 2, 3, 4, 5) == [32, 16]
    assert sizes(2, 3, 4) == [32, 16]
    assert sizes(5, 5) == [16, 16]  # the last one is not kept
    assert sizes(0, 1, at_once=1) == [8, 8]
    assert sizes(0, 1, BYTES_AT_ONCE=1) == [8, 8]


@pytest.mark.parametrize("augment", [STILL, STRONG])
def test_batches_are_prepared_in_parts_after_memory_ran_out(tiny, augment, monkeypatch):
    whole = TrainBatches(resident(tiny.index), batch_size=20, augment=augment, seed=0)
    wanted = [whole.get(0, place) for place in (0, 1)]
    said, asked, real = [], [], image_set_module.apply_transforms

    def change(images, transforms):
        asked.append(len(images))
        if len(images) > 5:
            raise torch.OutOfMemoryError("HIP out of memory")
        return real(images, transforms)

    monkeypatch.setattr(image_set_module, "apply_transforms", change)
    monkeypatch.setattr(batches_module, "MOST_AT_ONCE", 1)
    images = resident(tiny.index, say=said.append)
    parts = TrainBatches(images, batch_size=20, augment=augment, seed=0)
    for place, (inputs, labels) in enumerate(wanted):
        found, theirs = parts.get(0, place)
        assert torch.equal(found, inputs)
        assert found.stride() == inputs.stride()
        assert torch.equal(theirs, labels)
    assert asked == [20, *[3] * 6, 2, *[3] * 6, 2]
    (text,) = said
    assert "prepared in 8 parts" in text


def test_a_batch_that_does_not_fit_even_in_parts_fails(tiny, monkeypatch):
    def fail(_images, _transforms):
        raise torch.OutOfMemoryError("HIP out of memory")

    monkeypatch.setattr(image_set_module, "apply_transforms", fail)
    batches = TrainBatches(resident(tiny.index), batch_size=20, augment=STILL, seed=0)
    with pytest.raises(torch.OutOfMemoryError):
        batches.get(0, 0)


def test_evaluation_sees_every_image_once_in_order(tiny):
    images = resident(tiny.index)
    labels = torch.cat([labels for _, labels in images.batches("test", batch_size=7)])
    assert labels.tolist() == [0] * 6 + [1] * 6 + [2] * 6


def test_builtin_digits_hold_out_a_tenth_of_each_class(cache_dir):
    folder = open_builtin("digits", cache_dir=cache_dir)
    assert (folder / INDEX).exists()
    assert np.load(folder / "images.npy").shape == (1797, 8, 8)
    labels = [0] * 20 + [1] * 30
    index = split_index(labels, name="digits")
    assert len(index.splits["test"]) == 5
    for split in ("train", "test"):
        for label in (0, 1):
            ranks = [s.rank for s in index.splits[split] if s.label == label]
            assert sorted(ranks) == list(range(len(ranks)))
    paths = [s.path for samples in index.splits.values() for s in samples]
    assert sorted(map(int, paths)) == list(range(50))


def test_an_unknown_builtin_error_lists_the_known_ones(cache_dir):
    with pytest.raises(Exception, match="use one of: digits, mnist"):
        open_builtin("mnits", cache_dir=cache_dir)


@pytest.fixture
def every_home(tiny, tmp_path):
    """The same set resident, read from the disk, and decoded while it trains."""

    def open_set(cache, budget_bytes):
        return open_decoded(
            tiny.path,
            tiny.index_path,
            tiny.index,
            fingerprint="f",
            pixel_format=PixelFormat(size=12, channels=3, resize="stretch"),
            cache_dir=tmp_path / cache,
            on_progress=lambda _done, _total: None,
            budget_bytes=budget_bytes,
        )

    stored, packed = open_set("stored", 2**30), open_set("packed", 0)
    assert (stored.is_stored, packed.is_stored) == (True, False)
    assert packed.facts.images_per_second > 0
    return [
        ImageSet(
            decoded,
            tiny.index,
            validation_fraction=0.1,
            device=CPU,
            memory_format=torch.channels_last,
            budget_bytes=budget_bytes,
        )
        for decoded, budget_bytes in ((stored, 2**30), (stored, 0), (packed, 2**30))
    ]


def test_images_read_from_disk_give_the_same_batches_as_resident_ones(every_home):
    resident_set, *others = every_home
    assert [images.home for images in every_home] == ["device", "disk", "disk"]
    batches = [TrainBatches(s, batch_size=8, augment=STRONG, seed=3) for s in every_home]
    with contextlib.ExitStack() as stack:
        for some in batches:
            stack.callback(some.close)
        # In order over the end of an epoch, then back, as a resumed run asks.
        for epoch, place in [(0, 0), (0, 1), (0, 5), (1, 0), (1, 1), (0, 2), (3, 4), (3, 5)]:
            inputs, labels = batches[0].get(epoch, place)
            for some in batches[1:]:
                other_inputs, other_labels = some.get(epoch, place)
                assert torch.equal(other_inputs, inputs), (epoch, place)
                assert torch.equal(other_labels, labels)
    for images in others:
        for (inputs, labels), (other_inputs, other_labels) in zip(
            resident_set.batches("test", batch_size=7),
            images.batches("test", batch_size=7),
            strict=True,
        ):
            assert torch.equal(other_inputs, inputs)
            assert torch.equal(other_labels, labels)
        rows = torch.tensor([3, 1])
        assert torch.equal(images.get_batch(rows)[0], resident_set.get_batch(rows)[0])


def test_closed_batches_leave_no_thread_and_no_process(every_home):
    for images in every_home:
        images.close()  # what its facts were measured with
    threads, processes = threading.active_count(), psutil.Process().children(recursive=True)
    for images in every_home:
        batches = TrainBatches(images, batch_size=8, augment=STILL, seed=0)
        batches.get(0, 0)
        batches.close()
        batches.close()
    assert threading.active_count() == threads
    assert psutil.Process().children(recursive=True) == processes
