import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from redkiln.predict.model import Model
from redkiln.predict.pixels import PixelFormat
from tests.redkiln.predict.models import (
    SIDE,
    save_channels,
    save_colours,
    save_detector,
    save_moods,
)
from worker.tasks.image_classification.embedded import EmbeddedPhotos
from worker.tasks.text_classification.companion import TextCompanion
from worker.trainer.text.tokenizer import train_tokenizer

HEADERS = os.environ.get("REDKILN_ONNXRUNTIME_HEADERS", "")
"""Folder of onnxruntime_cxx_api.h, which the wheel does not contain."""
PROGRAMS = Path(__file__).parents[2] / "examples" / "use"


def run(model, photos, program="predict.py"):
    """Run a program; returns the words after each photo's path."""
    command = [sys.executable, PROGRAMS / program, model, *photos]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    return [line.removeprefix(f"{p} ") for line, p in zip(lines, photos, strict=True)]


@pytest.fixture
def photos(tmp_path):
    """Photos of each kind that is easily read wrongly."""
    deep = (np.arange(30 * 40).reshape(30, 40) * 50).astype(np.uint16)
    palette = Image.new("P", (9, 9), 1)
    palette.putpalette([0, 0, 0, 0, 250, 9])
    images = {
        "plain": Image.new("RGB", (40, 30), (250, 9, 9)),
        "half transparent": Image.new("RGBA", (40, 30), (250, 210, 200, 90)),
        "16 bits": Image.fromarray(deep),
        "palette": palette,
    }
    for name, image in images.items():
        image.save(tmp_path / f"{name}.png", transparency=0 if name == "palette" else None)
    return [tmp_path / f"{name}.png" for name in images]


def test_the_python_program_gives_the_same_answers_as_redkiln_predict(tmp_path, photos):
    model = save_colours(tmp_path / "model")
    answers = list(Model(model, threads=1).predict(photos, top=1))
    for line, answer in zip(run(model, photos), answers, strict=True):
        name, score = line.split()
        assert name == answer.answer
        assert float(score) == pytest.approx(answer.scores[0][1], abs=1e-3)


def test_the_short_program_runs_a_model_that_prepares_photos_itself(tmp_path, photos):
    model = save_colours(tmp_path / "model")
    form = PixelFormat(size=SIDE, channels=3, resize="stretch")
    EmbeddedPhotos(form, "logits", 3, False, np.zeros((1, SIDE, SIDE, 3), np.uint8)).apply(model)
    (model.parent / "manifest.json").unlink()
    (answer,) = Model(model, threads=1).predict(photos[:1], top=1)
    name, score = run(model, photos[:1], "photos.py")[0].split()
    assert (name, float(score)) == (answer.answer, pytest.approx(answer.scores[0][1], abs=1e-3))


def test_the_python_program_prints_all_labels_that_reach_their_threshold(tmp_path, photos):
    model = save_channels(tmp_path / "model")
    answers = list(Model(model, threads=1).predict(photos))
    assert [sorted(one.labels) for one in answers[:2]] == [["red"], []]
    for line, answer in zip(run(model, photos), answers, strict=True):
        found = [] if line == "no label" else [part.split()[0] for part in line.split(", ")]
        assert sorted(found) == sorted(answer.labels)


def test_the_short_program_runs_a_model_with_its_tokenizer_inside(tmp_path):
    tokenizer = train_tokenizer(["good bad day"], vocabulary_size=300, max_length=9, lowercase=True)
    plain = save_moods(tmp_path / "model", tokenizer=tokenizer)
    path = plain.with_name("model-text.onnx")
    preprocessing = Model(plain, threads=1).description.preprocessing
    table = SimpleNamespace(has_labels=False)
    reading = (plain.parent / "tokenizer.json").read_text()
    TextCompanion(table, reading, preprocessing, 2).write(plain, path)
    texts = ["a GOOD day", "bad, bad", "Ünknown 日本"]
    answers = list(Model(plain, threads=1).predict(texts, top=1))
    for line, answer in zip(run(path, texts, "texts.py"), answers, strict=True):
        name, score = line.split()
        assert (name, float(score)) == (answer.answer, pytest.approx(answer.scores[0][1], abs=1e-3))


@pytest.mark.parametrize("resize", ["pad", "stretch"])
def test_the_detecting_program_finds_the_same_boxes_as_redkiln_predict(tmp_path, resize):
    model = save_detector(tmp_path, resize=resize, threshold=0.1)
    photos = {tmp_path / "wide.png": (90, 41), tmp_path / "tall.png": (30, 60)}
    for path, size in photos.items():
        Image.new("RGB", size, (250, 240, 230)).save(path)
    done = subprocess.run(
        [sys.executable, PROGRAMS / "detect.py", model, *photos],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.stderr == ""
    for (path, name, score, *box), answer in zip(
        lines, Model(model, threads=1).predict(list(photos)), strict=True
    ):
        (one,) = answer.boxes
        assert (path, name) == (answer.name, one.class_name)
        assert float(score) == pytest.approx(one.score, abs=1e-3)
        ends = np.clip([float(end) for end in box], 0, np.tile(photos[Path(path)], 2))
        assert ends == pytest.approx(one.box, abs=0.06)


@pytest.mark.skipif(not HEADERS, reason="set REDKILN_ONNXRUNTIME_HEADERS to ONNX Runtime's headers")
def test_the_program_in_cpp_gives_the_same_answers_as_redkiln_predict(tmp_path):
    model = save_colours(tmp_path / "model")
    photos = [tmp_path / f"{place}.ppm" for place in range(3)]
    known = [photo.with_suffix(".png") for photo in photos]
    for place, paths in enumerate(zip(photos, known, strict=True)):
        image = Image.new("RGB", (SIDE, SIDE), tuple(np.roll((240, 9, 9), place).tolist()))
        for path in paths:
            image.save(path)
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    shutil.copy(library, tmp_path / "libonnxruntime.so.1")
    program = tmp_path / "predict"
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-isystem", HEADERS, "-o", program]
    parts = [PROGRAMS / "predict.cpp", tmp_path / "libonnxruntime.so.1", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(["g++", *flags, *parts], check=True)
    env = {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}
    done = subprocess.run([program, model, *photos], capture_output=True, check=True, env=env)
    first, *lines = done.stdout.decode().splitlines()
    classes = json.loads(first)
    found = [classes[int(line.split("is number ")[1].split(",")[0])] for line in lines]
    assert found == [one.answer for one in Model(model, threads=1).predict(known, top=1)]
    assert len(set(found)) == 3
