import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from redkiln.predict.model import Model
from tests.redkiln.predict.models import save_colours

PROGRAM = Path(__file__).parents[2] / "examples" / "use" / "predict.py"


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
