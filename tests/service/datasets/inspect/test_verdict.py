from collections import Counter

import pytest

from redkiln.datasets import take_fraction
from service.datasets.inspect.images import ImageFacts
from service.datasets.inspect.layout import arrange
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.listing import Entry
from service.datasets.inspect.probing import Probe
from service.datasets.inspect.verdict import judge

GOOD = Probe(facts=ImageFacts(28, 28, "L"), size_bytes=100)
BAD = Probe(fault=("bad_image", "cannot be decoded: truncated"))


def verdict(probes, *, folders=(), seed=0):
    files = [Entry(path=path) for path in probes]
    layout = arrange([f.path for f in files], [tuple(path.split("/")) for path in folders])
    of_members = [probes[files[member.position].path] for member in layout.members]
    return judge(files, layout, of_members, seed=seed, limits=Limits())


def image_set(*folders, count=10, probe=GOOD):
    return {f"{folder}/{number:03}.png": probe for folder in folders for number in range(count)}


def codes(report):
    return {(error.code, error.path) for error in report.errors}


def test_a_valid_set_has_an_index_with_both_splits():
    index, report = verdict(image_set("train/a", "train/b", "test/a", "test/b"))
    assert report.errors == []
    assert index.classes == ["a", "b"]
    assert report.counts == {"train": {"a": 10, "b": 10}, "test": {"a": 10, "b": 10}}
    assert (index.image_size, index.channels, index.mixed_sizes) == ((28, 28), 1, False)
    assert report.size_bytes == 4000
    assert not index.held_out_test
    for samples in index.splits.values():
        for label in (0, 1):
            assert sorted(s.rank for s in samples if s.label == label) == list(range(10))


def test_a_validation_folder_is_the_end_of_the_training_split():
    folders = ("train/a", "train/b", "valid/a", "valid/b")
    index, report = verdict(image_set(*folders))
    assert report.counts == {
        "train": {"a": 9, "b": 9},
        "validation": {"a": 10, "b": 10},
        "test": {"a": 1, "b": 1},
    }
    assert index.num_validation == 20
    last = index.splits["train"][-20:]
    assert all(sample.path.startswith("valid/") for sample in last)
    assert any("20 images of the validation split" in note for note in report.notes)


def test_a_validation_class_without_training_images_is_refused():
    _, report = verdict(image_set("train/a", "train/b", "val/c"))
    assert codes(report) == {("unknown_validation_class", "val/c")}


def test_without_a_test_folder_a_tenth_of_each_class_is_held_out_for_ever():
    index, report = verdict(image_set("a", count=50) | image_set("b", count=20))
    again, _ = verdict(image_set("a", count=50) | image_set("b", count=20))
    assert index == again
    assert index.held_out_test
    assert report.counts == {"train": {"a": 45, "b": 18}, "test": {"a": 5, "b": 2}}
    for samples in index.splits.values():
        sizes = Counter(sample.label for sample in samples)
        for label, size in sizes.items():
            assert sorted(s.rank for s in samples if s.label == label) == list(range(size))
    (note,) = report.notes
    assert note.startswith("there is no test split: 7 of 70 images were held out for testing")


def test_the_seed_chooses_what_is_held_out():
    zero, _ = verdict(image_set("a", "b", count=50), seed=0)
    one, _ = verdict(image_set("a", "b", count=50), seed=1)
    assert {s.path for s in zero.splits["test"]} != {s.path for s in one.splits["test"]}
    assert (zero.seed, one.seed) == (0, 1)


def test_a_larger_validation_fraction_contains_a_smaller_one():
    index, _ = verdict(image_set("a", "b", count=50))
    train = index.splits["train"]
    labels, ranks = [s.label for s in train], [s.rank for s in train]
    small = take_fraction(labels, ranks, fraction=0.1)
    large = take_fraction(labels, ranks, fraction=0.3)
    assert all(in_large for in_small, in_large in zip(small, large, strict=True) if in_small)
    assert sum(small) < sum(large)


