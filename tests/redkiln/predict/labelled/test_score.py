import io
from types import SimpleNamespace

import pytest
from PIL import Image

from redkiln.errors import ModelError
from redkiln.predict.labelled.score import score_data
from redkiln.predict.labelled.several import read_labels
from redkiln.predict.model import Model
from tests.redkiln.predict.models import save_channels, save_colours, save_moods, save_prices


def score(path, data, *, stdin=b"", **options):
    return score_data(
        Model(path, threads=1), str(data), stdin=io.BytesIO(stdin), max_drop=0.01, **options
    )


@pytest.fixture
def shades(tmp_path):
    """20 images whose folder names their colour, but for 4 of them."""
    for number in range(20):
        name, shade = ("red", (200, 0, 0)) if number % 2 else ("blue", (0, 0, 200))
        folder = tmp_path / "data" / (name if number > 3 else "green")
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), shade).save(folder / f"{number}.png")
    return tmp_path / "data"


def test_a_folder_of_classes_is_scored_with_an_interval(tmp_path, shades):
    found = score(save_colours(tmp_path), shades)
    assert (found.metric, found.num_samples, found.recorded) == (0.8, 20, None)
    assert found.interval == pytest.approx((0.584, 0.919), abs=1e-3)
    assert found.miss is None


@pytest.mark.parametrize(
    ("recorded", "interval", "is_missed", "doubted"),
    [
        (0.95, None, True, None),
        (0.9, None, False, "data"),
        (0.805, None, False, None),
        (0.7, [0.6, 0.79], False, None),
        (0.99, [0.93, 1.0], True, None),
        (0.99, [0.9, 1.0], False, "recorded"),  # the job's own test split was small
        (0.9, [0.85, 1.0], False, "data"),
        (0.85, [0.75, 0.95], False, None),
    ],
)
def test_only_what_chance_does_not_explain_is_a_miss(
    tmp_path, shades, recorded, interval, is_missed, doubted
):
    manifest = {"metrics": {"test/accuracy": recorded}}
    if interval is not None:
        manifest["intervals"] = {"test/accuracy": interval}
    found = score(save_colours(tmp_path, manifest=manifest), shades)
    assert (bool(found.miss), found.doubted) == (is_missed, doubted)
    assert not is_missed or "accuracy is 0.8 (95 % interval 0.584" in found.miss


RARE = {
    "comparison": {"metric": "test/macro_f1"},
    "metrics": {"test/macro_f1": 0.9, "test/accuracy": 0.99},
    "intervals": {"test/macro_f1": [0.8, 0.95]},
}


def test_a_model_of_a_rare_class_is_scored_by_macro_f1_as_in_its_report(tmp_path):
    for number in range(60):
        # 3 of 60 are blue, of which the model finds one.
        name, shade = ("blue", (0, 0, 200)) if not number else ("red", (200, 0, 0))
        folder = tmp_path / "data" / (name if number > 2 else "blue")
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), shade).save(folder / f"{number}.png")
    found = score(save_colours(tmp_path, manifest=RARE), tmp_path / "data")
    assert (found.metric_name, found.recorded) == ("macro_f1", 0.9)
    assert found.metric == pytest.approx((2 * 57 / 116 + 2 / 4) / 2)
    assert found.interval[0] < found.metric < found.interval[1]
    assert found.interval[1] - found.interval[0] > 0.2
    assert (found.accuracy, found.largest_share) == (58 / 60, 57 / 60)
    plain = score(save_colours(tmp_path), tmp_path / "data")
    assert (plain.metric_name, plain.accuracy) == ("accuracy", None)


@pytest.mark.parametrize("cell", ["red, green", "green;red", "red;green;"])
def test_labels_are_read_with_the_separator_of_the_training_or_the_usual_one(cell):
    known = SimpleNamespace(preprocessing={"labels_separator": ","}, classes=["red", "green"])
    assert read_labels(cell, known) == {"red", "green"}
    with pytest.raises(ValueError, match="'mauve' is not a class"):
        read_labels("red,mauve", known)


def test_unknown_classes_and_broken_images_are_skipped_by_name(tmp_path, shades):
    (shades / "red" / "bad.png").write_text("no image")
    (shades / "green").rename(shades / "mauve")
    found = score(save_colours(tmp_path), shades)
    assert (found.metric, found.num_samples) == (1.0, 16)
    reasons = {one.reason for one in found.skipped}
    assert "'mauve' is not a class of the model (red, green, blue)" in reasons
    assert len(found.skipped) == 5


def test_folders_below_a_class_belong_to_it_and_hidden_ones_do_not_count(tmp_path, shades):
    for split in ("train", "test"):
        (shades / split / "blue").mkdir(parents=True)
    (shades / "blue").rename(shades / "test" / "blue" / "left")
    (shades / "red").rename(shades / "train" / "red")
    (shades / "green").rename(shades / "train" / "mauve")
    (shades / "train" / ".thumbs").mkdir()
    Image.new("RGB", (4, 4)).save(shades / "train" / ".thumbs" / "a.png")
    found = score(save_colours(tmp_path), shades)
    assert (found.metric, found.num_samples) == (1.0, 16)
    assert {one.reason.partition(" of the")[0] for one in found.skipped} == {
        "'train/mauve' is not a class"
    }


