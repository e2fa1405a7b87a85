import pytest

from tests.service.datasets.inspect.boxes.made import boxes, faults, pictures, splits

YAML = b"names: [cat, dog]\n"
ALL = {"a": ("1", "2"), "b": ("3",), "c": ("4",)}


def lay_out(pattern, folders):
    """A set with images and labels in folders, by the patterns of Ultralytics and Roboflow."""
    images, labels = pattern
    names = [(folder, stem) for folder, stems in zip(folders, ALL.values(), strict=True)
             for stem in stems]  # fmt: skip
    files = pictures(*(images.format(folder) + f"{stem}.png" for folder, stem in names))
    return files | {
        labels.format(folder) + f"{stem}.txt": b"1 0.5 0.5 0.5 0.5\n" for folder, stem in names
    }


@pytest.mark.parametrize(
    ("pattern", "folders", "yaml"),
    [
        (("images/{}/", "labels/{}/"), ("train", "val", "test"), None),
        (("images/{}/", "labels/{}/"), ("train2017", "val2017", "test2017"), None),
        (("{}/images/", "{}/labels/"), ("train", "valid", "test"), None),
        (("{}/", "labels/{}/"), ("train", "val", "test"), None),
        (("{}/images/", "{}/labels/"), ("train", "valid", "test"),
         "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n"),
        (("images/{}/", "labels/{}/"), ("a", "b", "c"),
         "path: ../datasets/pets\ntrain: images/a\nval: images/b\ntest: [images/c]\n"),
        (("images/{}/", "labels/{}/"), ("a", "b", "c"),
         "train: lists/a.txt\nval: lists/b.txt\ntest: images/c\n"),
    ],
    ids=["ultralytics", "years", "roboflow", "side", "roboflow yaml", "own folders", "lists"],
)  # fmt: skip
def test_layouts_and_splits(check, pattern, folders, yaml):
    files = lay_out(pattern, folders)
    if yaml is not None:
        files |= {"data.yaml": YAML + yaml.encode(),
                  "lists/a.txt": b"./images/a/1.png\n./images/a/2.png\n",
                  "lists/b.txt": b"/home/me/pets/images/b/3.png\n"}  # fmt: skip
    index, report = check(files)
    place = pattern[0].format
    assert splits(index) == {
        "train": [place(folders[0]) + "1.png", place(folders[0]) + "2.png",
                  place(folders[1]) + "3.png"],
        "test": [place(folders[2]) + "4.png"],
    }  # fmt: skip
    assert (index.num_validation, index.held_out_test) == (1, False)
    name = "dog" if yaml else "1"
    assert set(map(tuple, boxes(index).values())) == {((name, (10, 5, 30, 15)),)}
    assert any("named by their numbers" in note for note in report.notes) == (yaml is None)


def make(labels, *, yaml=YAML, more=()):
    files = {"images/1.png": None, "images/2.png": None, "images/3.png": None}
    files = pictures(*files, *more) | {"labels/1.txt": labels, "labels/2.txt": b"0 .5 .5 .5 .5\n"}
    return files if yaml is None else files | {"data.yaml": yaml}


def test_an_image_with_an_empty_or_no_file_of_labels_is_a_background(check):
    index, report = check(make(b"\n"))
    assert [len(found) for found in boxes(index).values()] == [0, 1, 0]
    assert report.objects.images_without == {"train": 1, "test": 1}
    assert any(
        "1 image without a label file counts as having no objects" in note for note in report.notes
    )


def test_outlines_become_boxes_and_key_points_are_left_out(check):
    outline = b"1 0.1 0.1 0.5 0.9 0.9 0.2\n"
    index, report = check(make(outline))
    assert boxes(index)["images/1.png"] == [("dog", (4, 2, 36, 18))]
    assert any("1 outline was replaced" in note for note in report.notes)
    yaml = YAML + b"kpt_shape: [1, 2]\n"
    index, _ = check(make(b"1 0.5 0.5 0.5 0.5 0.9 0.2\n", yaml=yaml))
    assert boxes(index)["images/1.png"] == [("dog", (10, 5, 30, 15))]


