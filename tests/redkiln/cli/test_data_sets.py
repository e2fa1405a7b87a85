from pathlib import Path

import pytest

from tests.redkiln.fake_service import dataset


def test_pushing_a_folder_waits_until_it_is_ready(redkiln, fake, image_folder):
    done = redkiln("datasets", "push", image_folder, "--name", "roses")
    assert done.code == 0
    assert fake.uploads[0][0] == "roses"
    for words in ("ready", "train 50, test 10", "2: daisy, rose", "32x32 (60)"):
        assert words in done.out


def test_a_refused_set_is_a_bad_request_with_its_files(redkiln, fake, image_folder):
    fake.dataset_errors = [
        {"code": "not_an_image", "message": f"is not an image ({i})", "path": f"daisy/{i}.png"}
        for i in range(30)
    ]
    done = redkiln("datasets", "push", image_folder)
    assert done.code == 2
    assert "daisy/19.png: is not an image" in done.err
    assert "and 10 more: redkiln datasets show ds_1" in done.err


def test_files_with_the_same_problem_are_one_line(redkiln, fake, image_folder):
    fake.dataset_errors = [
        {"code": "not_an_image", "message": "is not an image", "path": f"daisy/{i}.png"}
        for i in range(7)
    ]
    told = redkiln("datasets", "push", image_folder).err
    assert "daisy/3.png, daisy/4.png and 2 more: is not an image" in told
    assert "all places: redkiln datasets show ds_1 --json" in told


def test_a_set_is_found_by_name_and_by_id(redkiln, image_folder):
    redkiln("datasets", "push", image_folder)
    assert redkiln("datasets", "show", "flowers", "--json").json["id"] == "ds_1"
    assert redkiln("datasets", "show", "ds_1", "--json").json["name"] == "flowers"
    assert "There is no data set 'roses'" in redkiln("datasets", "show", "roses").err


def test_a_refused_push_hides_no_good_set_of_that_name(redkiln, fake):
    fake.datasets["ds_1"] = dataset("flowers")
    fake.datasets["ds_2"] = dataset("flowers", id="ds_2", status="invalid")
    assert redkiln("datasets", "show", "flowers", "--json").json["id"] == "ds_1"
    del fake.datasets["ds_1"]
    assert redkiln("datasets", "show", "flowers", "--json").json["id"] == "ds_2"


def test_the_list_says_in_one_line_which_sets_were_refused_and_why_the_newest_was(redkiln, fake):
    reason = {"code": "not_an_image", "message": "is not an image", "path": "daisy/0.png"}
    fake.datasets["ds_1"] = dataset("flowers")
    fake.datasets["ds_2"] = dataset("roses", id="ds_2", status="invalid", errors=[reason, reason])
    (note,) = redkiln("datasets").err.splitlines()
    why = "daisy/0.png: is not an image. All reasons: redkiln datasets show"
    assert note == f"roses (ds_2) is invalid: {why} ds_2"
    fake.datasets["ds_3"] = dataset("roses", id="ds_3", status="invalid", errors=[reason])
    (note,) = redkiln("datasets").err.splitlines()
    assert note == f"2 data sets are invalid, the newest is roses (ds_3): {why} ds_3"


@pytest.mark.parametrize(
    ("typed", "stored"),
    [("my pics", "my-pics"), ("my-pic", "my-pics"), ("评论.csv", "评论")],
)
def test_a_set_that_is_not_found_is_suggested(redkiln, image_folder, typed, stored):
    redkiln("datasets", "push", image_folder, "--name", stored)
    assert f"Did you mean {stored}?" in redkiln("datasets", "check", typed).err


def test_a_file_whose_name_no_set_can_have_says_what_its_set_is_called(redkiln, tmp_path):
    table = tmp_path / "my (评论).csv"
    table.write_text("age,price\n1,2\n")
    said = "my (评论).csv is stored as data set my-评论. To choose the name:"
    assert said in " ".join(redkiln("datasets", "push", table).err.split())
    assert "stored as" not in redkiln("datasets", "push", table, "--name", "reviews").err
    gone = redkiln("datasets", "push", tmp_path / "my (评论) 2.csv")
    assert (gone.code, "stored as" in gone.err) == (2, False)


def test_hidden_images_that_are_not_pushed_are_noted(redkiln, image_folder):
    assert "hidden" not in redkiln("datasets", "push", image_folder).err
    (image_folder / "daisy" / ".IMG_1.jpg").write_bytes(b"x")
    said = " ".join(redkiln("datasets", "push", image_folder).err.split())
    assert "note: a hidden file is left out: daisy/.IMG_1.jpg; to use it" in said


