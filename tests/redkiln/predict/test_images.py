import io

import numpy as np
import pytest
from PIL import Image

from redkiln.errors import ModelError
from redkiln.predict import images
from redkiln.predict.images import feed_pixels
from redkiln.predict.items import Skipped
from redkiln.predict.model import Model
from tests.redkiln.predict.models import COLOURS, save_colours

SHADES = {"red": (250, 10, 20), "green": (10, 240, 30), "blue": (0, 0, 200)}


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    (folder / "deep").mkdir(parents=True)
    for name, shade in SHADES.items():
        Image.new("RGB", (9, 7), shade).save(folder / "deep" / f"{name}.png")
    (folder / "notes.txt").write_text("not an image, not named like one")
    return folder


def png(colour):
    buffer = io.BytesIO()
    Image.new("RGB", (5, 5), SHADES[colour]).save(buffer, "PNG")
    return buffer.getvalue()


def test_images_of_a_folder_are_predicted_in_order(predict, photos, tmp_path):
    found = predict(save_colours(tmp_path), photos)
    assert found == {str(photos / "deep" / f"{name}.png"): name for name in sorted(COLOURS)}
    assert not predict.skipped


def test_an_image_without_a_suffix_is_found_by_its_content(predict, photos, tmp_path):
    red = photos / "deep" / "red.png"
    red.rename(red.with_name("DSC41266"))
    (photos / ".hidden").write_bytes(png("red"))
    found = predict(save_colours(tmp_path), photos)
    assert found[str(photos / "deep" / "DSC41266")] == "red"
    assert len(found) == len(COLOURS)
    assert not predict.skipped


def test_a_row_is_refused_by_a_model_of_images(tmp_path):
    with pytest.raises(ModelError, match="row 1 has the columns a, but the model reads images"):
        list(Model(save_colours(tmp_path)).predict([{"a": 1}]))


def test_probabilities_are_sorted_and_sum_to_one(photos, tmp_path):
    model = Model(save_colours(tmp_path))
    (one,) = model.predict([photos / "deep" / "red.png"])
    assert [name for name, _ in one.scores] == ["red", "blue", "green"]
    assert sum(score for _, score in one.scores) == pytest.approx(1)
    (one,) = model.predict([photos / "deep" / "red.png"], top=2)
    assert len(one.scores) == 2


def test_patterns_and_single_files_are_found(predict, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(photos)
    model = save_colours(tmp_path)
    assert list(predict(model, "deep/*e*.png").values()) == ["blue", "green", "red"]
    assert predict(model, "deep/red.png") == {"deep/red.png": "red"}
    with pytest.raises(ModelError, match=r"\*\.bmp matches no file"):
        predict(model, "*.bmp")
    with pytest.raises(ModelError, match=r"File or folder gone\.png does not exist"):
        predict(model, "gone.png")


def test_of_several_inputs_those_that_do_not_exist_are_skipped(photos, tmp_path):
    red = photos / "deep" / "red.png"
    (tmp_path / "empty").mkdir()
    gone = [tmp_path / "gone.png", str(tmp_path / "*.bmp"), tmp_path / "empty"]
    answers = list(Model(save_colours(tmp_path)).predict([gone[0], red, *gone[1:]]))
    assert [one.name for one in answers] == list(map(str, [gone[0], red, *gone[1:]]))
    reasons = [one.reason for one in answers if isinstance(one, Skipped)]
    assert reasons[:2] == ["does not exist", "matches no file"]
    assert "contains no images" in reasons[2]


def test_stdin_is_an_image_or_a_list_of_paths(predict, photos, tmp_path):
    model = save_colours(tmp_path)
    assert predict(model, "-", stdin=png("green")) == {"stdin": "green"}
    path = photos / "deep" / "blue.png"
    assert predict(model, "-", stdin=f"{path}\n\n".encode()) == {str(path): "blue"}
    with pytest.raises(ModelError, match="neither an image"):
        predict(model, "-", stdin=b"\xff\xfe\x00\x01")


def test_broken_images_are_skipped_by_name_and_the_rest_is_predicted(predict, photos, tmp_path):
    (photos / "a.png").write_text("no image")
    (photos / "b.png").write_bytes(png("red")[:50])
    found = predict(save_colours(tmp_path), photos)
    assert list(found.values()) == ["blue", "green", "red"]
    assert set(predict.skipped) == {str(photos / "a.png"), str(photos / "b.png")}
    assert "is not a JPEG, PNG" in predict.skipped[str(photos / "a.png")]


def test_a_file_of_another_format_is_named_with_what_to_do(predict, photos, tmp_path):
    (photos / "a.jpg").write_bytes(b"\0\0\0\x18ftypheic")
    predict(save_colours(tmp_path), photos)
    words = "is a HEIC file; convert it to JPEG, PNG, WebP, GIF, BMP or TIFF"
    assert predict.skipped == {str(photos / "a.jpg"): words}


@pytest.mark.parametrize(
    ("mode", "what"), [("F", "floating-point pixels"), ("LAB", "pixels in L*a*b*")]
)
def test_pixels_that_a_data_set_may_not_have_are_skipped(predict, tmp_path, mode, what):
    Image.new(mode, (4, 4)).save(tmp_path / "a.tif")
    assert not predict(save_colours(tmp_path), tmp_path / "a.tif")
    (reason,) = predict.skipped.values()
    assert reason == f"has {what}; convert it to RGB or grey with 8 bits"


def test_a_listed_file_that_does_not_exist_is_skipped(predict, tmp_path):
    assert predict(save_colours(tmp_path), "-", stdin=b"gone.png\n") == {}
    assert predict.skipped == {"gone.png": "No such file or directory"}


def test_an_image_with_too_many_pixels_is_skipped(predict, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(images, "MAX_PIXELS", 10)
    assert predict(save_colours(tmp_path), photos / "deep" / "red.png") == {}
    assert "9 x 7 pixels are more than 10" in next(iter(predict.skipped.values()))


def test_a_folder_without_images_says_what_it_looked_for(predict, tmp_path):
    (tmp_path / "notes").write_text("no image")
    with pytest.raises(ModelError, match=r"contains no images \(JPEG, PNG, .*TIFF\)"):
        predict(save_colours(tmp_path / "model"), tmp_path)


def test_pixels_become_planes_from_zero_to_one():
    pixels = np.arange(2 * 3 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3, 3)
    (planes,) = feed_pixels(pixels).values()
    assert planes.shape == (2, 3, 3, 3)
    assert planes.dtype == np.float32
    assert planes.flags.c_contiguous
    np.testing.assert_array_equal(planes[1, 2], pixels[1, :, :, 2].astype(np.float32) / 255)
