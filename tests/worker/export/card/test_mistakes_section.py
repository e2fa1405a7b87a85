import numpy as np
import pytest
from PIL import Image

from redkiln.views.evaluation import EvaluationFile, Mistake, Tiles
from worker.export.card.mistakes_section import MOST_SHOWN, draw_mistakes, render_mistakes
from worker.trainer.insight.preview_picture import COLUMNS, SIDE


def content(*, num=2, tiles=None, **fields):
    mistakes = [
        Mistake(
            sample=number,
            true="cat|dog",
            predicted="bird",
            confidence=0.98 - number / 100,
            true_confidence=0.01,
            tile=None if tiles is None else number,
        )
        for number in range(num)
    ]
    facts = {"noun": "images", "classes": [], "num_samples": 1200, "per_class": [], **fields}
    return EvaluationFile.model_validate(
        {**facts, "num_mistakes": num, "num_listed": num, "tiles": tiles, "mistakes": mistakes}
    )


def test_the_section_names_truth_answer_and_probabilities():
    text = render_mistakes(content(), has_picture=True)
    assert "## Most confident mistakes" in text
    assert "2 of 1,200 test images" in text
    assert "](worst-mistakes.png)" in text
    assert "| 1 | test sample 0 | cat\\|dog | bird | 98.0% | 1.0% |" in text
    assert "| 2 | test sample 1 |" in text


def test_the_probability_of_several_labels_is_that_of_the_label_most_wrong():
    missed = Mistake(
        sample=3,
        true="cat, dog",
        predicted="cat",
        confidence=0.93,
        true_confidence=0.07,
        label="dog",
        label_probability=0.07,
    )
    found = content(has_labels=True).model_copy(update={"mistakes": [missed]})
    text = render_mistakes(found, has_picture=False)
    assert "| label most wrong | its probability |" in text
    assert "| 1 | test sample 3 | cat, dog | cat | dog | 7.0% |" in text


def test_only_the_worst_are_shown():
    text = render_mistakes(content(num=30), has_picture=False)
    assert f"| {MOST_SHOWN} |" in text
    assert f"| {MOST_SHOWN + 1} |" not in text
    assert "worst-mistakes" not in text


def test_a_model_without_mistakes_has_no_section(tmp_path):
    perfect = content(num=0)
    assert render_mistakes(perfect, has_picture=False) == ""
    assert not draw_mistakes(perfect, tmp_path / "mistakes.png", tmp_path / "worst.png")


@pytest.mark.parametrize(
    ("kind", "column"), [("has_boxes", "objects found"), ("has_masks", "mean IoU")]
)
def test_objects_and_masks_have_their_own_words(kind, column):
    text = render_mistakes(content(**{kind: True}), has_picture=False)
    assert "## Worst images" in text
    assert column in text
    assert "labels" not in text


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_the_picture_shows_the_tiles_of_the_worst_images(tmp_path, mode):
    levels = np.repeat(np.array([[40, 120, 200]], dtype=np.uint8), 8, axis=1).repeat(8, axis=0)
    Image.fromarray(levels).convert(mode).save(tmp_path / "mistakes.png")
    tiles = Tiles(name="mistakes.png", columns=3, side=8)
    path = tmp_path / "worst.png"
    assert draw_mistakes(content(num=3, tiles=tiles), tmp_path / "mistakes.png", path)
    with Image.open(path) as picture:
        width = picture.width // min(COLUMNS, 3)
        middle = [picture.getpixel((at * width + width // 2, SIDE // 2)) for at in range(3)]
    assert middle == [(level,) * 3 for level in (40, 120, 200)]