def test_a_table_is_scored_by_its_target(tmp_path):
    model = save_prices(tmp_path, manifest={"metrics": {"test/rmse": 5.0}})
    table = b"rooms,built,colour,price\n1,,white,110\n2,,white,190\n3,,white,many\nx,,white,1\n"
    found = score(model, "-", stdin=table)
    assert (found.metric, found.num_samples, found.metric_name) == (10.0, 2, "rmse")
    assert [one.reason for one in found.skipped] == [
        "column price: 'many' is not a number",
        "column rooms: 'x' is not a number",
    ]
    assert "the rmse is 10" in found.miss


def test_a_target_is_read_as_the_training_table_writes_it(tmp_path):
    model = save_prices(tmp_path, target_written={"unit": "€", "decimal": ","})
    prices = ["€110,00", "1.190,0", "€90.0", "unknown", "$5"]
    text = "\n".join(["rooms;built;colour;price", *(f"1;;white;{price}" for price in prices)])
    opened = Model(model, threads=1)
    found = score_data(opened, "-", stdin=io.BytesIO(text.encode()), max_drop=0.01)
    assert (found.num_samples, found.metric) == (
        3,
        pytest.approx(((100 + 1090**2 + 100) / 3) ** 0.5),
    )
    in_euros = "the training table has numbers in €, so convert it"
    assert [(one.name, one.reason) for one in found.skipped] == [
        ("stdin:5", "column price has no value, so the prediction cannot be scored"),
        ("stdin:6", f"column price: '$5' is not a number; {in_euros}"),
    ]
    assert any("stdin:4, column price: '€90.0' was read as 90" in one for one in opened.notes)


def test_a_column_of_answers_that_is_named_is_not_noted_as_unknown(tmp_path):
    model = Model(save_prices(tmp_path, ignored=["price"]), threads=1)
    table = io.BytesIO(b"rooms,built,colour,paid,other\n1,1/1/2000,white,110,x\n")
    score_data(model, "-", stdin=table, max_drop=0.01, target="paid")
    (note,) = model.notes
    assert "not read: other (stdin:2). If" in note


def test_a_number_in_json_is_a_target_as_it_is(tmp_path):
    model = save_prices(tmp_path, target_written={"unit": "", "decimal": ","})
    row = b'{"rooms": 1, "built": null, "colour": "white", "price": 1.234}\n'
    assert score(model, "-", stdin=row).metric == pytest.approx(98.766)


def test_a_label_outside_the_columns_of_labels_csv_is_refused_with_its_row(tmp_path, shades):
    model = save_channels(tmp_path / "model")
    (shades / "labels.csv").write_text("file,labels\nred/5.png,red\nred/7.png,red,blue\n")
    message = (
        r"labels\.csv, line 3: the row has 'blue' outside .*, as \"red;blue\" in double quotes"
    )
    with pytest.raises(ModelError, match=message):
        score(model, shades)


def test_the_columns_of_labels_csv_are_found_by_the_file_names(tmp_path, shades):
    model = save_channels(tmp_path / "model")
    rows = "\n".join(f"red/{number}.png;red" for number in range(5, 20, 2))
    (shades / "labels.csv").write_text(f"Datei;Kategorien\n{rows}\n")
    assert score(model, shades).num_samples == 8
    (shades / "labels.csv").write_text(f"{rows}\n")
    with pytest.raises(ModelError, match=r"the first line has the file red/5\.png; add"):
        score(model, shades)


def test_columns_of_marks_in_labels_csv_are_labels_as_in_training(tmp_path, shades):
    model = save_channels(tmp_path / "model")
    rows = "\n".join(f"red/{number}.png,x,-" for number in range(5, 20, 2))
    (shades / "labels.csv").write_text(f"file,red,blue\n{rows}\n")
    by_marks = score(model, shades)
    (shades / "labels.csv").write_text(f"file,labels\n{rows}\n".replace(",x,-", ",red"))
    assert (by_marks.num_samples, by_marks.metric) == (8, score(model, shades).metric)


def test_names_in_labels_csv_may_differ_in_capitals_as_in_training(tmp_path, shades):
    model = save_channels(tmp_path / "model")
    rows = "\n".join(f"RED/{number}.PNG,red" for number in range(5, 20, 2))
    (shades / "labels.csv").write_text(f"file,labels\n{rows}\n")
    assert score(model, shades).num_samples == 8


def test_labels_csv_may_name_files_without_ending_and_the_labels_by_a_target(tmp_path, shades):
    model = save_channels(tmp_path / "model")
    rows = "\n".join(f"{number},7,red" for number in range(5, 20, 2))
    (shades / "labels.csv").write_text(f"id,weight,colour\n{rows}\n")
    assert score(model, shades, target="colour").num_samples == 8
    with pytest.raises(ModelError, match=r"which has the labels; .*--target COLUMN"):
        score(model, shades)


def test_a_table_of_texts_needs_the_column_with_the_answers(tmp_path):
    path = tmp_path / "mail.csv"
    path.write_text("message,feeling\ngood,happy\nbad,happy\n")
    model = save_moods(tmp_path / "model")
    with pytest.raises(ModelError, match="Its columns are message, feeling; name the one"):
        score(model, path)
    with pytest.raises(
        ModelError, match=r"no column feling; did you mean 'feeling'\? Its columns are"
    ):
        score(model, path, target="feling")
    assert score(model, path, target="feeling").metric == 0.5


def test_data_without_usable_samples_are_refused(tmp_path):
    with pytest.raises(ModelError, match="No sample of - can be used: column rooms"):
        score(save_prices(tmp_path), "-", stdin=b"rooms,built,colour,price\nx,,,1\n")
