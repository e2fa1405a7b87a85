import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from redkiln.predict.model import Model
from tests.redkiln.predict.models import save_colours, save_detector

FOLDER = Path(__file__).parents[2] / "examples" / "use"
PROGRAM = FOLDER / "predict.py"


def test_the_python_program_gives_the_same_answers_as_redkiln_predict(tmp_path):
    model = save_colours(tmp_path)
    photos = []
    for name, shade in {"a": (250, 9, 9), "b": (20, 30, 210)}.items():
        photos.append(tmp_path / f"{name}.png")
        Image.new("RGB", (40, 30), shade).save(photos[-1])
    done = subprocess.run(
        [sys.executable, PROGRAM, model, *photos], capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    answers = list(Model(model, threads=1).predict(photos, top=1))
    assert [answer.scores[0][0] for answer in answers] == ["red", "blue"]
    for (path, name, score), answer in zip(lines, answers, strict=True):
        assert (path, name) == (answer.name, answer.answer)
        assert float(score) == pytest.approx(answer.scores[0][1], abs=1e-3)


@pytest.mark.parametrize("resize", ["pad", "stretch"])
def test_the_detecting_program_finds_the_same_boxes_as_redkiln_predict(tmp_path, resize):
    model = save_detector(tmp_path, resize=resize, threshold=0.1)
    photos = {tmp_path / "wide.png": (90, 41), tmp_path / "tall.png": (30, 60)}
    for path, size in photos.items():
        Image.new("RGB", size, (250, 240, 230)).save(path)
    done = subprocess.run(
        [sys.executable, FOLDER / "detect.py", model, *photos],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.stderr == ""
    for (path, name, score, *box), answer in zip(
        lines, Model(model, threads=1).predict(photos), strict=True
    ):
        (one,) = answer.boxes
        assert (path, name) == (answer.name, one.class_name)
        assert float(score) == pytest.approx(one.score, abs=1e-3)
        ends = np.clip([float(end) for end in box], 0, np.tile(photos[Path(path)], 2))
        assert ends == pytest.approx(one.box, abs=0.06)
