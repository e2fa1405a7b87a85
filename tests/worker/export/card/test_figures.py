from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from worker import fonts
from worker.checkpoints.history import History
from worker.export.card.figures import (
    LOOKS,
    draw_confusion,
    draw_curves,
    draw_predictions,
    use_quiet_backend,
)
from worker.export.target import CurveStyle
from worker.fonts import find_fonts

ACCURACY = CurveStyle("val/accuracy", "accuracy", is_share=True)
ERROR = CurveStyle("val/rmse", "error", is_share=False)


@pytest.fixture(autouse=True)
def quiet(tmp_path):
    use_quiet_backend(tmp_path)


@pytest.fixture
def axes(monkeypatch):
    """The axes of the figures that are drawn, kept when they are closed."""
    from matplotlib import pyplot as plt

    kept = []
    monkeypatch.setattr(plt, "close", lambda figure: kept.extend(figure.axes))
    return kept


@pytest.mark.parametrize("accuracies", [[1.0, 1.0], [0.5, 0.98, 1.0], [0.1, 0.2]])
def test_an_accuracy_axis_ends_just_above_one(tmp_path, axes, accuracies):
    history = History()
    for epoch, accuracy in enumerate(accuracies, start=1):
        history.add("train/loss", 10 * epoch, 1 / epoch)
        history.add("val/loss", 10 * epoch, 1 / epoch)
        history.add("val/accuracy", 10 * epoch, accuracy)
    path = tmp_path / "curves.png"
    draw_curves(history, path, title="t", best_step=10, steps_per_epoch=10, metric=ACCURACY)
    low, high = axes[1].get_ylim()
    assert max(axes[1].get_yticks()) <= 1
    assert low < min(accuracies)
    assert max(accuracies) < high < 1.05
    with Image.open(path) as image:
        assert image.width > image.height > 300


def lightness(colour):
    """How light a colour is in grey print, from 0 to 1."""
    from matplotlib.colors import to_rgb

    return float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)))


def test_training_and_validation_differ_in_line_and_in_grey_print(tmp_path, axes):
    history = History()
    for step in (1, 2):
        history.add("train/loss", step, 1 / step)
        history.add("val/loss", step, 1 / step)
    path = tmp_path / "curves.png"
    draw_curves(history, path, title="t", best_step=1, steps_per_epoch=1, metric=ACCURACY)
    training, validation, best = axes[0].get_lines()
    assert lightness(training.get_color()) > lightness(validation.get_color()) + 0.2
    assert len({line.get_linestyle() for line in (training, validation)}) == 2
    assert best.get_label() == "best epoch"


def test_curves_of_the_same_line_differ_in_grey_print():
    for line in {line for _, line in LOOKS}:
        greys = sorted(lightness(colour) for colour, other in LOOKS if other == line)
        assert all(lighter - darker > 0.09 for darker, lighter in pairwise(greys))


def test_a_confusion_matrix_of_many_classes_is_drawn_without_labels(tmp_path, axes):
    num = 70
    classes = [f"class {n}" for n in range(num)]
    draw_confusion(np.eye(num, dtype=np.int64), classes, tmp_path / "c.png", title="t")
    assert axes[0].get_images()[0].get_array().shape == (num, num)
    assert "class 1" not in [label.get_text() for label in axes[0].get_xticklabels()]


def test_class_names_are_drawn_with_a_font_that_has_their_characters(tmp_path, monkeypatch):
    stix = find_fonts([])[0].parent / "STIXGeneral.ttf"
    monkeypatch.setattr(fonts, "_list_fonts", lambda: [stix])
    # matplotlib warns of each character that no font has, and warnings are errors here.
    names = ["crème", "\u2312"]
    draw_confusion(np.eye(2, dtype=np.int64), names, tmp_path / "c.png", title="ő")
    with pytest.warns(UserWarning, match="missing from font"):
        draw_confusion(
            np.eye(2, dtype=np.int64), ["a", "\U000f0000"], tmp_path / "d.png", title="t"
        )


def test_an_error_is_drawn_in_its_own_unit(tmp_path, axes):
    history = History()
    for epoch, error in enumerate([300.0, 200.0, 250.0], start=1):
        history.add("train/loss", 10 * epoch, 1 / epoch)
        history.add("val/rmse", 10 * epoch, error)
    path = tmp_path / "curves.png"
    draw_curves(history, path, title="t", best_step=20, steps_per_epoch=10, metric=ERROR)
    assert [text.get_text() for text in axes[1].texts] == ["200"]
    assert axes[1].get_ylim()[1] > 250


@pytest.mark.parametrize("num", [1, 40, 5000])
def test_predictions_are_drawn_on_equal_axes(tmp_path, axes, num):
    targets = np.linspace(10, 20, num)
    path = tmp_path / "p.png"
    draw_predictions((targets + 1).astype(np.float32), targets, path, title="t", target="price")
    assert axes[0].get_xlim() == axes[0].get_ylim()
    assert axes[0].get_xlim()[0] < 10
    assert axes[0].get_ylim()[1] > 11
    assert (axes[0].get_xlabel(), axes[0].get_ylabel()) == ("true price", "predicted price")
    with Image.open(path) as image:
        assert min(image.size) > 400
