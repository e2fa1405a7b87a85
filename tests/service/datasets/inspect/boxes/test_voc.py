import pytest

from tests.service.datasets.inspect.boxes.made import boxes, faults, pictures, splits, voc

CAT = ("cat", 1, 1, 10, 20, 0)


def lay_out(**objects):
    """A set like VOC's own, with the objects of each image by its name."""
    files = pictures(*(f"VOC/JPEGImages/{name}.png" for name in objects))
    return files | {f"VOC/Annotations/{n}.xml": content for n, content in objects.items()}


def test_pixels_count_from_one_and_difficult_objects_are_crowds(check):
    dog = ("dog", 11, 3, 40, 20, 1)
    index, report = check(lay_out(a=voc([CAT, dog]), b=voc([CAT])))
    assert (index.annotation_format, index.classes) == ("voc", ["cat", "dog"])
    assert boxes(index)["VOC/JPEGImages/a.png"] == [
        ("cat", (0, 0, 10, 20)),
        ("dog", (10, 2, 40, 20)),
    ]
    assert report.objects.num_crowds == 1
    assert any("counted from 1" in note for note in report.notes)


def test_a_box_that_begins_at_zero_shows_that_pixels_count_from_zero(check):
    index, report = check(lay_out(a=voc([("cat", 0, 5, 10, 10, 0)]), b=voc([CAT])))
    assert boxes(index)["VOC/JPEGImages/b.png"] == [("cat", (1, 1, 10, 20))]
    assert not any("counted from 1" in note for note in report.notes)


def test_the_lists_of_image_sets_are_the_splits(check):
    files = lay_out(a=voc([CAT]), b=voc([CAT]), c=voc([CAT]), d=voc([CAT]))
    lists = {"trainval": b"a\nb\n", "train": b"a\n", "val": b"b 1\n", "test": b"c\n",
             "cat_train": b"a 1\n"}  # fmt: skip
    files |= {f"VOC/ImageSets/Main/{name}.txt": text for name, text in lists.items()}
    index, report = check(files)
    assert [path[-5] for path in splits(index)["train"]] == ["a", "b"]
    assert [path[-5] for path in splits(index)["test"]] == ["c"]
    assert index.num_validation == 1
    assert any("1 images are in no split" in note and "d.png" in note for note in report.notes)


def test_files_next_to_the_images_in_folders_of_splits(check):
    names = ("train/1", "train/2", "valid/3", "test/4")
    files = pictures(*(f"{name}.png" for name in names))
    index, _ = check(files | {f"{name}.xml": voc([CAT]) for name in names})
    assert splits(index) == {"train": ["train/1.png", "train/2.png", "valid/3.png"],
                             "test": ["test/4.png"]}  # fmt: skip


@pytest.mark.parametrize(
    ("objects", "code"),
    [
        ([CAT, ("", 1, 1, 5, 5, 0)], "unknown_class"),
        ([CAT, ("cat", "one", 1, 5, 5, 0)], "bad_box"),
        ([CAT, ("cat", "nan", 1, 5, 5, 0)], "not_finite"),
        ([CAT, ("cat", 9, 1, 5, 5, 0)], "empty_box"),
        ([CAT, ("cat", 50, 1, 55, 5, 0)], "outside"),
    ],
)
def test_a_fault_is_reported_by_file_and_line_and_may_be_skipped(check, objects, code):
    files = lay_out(a=voc(objects), b=voc([CAT]))
    place = (code, "VOC/Annotations/a.xml, line 4")
    assert place in faults(check(files)[1])
    index, report = check(files, skip_bad=1)
    assert faults(report) == {place}
    assert len(boxes(index)["VOC/JPEGImages/a.png"]) == 1


@pytest.mark.parametrize(
    ("content", "code", "line"),
    [
        (b"<annotation>\n<object></annotation>", "bad_annotations", ", line 2"),
        (b"<svg></svg>", "bad_annotations", ""),
        (b"", "bad_annotations", ", line 1"),
        (voc([CAT], size=(99, 20)), "wrong_image_size", ""),
        (b'<!DOCTYPE a [<!ENTITY b "b">]>\n<annotation>&b;</annotation>', "bad_annotations",
         ", line 1"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><annotation/>', "bad_annotations", ", line 1"),
        (b"<a>" * 100_000, "bad_annotations", ", line 1"),
        (b"<?xml version='1.0' encoding='x-none'?><annotation/>", "bad_annotations", ""),
    ],
)  # fmt: skip
def test_annotations_that_cannot_be_used_cost_their_image(check, content, code, line):
    files = lay_out(a=content, b=voc([CAT]), c=voc([CAT]))
    place = (code, f"VOC/Annotations/a.xml{line}")
    assert place in faults(check(files)[1])
    index, report = check(files, skip_bad=1)
    assert place in faults(report)
    assert len(boxes(index)) == 2


def test_annotations_without_an_image_are_reported(check):
    files = lay_out(a=voc([CAT]), b=voc([CAT]))
    files["VOC/Annotations/c.xml"] = voc([CAT])
    assert ("missing_image", "VOC/Annotations/c.xml") in faults(check(files)[1])