def test_labels_next_to_images_need_a_list_of_classes(check):
    files = pictures("1.png", "2.png") | {"1.txt": b"0 .5 .5 .5 .5", "2.txt": b"0 .5 .5 .5 .5"}
    index, _ = check(files | {"classes.txt": b"cat\ndog\n"})
    assert boxes(index) == {name: [("cat", (10, 5, 30, 15))] for name in ("1.png", "2.png")}
    _, report = check(files)
    assert "no_classes" in {code for code, _ in faults(report)}  # class folders, as before


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"0 0.5 0.5 0.5", "bad_box"),
        (b"0 0.5 0.5 0.5 0.5 0.9", "bad_box"),
        (b"0 0.5 0.5 half 0.5", "bad_box"),
        (b"2 0.5 0.5 0.5 0.5", "unknown_class"),
        (b"-1 0.5 0.5 0.5 0.5", "unknown_class"),
        (b"0.5 0.5 0.5 0.5 0.5", "unknown_class"),
        (b"nan 0.5 0.5 0.5 0.5", "unknown_class"),
        (b"0 nan 0.5 0.5 0.5", "not_finite"),
        (b"0 0.5 inf 0.5 0.5", "not_finite"),
        (b"0 0.5 0.5 0 0.5", "empty_box"),
        (b"0 0.5 0.5 0.1 -0.5", "empty_box"),
        (b"0 1.5 0.5 0.5 0.5", "outside"),
        (b"0 320 240 64 64", "not_normalised"),
    ],
)
def test_a_fault_is_reported_by_file_and_line_and_may_be_skipped(check, line, code):
    files = make(b"1 .5 .5 .2 .2\n\n" + line + b"\n")
    place = (code, "labels/1.txt, line 3")
    index, report = check(files)
    assert index is None
    assert place in faults(report)
    index, report = check(files, skip_bad=1)
    assert faults(report) == {place}
    assert boxes(index)["images/1.png"] == [("dog", (16, 8, 24, 12))]


def test_labels_without_an_image_are_reported(check):
    files = make(b"") | {"labels/9.txt": b"0 .5 .5 .5 .5"}
    assert ("missing_image", "labels/9.txt") in faults(check(files)[1])
    index, report = check(files, skip_bad=1)
    assert len(boxes(index)) == 3
    assert report.num_skipped == 1


@pytest.mark.parametrize(
    ("yaml", "code"),
    [
        (b"names: [cat, dog]\nnc: 3\n", "bad_data_yaml"),
        (b"names: {0: cat, 2: dog}\n", "bad_data_yaml"),
        (b"train: images\n", "bad_data_yaml"),
        (b"- cat\n- dog\n", "bad_data_yaml"),
        (b"names: [cat, dog\n", "bad_data_yaml"),
        (b"names: &all [cat]\nother: *all\n", "bad_data_yaml"),
        (b"names: !!python/object/apply:os.system ['true']\n", "bad_data_yaml"),
        (b"names: [cat, cat]\n", "duplicate_class"),
        (b"names: []\n", "no_classes"),
        (b"names: [cat, dog]\ntrain: lists/none.txt\n", "bad_data_yaml"),
        (b"\xff\xfe", "bad_data_yaml"),
        (b"[" * 5000, "bad_data_yaml"),
    ],
)
def test_a_data_yaml_that_is_wrong_is_refused(check, yaml, code):
    _, report = check(make(b"", yaml=yaml))
    (error,) = report.errors
    assert error.code == code
    assert error.path.startswith("data.yaml")


def test_names_by_number_give_the_classes(check):
    index, _ = check(make(b"1 .5 .5 .5 .5", yaml=b"names:\n  1: dog\n  0: cat\nnc: 2\n"))
    assert index.classes == ["cat", "dog"]
    assert boxes(index)["images/1.png"][0][0] == "dog"
