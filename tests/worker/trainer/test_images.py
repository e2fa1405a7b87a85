import numpy as np
import pytest
import torch

from redkiln.tasks.image_classification import Augment
from worker.export.images import NormalizedClassifier
from worker.trainer.builtins import INDEX, open_builtin, split_index
from worker.trainer.decode import DecodedFacts, DecodedImages
from worker.trainer.images import ImageSet, TrainBatches, split_rows

CPU = torch.device("cpu")
STILL = Augment(flip=False, rotate_degrees=0.0, crop=0.0)


def resident(index, *, fraction=0.1):
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


def test_no_fraction_takes_nothing(tiny):
    assert split_rows(tiny.index, validation_fraction=0)["validation"] == []


def test_batches_are_normalised_as_the_exported_model_does_it(tiny):
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


def test_an_epoch_shows_full_batches_of_different_training_images(tiny):
    batches = TrainBatches(resident(tiny.index), batch_size=8, augment=STILL, seed=0)
    assert batches.num_batches == 6
    rows = [row for batch in seen(batches, 0, 6) for row in batch]
    train = split_rows(tiny.index, validation_fraction=0.1)["train"]
    assert len(set(rows)) == 48
    assert set(rows) <= set(train)


def test_the_order_depends_on_seed_and_epoch_alone(tiny):
    images = resident(tiny.index)
    batches = TrainBatches(images, batch_size=8, augment=STILL, seed=0)
    first = seen(batches, 0, 6)
    second = seen(batches, 1, 6)
    again = TrainBatches(images, batch_size=8, augment=STILL, seed=0)
    assert seen(again, 1, 6) == second
    assert first != second
    assert seen(TrainBatches(images, batch_size=8, augment=STILL, seed=1), 0, 6) != first


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


def test_an_unknown_builtin_says_what_there_is(cache_dir):
    with pytest.raises(Exception, match="known: digits"):
        open_builtin("mnist", cache_dir=cache_dir)
