import io
import random

import numpy as np
import pytest
from PIL import Image

from worker.trainer.insight.preview import (
    MAX_CELL,
    PreviewBudget,
    Previewer,
    render_table,
    write_preview,
)
from worker.trainer.insight.preview_picture import COLUMNS, RIGHT, WRONG, draw_grid
from worker.trainer.insight.shown import NUM_SHOWN, Shown, spread_rows


def picture(number=0, *, is_right=True, truth="cat", predicted="dog", channels=3, side=8):
    pixels = np.full((side, side, channels), number, dtype=np.uint8)
    return Shown(truth, predicted, 0.75, is_right=is_right, image=pixels)


def open_png(content):
    return Image.open(io.BytesIO(content))


def row(text="a text", *, is_right=True, confidence=0.9):
    return Shown("ham", "spam", confidence, is_right=is_right, text=text)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_right_and_wrong_tiles_differ_in_colour_and_mark():
    sheet = open_png(draw_grid([picture(is_right=True), picture(is_right=False)]))
    half = sheet.width // 2
    left, right = sheet.crop((0, 0, half, sheet.height)), sheet.crop((half, 0, *sheet.size))
    assert RIGHT in {colour for _, colour in left.getcolors(100_000)}
    assert RIGHT not in {colour for _, colour in right.getcolors(100_000)}
    assert WRONG in {colour for _, colour in right.getcolors(100_000)}
    # The tile's own pixels are there, enlarged.
    assert left.getpixel((30, 60)) == (0, 0, 0)


@pytest.mark.parametrize("num", [1, COLUMNS, COLUMNS + 1, NUM_SHOWN])
def test_a_grid_has_room_for_every_tile(num):
    one = open_png(draw_grid([picture()]))
    sheet = open_png(draw_grid([picture(n) for n in range(num)]))
    assert sheet.width == one.width * min(num, COLUMNS)
    assert sheet.height == one.height * -(-num // COLUMNS)


@pytest.mark.parametrize(
    "sample",
    [
        picture(channels=1),
        picture(side=500),
        picture(truth="x" * 300, predicted="\n\x00 " + "y" * 300),
        picture(truth="猫", predicted="🐈"),
        Shown("", "", image=np.zeros((2, 40, 3), np.uint8)),
    ],
)
def test_any_sample_can_be_drawn(sample):
    assert open_png(draw_grid([sample])).format == "PNG"


def test_a_new_picture_keeps_only_the_previous_one(tmp_path):
    notes = [
        write_preview([picture(is_right=n > 2), picture()], tmp_path / "preview", step=n)
        for n in (1, 2, 3)
    ]
    assert (notes[0].num, notes[0].num_right, notes[2].num_right) == (2, 1, 2)
    assert notes[2].file == "step-000000000003.png"
    # A reader of the previous preview still finds it.
    left = sorted(path.name for path in (tmp_path / "preview").iterdir())
    assert left == ["step-000000000002.png", "step-000000000003.png"]


def test_samples_that_are_not_images_become_a_table(tmp_path):
    note = write_preview([row("WIN | now\n*free*"), row(is_right=False)], tmp_path, step=1200)
    assert (note.media_type, note.num_right) == ("text/markdown", 1)
    lines = (tmp_path / note.file).read_text().splitlines()
    assert lines[0] == "Sample predictions at step 1,200"
    assert lines[2:] == [
        "| sample | true | predicted | confidence | right |",
        "| --- | --- | --- | --- | --- |",
        r"| WIN \| now \*free\* | ham | spam | 90% | yes |",
        "| a text | ham | spam | 90% | **no** |",
    ]


def test_a_regression_has_no_right_and_wrong(tmp_path):
    shown = [Shown("151", "148.2", text="bmi 0.06, age 0.04")]
    note = write_preview(shown, tmp_path, step=1)
    assert note.num_right is None
    assert "| bmi 0.06, age 0.04 | 151 | 148.2 |" in render_table(shown, step=1)


def test_a_long_text_is_shortened():
    line = render_table([row("word " * 1000)], step=1).splitlines()[-1]
    assert len(line) < MAX_CELL + 50
    assert "…" in line


def test_previews_never_take_more_than_a_hundredth_of_the_time():
    budget, drawn = PreviewBudget(), random.Random(0)
    elapsed = 0.0
    made = 0
    for _ in range(3000):
        elapsed += drawn.random() * 5
        if budget.allows(elapsed_seconds=elapsed):
            cost = drawn.choice([0.02, 0.05, 0.4])
            elapsed += cost
            budget.note(cost, elapsed_seconds=elapsed)
            made += 1
    assert made > 10
    # One that costs more than the ones before is known only when it is made.
    assert budget.spent_seconds <= 0.01 * elapsed + 0.4


def test_short_jobs_show_no_previews_and_long_ones_only_some():
    budget = PreviewBudget()
    assert not budget.allows(elapsed_seconds=2.0)
    assert budget.allows(elapsed_seconds=60.0)
    budget.note(0.01, elapsed_seconds=60.0)
    assert not budget.allows(elapsed_seconds=65.0)
    assert budget.allows(elapsed_seconds=81.0)


def test_a_previewer_counts_the_cost_of_predicting_and_drawing(tmp_path):
    clock = Clock()

    def look():
        clock.now += 0.5
        return [picture()]

    previewer = Previewer(look, tmp_path, clock=clock)
    assert not previewer.is_due()
    clock.now = 30.0
    assert previewer.is_due()
    assert previewer.make(7).step == 7
    assert previewer.budget.spent_seconds == 0.5
    clock.now = 90.0
    assert not previewer.is_due()
    clock.now = 111.0
    assert previewer.is_due()


def test_a_task_without_previews_shows_none(tmp_path):
    clock = Clock()
    previewer = Previewer(None, tmp_path, clock=clock)
    clock.now = 1e6
    assert not previewer.is_due()
    assert previewer.make(1) is None


def test_rows_are_spread_over_a_split_that_is_sorted_by_class():
    chosen = spread_rows(list(range(1000)))
    assert len(chosen) == NUM_SHOWN
    assert (chosen[0], chosen[-1]) == (0, 999)
    assert spread_rows([5, 3]) == [5, 3]


def test_names_in_other_letters_differ_in_the_picture():
    names = ["Öl", "Ől", "Ёж", "Еж"]
    sheets = {draw_grid([picture(predicted=name)]) for name in names}
    assert len(sheets) == len(names)