def test_a_set_can_be_deleted(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder)
    assert redkiln("datasets", "delete", "flowers").code == 0
    assert fake.datasets == {}


def test_a_list_shows_all_data_sets(redkiln, image_folder):
    assert "No data sets" in redkiln("datasets").err
    redkiln("datasets", "push", image_folder)
    out = redkiln("datasets").out
    assert "flowers" in out
    assert "60" in out


def test_a_table_shows_its_columns_and_options(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder)
    fake.datasets["ds_1"] |= {
        "task": "tabular-regression",
        "target": "price",
        "classes": [],
        "counts": {"train": {"rows": 90}, "test": {"rows": 10}},
        "image_sizes": {},
        "options": {"target": "price", "columns": {"zip": "categorical"}},
        "columns": [
            {"name": "age", "type": "numeric", "minimum": 0, "maximum": 9, "num_missing": 3},
            {"name": "zip", "type": "categorical", "num_categories": 7, "categories": ["a", "b"]},
            {"name": "id", "type": "ignored", "note": "it numbers the rows"},
            {"name": "price", "type": "target", "minimum": 1.5, "maximum": 3.5, "mean": 2},
        ],
        "num_skipped": 1,
        "missing": ["NA", "-999"],
    }
    out = redkiln("datasets", "show", "flowers").out
    for words in ("train 90, test 10", "target 'price', zip=categorical", "0 to 9", "7: a, b",
                  "it numbers the rows", "empty, 'NA', '-999'", "1.5 to 3.5, mean 2",
                  "1 row"):  # fmt: skip
        assert words in out


def test_the_target_is_shown_where_the_list_of_columns_is_cut(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder)
    numbers = [{"name": f"x{n}", "type": "numeric", "minimum": 0, "maximum": 9} for n in range(69)]
    target = {"name": "price", "type": "target", "minimum": 1.5, "maximum": 3.5}
    fake.datasets["ds_1"] |= {"task": "tabular-regression", "columns": [*numbers, target]}
    done = redkiln("datasets", "show", "flowers")
    assert "1.5 to 3.5" in done.out
    assert "x59" in done.out
    assert "x60" not in done.out
    assert "and 9 more columns: " in done.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["NA", "-999"], ["NA", "-999"]), (["NA", ""], ["NA"]), ([""], [""])],
)
def test_words_for_missing_values_are_sent(redkiln, fake, tmp_path, words, expected):
    table = tmp_path / "houses.csv"
    table.write_text("age,price\n1,2\n")
    options = [part for word in words for part in ("--missing", word)]
    assert redkiln("datasets", "push", table, *options).code == 0
    assert [value for name, value in fake.upload_queries[-1] if name == "missing"] == expected


def test_classes_are_sent_in_their_order(redkiln, fake, tmp_path):
    table = tmp_path / "houses.csv"
    table.write_text("age,price\n1,2\n")
    assert redkiln("datasets", "push", table, "--class", "low", "--class", "high").code == 0
    assert [value for name, value in fake.upload_queries[-1] if name == "class"] == ["low", "high"]


def test_the_number_of_bad_rows_to_skip_is_sent(redkiln, fake, tmp_path):
    table = tmp_path / "houses.csv"
    table.write_text("size,price\n1,2\n3,4\n")
    assert redkiln("datasets", "push", table, "--skip-bad", "7").code == 0
    assert ("skip_bad", "7") in fake.upload_queries[-1]


def test_the_decimal_mark_is_sent(redkiln, fake, tmp_path):
    table = tmp_path / "houses.csv"
    table.write_text("age,price\n1,2\n")
    assert redkiln("datasets", "push", table, "--decimal", ",").code == 0
    assert ("decimal", ",") in fake.upload_queries[-1]


@pytest.mark.parametrize(
    ("num_test", "told"),
    [(9, "9 test samples: one right answer more or less is 11 points"), (60, "")],
)
def test_check_says_how_coarse_an_accuracy_on_few_samples_is(
    redkiln, fake, image_folder, num_test, told
):
    redkiln("datasets", "push", image_folder)
    fake.datasets["ds_1"]["counts"] = {"train": {"daisy": 40}, "test": {"daisy": num_test}}
    out = redkiln("datasets", "check", "flowers").out
    assert told in out
    assert ("one right answer" in out) is bool(told)


def test_check_lists_all_copies_and_says_how(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder, "--name", "my flowers")
    fake.datasets["ds_1"]["warnings"] = [
        {
            "code": "copies_in_training",
            "message": "2 are equal. GET /v1/datasets/{id} lists all of them under `pairs`",
            "pairs": [["a/1.png", "a/0.png"], ["b/4.png", "b/3.png"]],
        }
    ]
    shown = redkiln("datasets", "check", "my flowers").out
    assert "equal. `redkiln datasets check 'my flowers' --pairs` lists all of them" in shown
    assert "a/1.png" not in shown
    listed = redkiln("datasets", "check", "my flowers", "--pairs").out
    assert "  a/1.png = a/0.png\n  b/4.png = b/3.png\n" in listed


