"""Copies in sets of images, from the upload to the report."""

import io
import os

import numpy as np
import pytest
from PIL import Image

from service.datasets.inspect.__main__ import inspect
from service.datasets.inspect.order import Order
from service.datasets.inspect.quality.classes import check_classes


def picture(seed, *, size=(160, 120), kind="PNG", quality=90):
    """A picture of large shapes, always the same for a seed."""
    pixels = np.random.default_rng(seed).integers(0, 256, size=(6, 8, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC).save(
        buffer, kind, **({"quality": quality} if kind == "JPEG" else {})
    )
    return buffer.getvalue()


@pytest.fixture
def warn(tmp_path, make):
    def warn(files):
        (tmp_path / "set.zip").write_bytes(make.zip(files))
        order = Order(kind="archive", path=str(tmp_path / "set.zip"), parent_pid=os.getpid())
        report = inspect(order, work_dir=tmp_path)
        assert report.errors == []
        return {warning.code: warning.message for warning in report.warnings}

    return warn


def files_of(*, train=6, test=2, start=0):
    return [
        (f"{split}/{name}/{number}.png", picture(start + 100 * place + 10 * offset + number))
        for place, name in enumerate(("cat", "dog"))
        for offset, (split, num) in enumerate((("train", train), ("test", test)))
        for number in range(num)
    ]


def test_a_clean_set_has_no_warnings(warn):
    assert warn(files_of()) == {}


def deep(content, *, times):
    """A picture as grey with 16 bits."""
    with Image.open(io.BytesIO(content)) as image:
        pixels = np.asarray(image.convert("L")).astype(np.uint16)
    buffer = io.BytesIO()
    Image.fromarray(pixels * np.uint16(times)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("times", "most", "factor"), [(16, "4,096", 16), (3, "1,024", 64), (1, "256", 256)]
)
def test_images_of_16_bits_that_use_only_the_lowest_values_are_warned_of(warn, times, most, factor):
    files = {path: deep(content, times=times) for path, content in files_of()}
    message = warn(files.items())["dark_16_bit"]
    assert message.startswith(f"all 16 images with 16 bits a pixel have only values below {most} ")
    assert f"multiply the values by {factor} " in message
    files["train/cat/0.png"] = deep(picture(0), times=200)
    assert "dark_16_bit" not in warn(files.items())


def test_near_copies_of_16_bits_are_found(warn):
    files = {path: deep(content, times=200) for path, content in files_of()}
    assert warn(files.items()) == {}
    files["test/cat/0.png"] = deep(picture(1, size=(120, 90)), times=200)
    assert set(warn(files.items())) == {"near_copies_across_splits"}


def test_test_images_that_are_copies_of_training_images_are_counted(warn):
    files = dict(files_of())
    files["test/cat/0.png"] = files["train/cat/1.png"]
    found = warn(files.items())
    assert set(found) == {"copies_across_splits"}
    assert found["copies_across_splits"].startswith(
        "1 of 4 test images is equal to a training image (test/cat/0.png and train/cat/1.png)"
    )


def test_other_files_with_the_same_pixels_are_copies(warn):
    files = dict(files_of())
    with Image.open(io.BytesIO(files["train/cat/1.png"])) as image:
        buffer = io.BytesIO()
        image.save(buffer, "PNG", compress_level=1)
    assert buffer.getvalue() != files["train/cat/1.png"]
    found = warn([*files.items(), ("train/cat/again.png", buffer.getvalue())])
    assert set(found) == {"copies_in_training"}
    assert "1 training image is equal to another (train/cat/" in found["copies_in_training"]


def test_compressed_and_resized_copies_are_nearly_equal(warn):
    files = dict(files_of())
    files["test/cat/0.png"] = picture(0, kind="JPEG", quality=75)
    files["train/dog/small.png"] = picture(100, size=(120, 90))
    found = warn(files.items())
    assert set(found) == {"near_copies_across_splits", "near_copies_in_training"}
    assert "test/cat/0.png and train/cat/0.png" in found["near_copies_across_splits"]


def test_near_copies_within_the_test_split_are_counted_next_to_equal_images(warn):
    files = dict(files_of())
    files["test/cat/0-small.jpg"] = picture(10, size=(120, 90), kind="JPEG", quality=90)
    files["test/dog/0-again.png"] = files["test/dog/0.png"]
    found = warn(files.items())
    assert set(found) == {"copies_in_test", "near_copies_in_test"}
    assert found["copies_in_test"].startswith("1 of 6 test images is equal to another of the test")
    assert found["near_copies_in_test"].startswith(
        "of the 5 other test images, 1 is nearly equal to another of the test split (test/cat/0"
    )


def test_near_copies_are_counted_among_the_images_that_are_no_exact_copies(warn):
    files = dict(files_of())
    files["test/cat/0.png"] = picture(0, kind="JPEG", quality=75)
    files["test/dog/0.png"] = files["train/dog/1.png"]
    found = warn(files.items())
    assert found["copies_across_splits"].startswith("1 of 4 test images is equal to")
    assert found["near_copies_across_splits"].startswith(
        "of the 3 other test images, 1 is nearly equal to a training image (test/cat/0.png and"
    )


def test_one_image_in_two_classes_is_named(warn):
    files = dict(files_of())
    files["train/dog/0.png"] = files["train/cat/0.png"]
    found = warn(files.items())
    assert found["two_classes"] == (
        "2 images are equal but have different labels: train/cat/0.png: cat and train/dog/0.png: "
        "dog. Give equal images the same labels"
    )


def test_images_that_look_alike_in_two_classes_are_to_be_looked_at(warn):
    files = dict(files_of())
    for number in range(2):
        files[f"train/dog/{number}.png"] = picture(number, kind="JPEG", quality=75)
    assert warn(files.items())["two_classes"].startswith(
        "2 pairs of images look alike but have different labels, for example train/cat/0.png: cat "
        "and train/dog/0.png: dog. Look at them: if they show the same thing, give them the same "
        "labels. GET /v1/datasets/{id} lists all of them"
    )


def test_small_classes_and_imbalance_are_warned_of(warn):
    files = files_of(train=4, test=1)
    more = [(f"train/dog/more-{n}.png", picture(1000 + n)) for n in range(100)]
    few = [file for file in files if file[0] != "train/cat/3.png"]
    found = warn([*few, *more])
    assert set(found) == {"few_samples", "imbalance"}
    assert found["few_samples"].startswith("1 class has fewer than 5 samples (cat: 4)")
    assert "class dog has 104 training samples and cat has 3" in found["imbalance"]
    advice = found["imbalance"].partition("macro F1 or AUC; ")[2]
    assert advice.startswith("to find more of cat, use the decision threshold in the report")
    assert advice.index("threshold") < advice.index("training.class_weights")


def test_rare_labels_are_compared_by_metrics_of_each_class():
    (found,) = check_classes({"train": {"car": 400, "bus": 10}}, are_labels=True)
    assert "ignores bus makes few mistakes; compare models by average precision or F1 of each" in (
        found.message
    )
    assert "training.class_weights balanced may find more of bus" in found.message
    assert not {"AUC", "accuracy", "threshold"} & set(found.message.split())


def test_a_misspelt_class_does_not_hide_that_another_one_is_rare():
    found = {
        one.code: one.message for one in check_classes({"train": {"ok": 1748, "Ok": 1, "no": 46}})
    }
    assert "class ok has 1,748 training samples and no has 46" in found["imbalance"]
    assert "Ok: 1" in found["few_samples"]


def test_a_small_class_whose_name_is_close_to_a_large_one_may_be_a_misspelling():
    totals = {"complaint": 85, "praise": 40, "compliant": 1, "other": 2, "dog": 3}
    found = {one.code: one.message for one in check_classes({"train": totals})}["few_samples"]
    assert (
        "(compliant: 1, other: 2, dog: 3); compliant (1) may be a misspelling of complaint (85);"
        in (found)
    )
    assert found.count("misspelling") == 1
    numbered = check_classes({"train": {f"class_{n}": 3 + n for n in range(4)}})
    assert "misspelling" not in numbered[0].message


def test_more_than_two_classes_have_no_threshold_to_advise():
    (found,) = check_classes({"train": {"a": 500, "b": 400, "c": 10}})
    assert "threshold" not in found.message
    assert "training.class_weights balanced may find more of c" in found.message


def test_copies_stay_together_in_a_split_that_is_drawn(warn):
    pictures = {name: [picture(100 * place + n) for n in range(15)]
                for place, name in enumerate(("cat", "dog"))}  # fmt: skip
    files = [
        (f"{name}/{number}-{copy}.png", content)
        for name, contents in pictures.items()
        for number, content in enumerate(contents)
        for copy in range(2)
    ]
    found = warn(files)
    assert set(found) == {"copies_in_training", "copies_in_test"}
    assert "validation" not in found["copies_in_training"]
