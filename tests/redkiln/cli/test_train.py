import json
import shutil
from pathlib import Path

import pytest

JOB_ID = "job_0123456789abcdefghijkl"


def test_a_folder_becomes_a_model_in_out(redkiln, fake, image_folder):
    done = redkiln("train", image_folder, "--model", "resnet18", "--set", "training.epochs=3")
    assert done.code == 0
    assert fake.submitted[0][0] == {
        "dataset": "ds_1",
        "model": "resnet18",
        "training": {"epochs": 3},
    }
    assert Path("out/flowers/model.onnx").stat().st_size == 95000
    assert json.loads(Path("out/flowers/job.json").read_text())["id"] == JOB_ID
    assert "test accuracy" in done.out
    assert "97.8 %" in done.out
    assert "out/flowers/" in done.out
    assert "60 images in 2 classes" in done.err


def test_a_folder_under_a_root_is_registered_in_place(redkiln, fake, image_folder):
    fake.roots = [image_folder.parent]
    assert redkiln("train", image_folder).code == 0
    assert fake.uploads == []
    assert fake.datasets["ds_1"]["path"] == str(image_folder)


def test_a_folder_outside_the_roots_is_uploaded(redkiln, fake, image_folder):
    assert redkiln("train", image_folder).code == 0
    assert len(fake.uploads) == 1


def test_a_folder_of_results_is_not_taken_for_a_data_set(redkiln, fake, image_folder):
    assert redkiln("train", image_folder, "-o", "roses").code == 0
    done = redkiln("train", "roses")
    assert done.code == 2
    assert f"roses is a folder with the results of {JOB_ID}, not a data set." in done.err
    fake.datasets["ds_1"]["name"] = "roses"
    assert redkiln("train", "roses", "--detach").code == 0
    assert fake.submitted[-1][0]["dataset"] == "ds_1"
    assert len(fake.uploads) == 1


def test_a_builtin_set_needs_no_upload(redkiln, fake):
    assert redkiln("train", "builtin:digits", "-o", "here").code == 0
    assert fake.submitted[0][0] == {"dataset": "builtin:digits"}
    assert Path("here/model.onnx").exists()


def test_a_refused_data_set_is_explained_file_by_file(redkiln, fake, image_folder):
    fake.dataset_errors = [{"code": "x", "message": "is no image", "path": "daisy/0.png"}]
    done = redkiln("train", image_folder)
    assert done.code == 2
    assert "data set flowers is invalid" in done.err
    assert "daisy/0.png: is no image" in done.err
    assert fake.submitted == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: None, "There is no file, folder or pushed data set thing."),
        (lambda p: p.mkdir(), "is empty."),
        (lambda p: (p.mkdir(), (p / "a.pdf").touch()), "no images or tables, only 1 .pdf."),
        (lambda p: (p.mkdir(), (p / "a.png").touch()), "has 1 image but no class folders"),
        (lambda p: p.write_text("x"), "is not a zip or tar"),
    ],
)
def test_data_that_cannot_be_trained_on_is_refused_before_anything_is_sent(
    redkiln, fake, make, words
):
    make(Path("thing"))
    done = redkiln("train", "thing")
    assert done.code == 2
    assert words in done.err
    assert not any(method == "POST" for method, _, _ in fake.requests)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("motorbike.csv", "data set motorbike.csv; did you mean motorbikes.csv?"),
        ("deep/motorbike.csv", "did you mean deep/motorbikes.csv?"),
        ("no/motorbike.csv", "These can be trained on:"),
        ("boats.csv", "These can be trained on:"),
    ],
)
def test_a_path_that_is_nearly_right_gets_the_right_one_suggested(redkiln, typed, words):
    Path("deep").mkdir()
    for folder in (".", "deep"):
        Path(folder, "motorbikes.csv").write_text("a,b\n1,2\n")
    done = redkiln("train", typed)
    assert (done.code, words in " ".join(done.err.split())) == (2, True)
    assert ("did you mean" in done.err) != ("These can be trained on" in done.err)
    assert all(len(line) <= 80 for line in done.err.splitlines()[1:])


@pytest.mark.parametrize("name", ["labels.csv", "annotations.json", "0.txt", "0.xml"])
def test_images_without_class_folders_are_sent_if_a_file_may_label_them(redkiln, fake, name):
    Path("thing").mkdir()
    for file in ("0.png", name):
        Path("thing", file).touch()
    redkiln("train", "thing")
    assert any(method == "POST" for method, _, _ in fake.requests)


def test_an_unverified_model_is_downloaded_and_reported(redkiln, fake):
    fake.is_verified = False
    done = redkiln("train", "builtin:digits")
    assert done.code == 5
    assert "UNVERIFIED" in done.out
    assert Path("out/flowers/model.onnx").exists()


def test_results_of_another_job_are_never_mixed_in(redkiln):
    Path("out/flowers").mkdir(parents=True)
    Path("out/flowers/job.json").write_text('{"id": "job_other"}')
    redkiln("train", "builtin:digits")
    assert Path(f"out/flowers-{JOB_ID[-6:]}/model.onnx").exists()


def test_a_failed_job_leaves_no_files_and_sets_the_exit_status(redkiln, fake):
    fake.status = "failed"
    assert redkiln("train", "builtin:digits").code == 1
    assert not Path("out").exists()


def test_in_json_the_last_line_is_the_result(redkiln):
    done = redkiln("train", "builtin:digits", "--json")
    last = done.lines[-1]
    assert (last["type"], last["verified"], last["status"]) == ("result", True, "succeeded")
    assert "out/flowers/model.onnx" in last["files"]