def test_doubts_about_the_data_are_shown_on_the_card_and_by_check(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder)
    assert "flowers: no warnings" in redkiln("datasets", "check", "flowers").out
    message = "2 of 10 test images are equal to training images"
    fake.datasets["ds_1"]["warnings"] = [{"code": "copies_across_splits", "message": message}]
    for command in ("show", "check"):
        done = redkiln("datasets", command, "flowers")
        assert (done.code, f"warning: {message} (copies_across_splits)" in done.out) == (0, True)
    checked = redkiln("datasets", "check", "flowers", "--json").json
    assert (checked["id"], checked["warnings"][0]["code"]) == ("ds_1", "copies_across_splits")


def test_checking_an_invalid_set_shows_its_errors(redkiln, fake, image_folder):
    fake.dataset_errors = [{"code": "no_classes", "message": "has no classes", "path": None}]
    redkiln("datasets", "push", image_folder)
    assert "has no classes" in redkiln("datasets", "check", "flowers").out


def test_samples_are_listed_and_their_picture_is_saved(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder)
    done = redkiln("datasets", "samples", "flowers", "--class", "cat", "-n", "7")
    assert done.code == 0, done.err
    assert "cat, dog" in done.out
    assert Path("flowers-samples.png").read_bytes() == b"a picture"
    assert fake.sample_queries == [{"split": "train", "class": "cat", "limit": "7"}]
    found = redkiln("datasets", "samples", "flowers", "-o", "x/y.png", "--json").json
    assert (found["path"], len(found["samples"][0]["boxes"])) == ("x/y.png", 1)
    assert "boxes" in done.out
    fake.sample_boxes = None
    assert "boxes" not in redkiln("datasets", "samples", "flowers").out


def test_samples_of_a_table_are_its_rows(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder)
    fake.datasets["ds_1"] |= {"task": "tabular-classification", "target": "kind"}
    done = redkiln("datasets", "samples", "flowers", "-n", "3")
    assert done.code == 0, done.err
    assert done.out.split("\n")[0].split()[:3] == ["kind", "column", "0"]
    assert "spam" in done.out
    assert ("cell 5" in done.out, "cell 6" in done.out) == (True, False)
    assert "The first 6 of 8 columns are shown." in done.err
    assert fake.sample_queries == [{"split": "train", "limit": "3", "mixed": "true"}]
    found = redkiln("datasets", "samples", "flowers", "--json").json
    assert found["rows"][0]["cells"][6:] == ["cell 6", None]


def test_many_skipped_files_are_counted_after_the_first_ten(redkiln, fake):
    skipped = [
        {"code": "not_an_image", "message": "is empty", "path": f"cat/{n}.png"} for n in range(19)
    ]
    fake.datasets["ds_1"] = dataset("flowers", skipped=skipped, num_skipped=19)
    out = redkiln("datasets", "show", "flowers").out
    assert (out.count("is empty"), "\nand 9 more\n" in out) == (10, True)


def test_skipped_files_are_listed_once_with_their_reasons(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder)
    fake.datasets["ds_1"] |= {
        "notes": ["1 file cannot be used and was skipped: cat/1.png", "two sizes"],
        "skipped": [{"code": "not_an_image", "message": "is empty", "path": "cat/1.png"}],
        "num_skipped": 1,
    }
    out = redkiln("datasets", "show", "flowers").out
    assert "skipped cat/1.png: is empty" in out
    assert out.count("cat/1.png") == 1
    assert "note: two sizes" in out


def test_a_set_with_boxes_shows_how_many_of_which_size(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder)
    fake.datasets["ds_1"] |= {
        "task": "object-detection",
        "objects": {
            "annotation_format": "yolo",
            "boxes": {"train": {"cat": 1200, "dog": 3}, "test": {"cat": 40}},
            "sizes": {"cat": {"small": 1000, "medium": 240}, "dog": {"large": 3}},
            "num_crowds": 2,
            "images_without": {"train": 5, "test": 1},
        },
        "num_skipped": 2,
    }
    out = " ".join(redkiln("datasets", "show", "flowers").out.split())
    assert "train 1,203, test 40: cat 1,240, dog 3; 6 images without objects; 2 crowds, ig" in out
    assert (
        "1,000 below 32 x 32 pixels, 240 up to 96 x 96, 3 larger: cat 1,000/240/0, dog 0/0/3" in out
    )
    assert "2 items" in out
