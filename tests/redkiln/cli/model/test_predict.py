import json

import pytest
from PIL import Image

from tests.redkiln.fake_service import JOB_ID
from tests.redkiln.predict.models import (
    save_colours,
    save_detector,
    save_moods,
    save_prices,
    save_shares,
    write_shares,
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "redkiln" / "models"


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "red.png"
    Image.new("RGB", (6, 6), (250, 0, 90)).save(path)
    return path


@pytest.fixture
def published(fake, tmp_path):
    """The fake service's job has a real model."""
    folder = tmp_path / "published"
    save_moods(folder)
    kinds = {"model.onnx": "model", "manifest.json": "manifest", "tokenizer.json": "file"}
    fake.task = "text-classification"
    fake.files = {name: (kind, (folder / name).read_bytes()) for name, kind in kinds.items()}
    fake.files["report.md"] = ("report", b"# report")
    return fake


def test_a_table_shows_classes_and_scores(redkiln, photo, tmp_path):
    done = redkiln("predict", save_colours(tmp_path), "red.png", "--top", 2)
    lines = [line.split() for line in done.out.splitlines()]
    assert done.code == 0
    assert lines[0] == ["input", "class", "score"]
    assert lines[2] == ["red.png", "red", "99.3", "%"]
    assert lines[3] == ["blue", "0.7", "%"]


def test_a_registered_model_is_named_with_a_version(redkiln, fake, photo):
    fake.models = {"colours": {"latest": 2}}
    done = redkiln("predict", "colours", "red.png")
    assert (done.code, "colours is a registered model, not a job" in done.err) == (2, True)
    assert "colours@latest" in done.err
    assert "There is no job 'colors'" in redkiln("predict", "colors", "red.png").err


def test_json_holds_every_score_and_what_was_skipped(redkiln, photo, tmp_path):
    (tmp_path / "bad.png").write_text("no image")
    done = redkiln("predict", save_colours(tmp_path), "red.png", "bad.png", "--json")
    assert done.code == 7
    assert "Skipped bad.png: is not a JPEG" in done.err
    (one,) = done.json["predictions"]
    assert (one["input"], one["class"]) == ("red.png", "red")
    assert one["scores"] == [{"class": "red", "score": pytest.approx(0.9935, abs=1e-3)}]
    assert done.json["skipped"][0]["input"] == "bad.png"
    assert done.json["verified"] is True


def test_a_missing_input_among_several_is_named_and_the_others_are_predicted(
    redkiln, photo, tmp_path
):
    model = save_colours(tmp_path)
    done = redkiln("predict", model, "gone.png", "red.png", "--json")
    assert done.code == 7
    assert "Skipped gone.png: does not exist" in done.err
    assert [one["input"] for one in done.json["predictions"]] == ["red.png"]
    alone = redkiln("predict", model, "gone.png")
    assert (alone.code, "File or folder gone.png does not exist." in alone.err) == (2, True)
    done = redkiln("predict", model, "gone.png", "lost.png")
    assert (done.code, "None of the images can be used." in done.err) == (2, True)


def test_csv_has_one_line_for_each_input(redkiln, photo, tmp_path):
    done = redkiln("predict", save_colours(tmp_path), "red.png", "--csv", "--top", 3)
    head, line = done.out.splitlines()
    assert head == "input,class,score,class_2,score_2,class_3,score_3"
    assert line.startswith("red.png,red,0.99")


def test_a_regression_has_a_column_with_its_targets_name(redkiln, tmp_path):
    model = save_prices(tmp_path)
    rows = "rooms,built,colour\n2,,pink\n"
    done = redkiln("predict", model, "-", "--csv", stdin=rows)
    assert done.out == "input,price\nstdin:2,-800\n"
    assert "colour 'pink' (1)" in done.err
    assert "price" in redkiln("predict", model, "-", stdin=rows).out
    assert redkiln("predict", model, "-", "--json", stdin=rows).json["predictions"] == [
        {"input": "stdin:2", "value": -800.0}
    ]


def test_a_job_is_downloaded_once_with_what_its_model_needs(redkiln, published, cache):
    assert "happy" in redkiln("predict", "flowers", "so good").out
    names = {path.name for path in (cache / JOB_ID).iterdir()}
    assert names == {"model.onnx", "manifest.json", "tokenizer.json", ".complete"}
    asked = len(published.requests)
    assert "sad" in redkiln("predict", JOB_ID, "so bad").out
    assert len(published.requests) == asked


def test_an_interrupted_download_is_completed(redkiln, published, cache):
    redkiln("predict", "flowers", "good")
    (cache / JOB_ID / ".complete").unlink()
    (cache / JOB_ID / "tokenizer.json").unlink()
    assert redkiln("predict", "flowers", "good").code == 0


@pytest.mark.parametrize("named", ["flowers", JOB_ID])
@pytest.mark.parametrize("name", ["model.onnx", "manifest.json"])
def test_a_damaged_file_in_the_cache_is_downloaded_again(redkiln, published, cache, named, name):
    redkiln("predict", "flowers", "good")
    path = cache / JOB_ID / name
    content = path.read_bytes()
    path.write_bytes(content[:-20])
    assert redkiln("predict", named, "good").code == 0
    assert path.read_bytes() == content


def test_a_job_without_a_model_says_so(redkiln, fake):
    done = redkiln("predict", "flowers", "x")
    assert done.code == 2
    assert "has no model. A job that trains" in done.err


@pytest.mark.parametrize(
    ("is_verified", "words"),
    [
        (True, "its outputs are those that the script gave"),
        (False, f"It failed the job's check; the warning says why: redkiln job {JOB_ID}"),
        (None, "The job did not compare it with outputs of the script"),
    ],
)
@pytest.mark.parametrize("command", [("predict", "flowers", "x"), ("verify", "flowers")])
def test_the_model_of_a_script_is_refused_with_the_reason(
    redkiln, published, command, is_verified, words
):
    published.files = {"clf.onnx": ("model", b"model")}
    published.task, published.is_verified = "script", is_verified
    done = redkiln(*command)
    assert done.code == 2
    said = " ".join(done.err.split())
    assert f"clf.onnx of {JOB_ID} was written by a script, and only the script knows" in said
    assert f"(redkiln download {JOB_ID} clf.onnx)" in said
    assert words in said


def test_a_script_without_a_model_is_named_as_such(redkiln, published):
    published.files = {"notes.txt": ("file", b"")}
    published.task = "script"
    done = redkiln("predict", "flowers", "x")
    assert (done.code, "is a script that did not write an ONNX file" in done.err) == (2, True)


def test_an_unverified_model_is_announced(redkiln, photo, tmp_path):
    model = save_colours(tmp_path, manifest={"verification": {"verified": False}})
    assert "is UNVERIFIED" in redkiln("predict", model, "red.png").err


def test_nothing_usable_is_an_error(redkiln, tmp_path):
    model = save_colours(tmp_path)
    (tmp_path / "bad.png").write_text("no image")
    done = redkiln("predict", model, "bad.png", "--json")
    assert done.code == 2
    assert json.loads(done.out)["error"]["message"] == "None of the images can be used."
    assert redkiln("predict", model, "-", stdin="").code == 2
    assert redkiln("predict", model, "bad.png", "--json", "--csv").code == 2


def test_a_missing_library_names_the_extra(redkiln, photo, tmp_path, monkeypatch):
    model = save_colours(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    done = redkiln("predict", model, "red.png")
    assert done.code == 2
    assert "library onnxruntime is missing" in done.err
    assert "pip install 'redkiln[predict]'" in done.err


def test_a_cache_entry_is_kept_for_each_job(redkiln, published, cache):
    other = "job_zzzz6789abcdefghijklmn"
    published.job_names[other] = "trees"
    redkiln("predict", "flowers", "good")
    redkiln("predict", "trees", "good")
    assert {path.name for path in cache.iterdir()} == {JOB_ID, other}


def test_a_threshold_is_auto_or_a_probability(redkiln, tmp_path):
    chosen = {"class_name": "good", "probability": 0.25}
    path = save_shares(tmp_path, ["bad", "good"], manifest={"threshold": chosen})
    table = write_shares(tmp_path, [0.3])
    for options, answer in (((), "bad"), (("--threshold", "auto"), "good")):
        assert (
            redkiln("predict", path, table, "--json", *options).json["predictions"][0]["class"]
            == answer
        )
    assert "changes nothing" not in redkiln("predict", path, table, "--threshold", "auto").err
    done = redkiln("predict", path, table, "--threshold", "1.5")
    assert (done.code, "write `auto`, or a probability" in done.err) == (2, True)


def test_a_threshold_of_a_half_is_said_to_change_nothing(redkiln, tmp_path):
    chosen = {"class_name": "good", "probability": 0.5}
    path = save_shares(tmp_path, ["bad", "good"], manifest={"threshold": chosen})
    done = redkiln("predict", path, write_shares(tmp_path, [0.3]), "--threshold", "auto")
    assert (done.code, "--threshold auto changes nothing: the job found" in done.err) == (0, True)
    done = redkiln("predict", path, write_shares(tmp_path, [0.3]))
    assert "changes nothing" not in done.err


@pytest.fixture
def detector(tmp_path):
    Image.new("RGB", (40, 20), (200, 200, 200)).save(tmp_path / "wide.png")
    Image.new("RGB", (20, 20)).save(tmp_path / "dark.png")
    return save_detector(tmp_path)


def test_boxes_are_listed_in_pixels_of_the_image(redkiln, detector):
    done = redkiln("predict", detector, "wide.png", "dark.png", "--threshold", 0.2)
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[2] == ["wide.png", "moon", "39.2", "%", "0,", "0,", "40,", "20"]
    assert lines[3] == ["dark.png", "nothing", "found"]
    said = "Nothing in 1 of 2 images has a score of at least 20.0 %. --threshold sets another one."
    assert said in done.err
    assert "at least 50.0 %" in redkiln("predict", detector, "dark.png").err  # the file's own
    done = redkiln("predict", detector, "wide.png", "dark.png", "--threshold", 0.2, "--csv")
    assert done.out.splitlines()[0] == "input,class,score,left,top,right,bottom"
    assert done.out.splitlines()[1].startswith("wide.png,moon,0.39")
    assert done.out.splitlines()[2] == "dark.png,,,,,,"
    done = redkiln("predict", detector, "wide.png", "--threshold", 0.2, "--json")
    (one,) = done.json["predictions"]
    assert one["boxes"] == [{"class": "moon", "score": pytest.approx(0.392, abs=1e-3),
                             "box": [0, 0, 40, 20]}]  # fmt: skip


def test_boxes_are_drawn_into_a_folder(redkiln, detector, tmp_path):
    done = redkiln("predict", detector, "wide.png", "--draw", "drawn", "--threshold", 0.2)
    assert done.code == 0
    assert "The drawings are in drawn/" in done.err
    with Image.open(tmp_path / "drawn" / "wide.png") as drawn:
        assert drawn.size == (40, 20)
        assert len(drawn.getcolors()) > 1


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--threshold", 0.5), "--threshold applies only to models that choose one of two"),
        (("--draw", "drawn"), "--draw is for models that find boxes"),
    ],
)
def test_options_of_other_models_are_refused(redkiln, photo, tmp_path, option, said):
    done = redkiln("predict", save_colours(tmp_path), "red.png", *option)
    assert done.code == 2
    assert said in done.err
