import dataclasses

import pytest

from service.datasets.inspect.boxes.placed import choose_class
from service.datasets.inspect.limits import Limits
from tests.service.datasets.inspect.boxes.made import boxes, coco, faults, pictures, splits, voc


def make(annotations, *, num=4, **options):
    names = [f"{number}.png" for number in range(num)]
    return pictures(*names) | {"instances_all.json": coco(names, annotations, **options)}


def test_a_box_beyond_the_edge_is_cut_and_one_that_repeats_counts_once(check):
    again = (1, 0, [5, 5, 5, 5], {})
    index, report = check(
        make([(0, 0, [-5, 2, 10, 30], {}), again, again, (2, 0, [0, 0, 40.4, 20], {})])
    )
    assert boxes(index)["0.png"] == [("cat", (0, 2, 5, 20))]
    assert boxes(index)["1.png"] == [("cat", (5, 5, 10, 10))]
    assert boxes(index)["2.png"] == [("cat", (0, 0, 40, 20))]
    notes = " ".join(report.notes)
    assert "1 boxes reached beyond their image and were cut, such as instances_all.json#/a" in notes
    assert "1 boxes were listed twice" in notes
    assert (report.num_skipped, report.skipped) == (0, [])


def test_one_of_a_hundred_boxes_is_skipped_without_being_asked(check):
    good = [(number % 4, number % 2, [number % 30, 1, 5, 5], {}) for number in range(99)]
    index, report = check(make([*good, (0, 0, [1, 1, 0, 0], {})]))
    assert index is not None
    assert faults(report) == {("empty_box", "instances_all.json#/annotations/99")}
    assert any(note.startswith("1 box cannot be used") for note in report.notes)
    _, report = check(make([*good, *[(0, 0, [1, 1, 0, 0], {})] * 2]))
    assert report.errors[0].code == "too_many_bad_boxes"
    assert report.errors[0].message.startswith("2 of 101 boxes cannot be used")


def test_a_picture_that_cannot_be_decoded_counts_as_an_image(check):
    files = make([(n, 0, [0, 0, 5, 5], {}) for n in range(4)]) | {"2.png": b"no picture"}
    assert ("not_an_image", "2.png") in faults(check(files)[1])
    index, _ = check(files, skip_bad=1)
    assert set(boxes(index)) == {"0.png", "1.png", "3.png"}


def test_splits_are_stratified_by_the_rarest_usual_class_and_frozen(check):
    annotations = [(n, 0, [0, 0, 5, 5], {}) for n in range(40)]
    annotations += [(n, 1, [5, 5, 5, 5], {}) for n in range(20)]
    annotations += [(0, 2, [9, 9, 5, 5], {})]
    files = make(annotations, num=50, categories=("cat", "dog", "owl"))
    index, report = check(files)
    tested = [
        index.classes[im.label] if im.label is not None else None for im in index.splits["test"]
    ]
    assert sorted(map(str, tested)) == ["None", "cat", "cat", "dog", "dog"]
    assert index.held_out_test
    assert any("5 of 50 images were held out" in note for note in report.notes)
    assert splits(check(files)[0]) == splits(index)
    ranks = sorted((im.stratum, im.rank) for im in index.splits["train"])
    assert ranks == [(-1, n) for n in range(9)] + [(0, n) for n in range(18)] + [
        (1, n) for n in range(18)
    ]


@pytest.mark.parametrize(
    ("labels", "chosen"), [({0, 1, 2}, 1), ({0}, 0), ({2, 3}, 3), ({2}, 2), (set(), None)]
)
def test_a_class_with_too_few_images_to_divide_does_not_decide_the_split(labels, chosen):
    assert choose_class(labels, {0: 40, 1: 20, 2: 1, 3: 4}) == chosen


def test_statistics_are_by_class_and_by_the_sizes_of_coco(check):
    sizes = [(31, 33), (32, 32), (95.9, 96), (96, 96)]
    annotations = [(0, 0, [0, 0, *size], {}) for size in sizes] + [(1, 1, [0, 0, 9, 9], {})]
    names = ["0.png", "1.png", "2.png"]
    files = pictures(*names, size=(100, 100))
    _, report = check(files | {"instances_all.json": coco(names, annotations, size=(100, 100))})
    found = report.objects
    assert found.sizes == {"cat": {"small": 1, "medium": 2, "large": 1},
                           "dog": {"small": 1, "medium": 0, "large": 0}}  # fmt: skip
    totals = {}
    for counts in found.boxes.values():
        for name, num in counts.items():
            totals[name] = totals.get(name, 0) + num
    assert totals == {"cat": 4, "dog": 1}
    assert sum(found.images_without.values()) == 1
    assert found.most_in_image == 4


@pytest.mark.parametrize(
    ("files", "code"),
    [
        (make([]), "no_boxes"),
        (make([(0, 0, [0, 0, 5, 5], {})], num=1), "no_test_split"),
        (make([(0, 0, [0, 0, 40, 20], {"iscrowd": 1})], num=1), "no_test_split"),
    ],
)
def test_a_set_with_too_little_is_refused(check, files, code):
    assert {error.code for error in check(files)[1].errors} == {code}


def test_one_class_is_enough(check):
    files = make([(n, 0, [0, 0, 5, 5], {}) for n in range(4)], categories=("cat",))
    assert check(files)[0].classes == ["cat"]


def test_a_thousand_objects_in_an_image_are_read_and_too_many_are_refused(check):
    many = [(0, 0, [n % 39, n % 19, 1 + n / 1000, 1], {}) for n in range(1000)]
    files = make([*many, *((n, 0, [0, 0, 5, 5], {}) for n in range(1, 4))])
    _, report = check(files)
    assert report.objects.most_in_image == 1000
    limits = dataclasses.replace(Limits(), max_image_boxes=999)
    assert ("too_many_boxes", "0.png") in faults(check(files, limits=limits)[1])
    limits = dataclasses.replace(Limits(), max_boxes=999)
    assert faults(check(files, limits=limits)[1]) == {("too_many_boxes", None)}
    limits = dataclasses.replace(Limits(), max_classes=1)
    assert {e.code for e in check(files, limits=limits)[1].errors} == {"too_many_classes"}


def test_copies_across_splits_are_found_among_images_with_boxes(check):
    files = {}
    for split, name in (("train", "1.png"), ("train", "2.png"), ("test", "3.png")):
        files[f"{split}/{name}"] = pictures("same.png")["same.png"]
        files[f"{split}/{name.replace('png', 'xml')}"] = voc([("cat", 1, 1, 9, 9, 0)])
    codes = {warning.code for warning in check(files)[1].warnings}
    assert {"copies_across_splits", "copies_in_training"} <= codes
    assert "two_classes" not in codes


def test_a_given_limit_of_what_is_skipped_holds_for_images_and_boxes_together(check):
    good = [(number % 10, 0, [number, 1, 5, 5], {}) for number in range(20)]
    files = make([*good, (1, 0, [1, 1, 0, 0], {})], num=10) | {"0.png": b"no picture"}
    _, report = check(files, skip_bad=1)
    assert report.errors[0].message == (
        "1 of 10 images cannot be used and 1 of 21 boxes cannot be used; at most 1 is skipped. "
        "Repair or remove them, or skip them with skip_bad=2"
    )
    assert {"0.png", "instances_all.json#/annotations/20"} == {e.path for e in report.errors[1:]}
    _, report = check(files, skip_bad=2)
    assert (report.errors, report.num_skipped) == ([], 2)