def test_ctrl_c_says_how_to_return_to_the_job(redkiln, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("redkiln.cli.train.follow_job", interrupt)
    done = redkiln("train", "builtin:digits")
    assert done.code == 130
    assert f"redkiln watch {JOB_ID}" in done.err
    assert f"redkiln download {JOB_ID}" in done.err


def test_ctrl_c_while_the_data_is_validated_is_an_interrupt(redkiln, image_folder, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("redkiln.client.Client.wait_dataset", interrupt)
    done = redkiln("train", image_folder)
    assert done.code == 130
    assert done.err.splitlines()[-1] == "Interrupted."


def test_training_on_a_spec_file_says_to_submit_it(redkiln):
    Path("job.yaml").write_text("dataset: flowers")
    done = redkiln("train", "job.yaml")
    assert done.code == 2
    assert "redkiln submit job.yaml --watch" in done.err


def test_a_table_is_sent_with_its_options(redkiln, fake):
    Path("houses.csv").write_text("rooms,price\n1,2\n")
    done = redkiln("train", "houses.csv", "--target", "price", "--column", "rooms=categorical")
    assert done.code == 0
    assert fake.uploads[0][:2] == ("houses", "text/csv")
    assert fake.upload_queries[0] == [
        ("name", "houses"), ("target", "price"), ("column", "rooms=categorical"),
    ]  # fmt: skip
    wrong = redkiln("train", "houses.csv", "--column", "rooms")
    assert (wrong.code, "NAME=TYPE" in wrong.err) == (2, True)
    builtin = redkiln("train", "builtin:iris", "--target", "species")
    assert "Remove --target" in builtin.err


def test_the_end_repeats_which_columns_of_a_table_were_not_used(redkiln, fake):
    fake.task, fake.results = "tabular-classification", {"test/accuracy": 0.9}
    Path("houses.csv").write_text("rooms,note,price\n1,x,2\n")
    assert redkiln("train", "houses.csv", "--detach").code == 0
    assert "not used" not in redkiln("watch", JOB_ID).out
    message = "columns that are not used: note: why; to use one, column=note=categorical"
    fake.datasets["ds_1"]["warnings"] = [{"code": "dropped_columns", "message": message}]
    lines = redkiln("watch", JOB_ID).out.splitlines()
    told = [line.split(maxsplit=2)[2] for line in lines if line.startswith("  not used")]
    assert told == ["note: why; to use one, --column note=categorical"]
    fake.datasets.clear()
    assert redkiln("watch", JOB_ID).code == 0


def test_the_usual_settings_are_options(redkiln, fake):
    options = ("--epochs", "3", "--lr", "0.01", "--name", "mine", "--seed", "7", "--device", "cpu",
               "--quality", "fast")  # fmt: skip
    assert redkiln("train", "builtin:digits", *options, "--set", "training.seed=8").code == 0
    assert fake.submitted[0][0] == {
        "dataset": "builtin:digits",
        "name": "mine",
        "quality": "fast",
        "training": {"epochs": 3, "optimizer": {"lr": 0.01}, "seed": 8},
        "resources": {"device": "cpu"},
    }


def test_a_wrong_option_is_named_in_the_error(redkiln, fake):
    done = redkiln("train", "builtin:digits", "--epochs", "0")
    assert done.code == 2
    assert "--epochs  /training/epochs:" in done.err


def test_a_pushed_data_set_is_trained_on_by_its_name(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder, "--name", "blumen")
    assert redkiln("train", "blumen").code == 0
    assert fake.submitted[0][0] == {"dataset": "ds_1"}
    assert len(fake.uploads) == 1
    again = redkiln("train", "blumen", "--target", "kind")
    assert (again.code, "blumen is already pushed" in again.err) == (2, True)


def test_a_folder_here_comes_before_a_pushed_data_set_of_its_name(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder, "--name", "thing")
    Path("thing").mkdir()
    assert "thing is empty." in redkiln("train", "thing").err


def test_options_that_only_the_pushed_data_set_has_are_named(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder, "--name", "trays")
    shutil.copytree(image_folder, "trays")
    assert "without options" not in redkiln("train", "trays").err
    fake.datasets["ds_1"]["options"] = {"labels_separator": ","}
    notes = " ".join(redkiln("train", "trays").err.split())
    assert "data set trays was pushed with labels_separator ','" in notes
    assert "To train on that one: redkiln train ds_1" in notes


def test_a_detached_job_is_queued_and_nothing_is_downloaded(redkiln):
    done = redkiln("train", "builtin:digits", "--detach")
    assert (done.code, Path("out").exists()) == (0, False)
    assert f"queued flowers as {JOB_ID}" in done.out
    assert f"redkiln watch {JOB_ID}" in done.err


def test_a_dry_run_of_training_prints_the_spec_and_queues_nothing(redkiln, fake):
    done = redkiln("train", "builtin:digits", "--epochs", "3", "--dry-run")
    assert done.code == 0
    assert "epochs: 3" in done.out
    assert fake.submitted == []


def test_a_dry_run_with_data_says_what_their_name_means_now(redkiln, fake, image_folder):
    done = redkiln("train", image_folder, "--dry-run")
    assert fake.submitted == []
    assert "No job was queued. The data set flowers now means these data" in done.err
    assert "redkiln datasets delete ds_1" in done.err
    assert "No job was queued" not in redkiln("train", "ds_1", "--dry-run").err


def test_doubts_about_the_data_are_shown_before_training(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder)
    message = "2 of 10 test images are equal to training images"
    fake.datasets["ds_1"]["warnings"] = [{"code": "copies_across_splits", "message": message}]
    assert f"warning: {message}" in redkiln("train", "flowers").err