@pytest.mark.parametrize(("num_bad", "is_valid"), [(0, True), (1, True), (2, True), (3, False)])
def test_up_to_one_in_a_hundred_bad_files_are_skipped_and_listed(num_bad, is_valid):
    probes = image_set("a", "b", count=100)
    bad = list(probes)[:num_bad]
    probes |= dict.fromkeys(bad, BAD)
    index, report = verdict(probes)
    assert (index is not None) is is_valid
    assert report.num_skipped == num_bad
    assert [problem.path for problem in report.skipped] == bad
    if not is_valid:
        assert report.errors[0].code == "too_many_bad_files"
        assert report.errors[0].message == (
            "3 of 200 files are not usable images; by default at most 2 are skipped. Repair "
            "or remove them, or skip them with skip_bad=3"
        )
        assert [problem.path for problem in report.errors[1:]] == bad


@pytest.mark.parametrize(
    ("probes", "folders", "expected"),
    [
        ({}, (), {("no_classes", None)}),
        ({"1.png": GOOD, "2.png": GOOD}, (), {("no_classes", None)}),
        (image_set("a"), (), {("one_class", None)}),
        (image_set("train/a", "test/a"), (), {("one_class", None)}),
        (image_set("train/a", "train/b"), ("train/c",), {("empty_class", "train/c")}),
        (image_set("a", "b"), ("c",), {("empty_class", "c")}),
        (
            image_set("train/a", "train/b", "test/a", "test/z"),
            (),
            {("unknown_test_class", "test/z")},
        ),
        (
            image_set("a", "b", count=1000) | {"c/1.png": BAD},
            (),
            {("empty_class", "c")},
        ),
    ],
)
def test_each_problem_refuses_the_set(probes, folders, expected):
    index, report = verdict(probes, folders=folders)
    assert index is None
    assert codes(report) == expected


def test_classes_with_one_image_each_leave_none_for_testing():
    index, report = verdict(image_set("a", "b", count=1))
    assert index is None
    assert codes(report) == {("no_test_split", None)}
    assert "add images or test/<class>/ folders" in report.errors[0].message
    index, _ = verdict(image_set("a", count=1) | image_set("b", count=2))
    assert len(index.splits["test"]) == 1


def test_a_folder_for_nearly_every_image_is_refused():
    folders = [f"train/{number}" for number in range(Limits().max_classes + 1)]
    index, report = verdict(image_set(*folders, count=1))
    assert index is None
    assert codes(report) == {("too_many_classes", None)}
    assert "there are 10001 class folders" in report.errors[0].message


def test_a_misspelt_test_class_suggests_the_nearest_training_class():
    _, report = verdict(image_set("train/cat", "train/dog", "test/Cat", "test/dog"))
    assert [error.message for error in report.errors] == [
        "the test class 'Cat' has no training images; did you mean 'cat'?"
    ]


def test_many_test_only_classes_cause_few_comparisons(comparisons):
    train = image_set(*(f"train/kind{number}" for number in range(2000)), count=1)
    test = image_set(*(f"test/sort{number}" for number in range(2000)), count=1)
    _, report = verdict(train | test)
    assert [error.code for error in report.errors] == ["unknown_test_class"] * 100
    assert comparisons == [1000] * 10


def test_mixed_sizes_are_allowed_and_the_most_common_one_is_used():
    probes = image_set("a", "b") | {"a/000.png": Probe(facts=ImageFacts(640, 480, "RGB"))}
    index, report = verdict(probes)
    assert index.mixed_sizes
    assert index.image_size == (28, 28)
    assert index.channels == 3
    assert report.image_sizes == {"28x28": 19, "640x480": 1}
    assert report.image_modes == {"L": 19, "RGB": 1}
    assert "the images have 2 different sizes; jobs resize them to one" in report.notes


def test_files_outside_the_class_folders_are_listed_but_do_not_refuse_the_set():
    probes = image_set("train/a", "train/b", "test/a", "test/b")
    files = probes | {"README.md": GOOD, "test/loose.png": GOOD}
    index, report = verdict(files)
    assert index is not None
    assert {problem.path for problem in report.skipped} == {"README.md", "test/loose.png"}


def test_classes_that_only_train_has_are_noted():
    index, report = verdict(image_set("train/a", "train/b", "test/a"))
    assert index is not None
    assert report.notes == ["1 class has no test image: b"]


def test_rare_image_sizes_are_counted_as_other():
    probes = image_set("a", "b", count=100)
    probes |= {
        path: Probe(facts=ImageFacts(10 + number, 10, "L")) for number, path in enumerate(probes)
    }
    _, report = verdict(probes)
    assert len(report.image_sizes) == 51
    assert report.image_sizes["other"] == 150
