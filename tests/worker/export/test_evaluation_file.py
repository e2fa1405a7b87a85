import json
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from redkiln.views.evaluation import EvaluationFile
from worker.export.evaluation_file import write_evaluation
from worker.export.outputs import Outputs
from worker.export.result_files import list_pictures, write_mistakes
from worker.export.scoring.classification import Classification
from worker.export.scoring.regression import Regression
from worker.jobdir import JobDir

LABELS = np.array([0, 1, 1, 0])
LOGITS = np.array([[4, 0], [0, 4], [9, 0], [0, 1]], dtype=np.float32)


@pytest.fixture
def write(tmp_path):
    """Write the evaluation of four test samples, which are the rows 6 to 9 of a data set."""

    def write(scoring=None, logits=LOGITS, **fields):
        target = SimpleNamespace(
            scoring=scoring or Classification(["cat", "dog"]),
            samples=SimpleNamespace(noun="images"),
            rows={"test": np.array([6, 7, 8, 9])},
            **{"describe_rows": None, "read_pictures": None, **fields},
        )
        outputs = Outputs(JobDir(tmp_path))
        write_evaluation(target, (logits, LABELS), outputs)
        return outputs

    return write


def read(outputs):
    return EvaluationFile.model_validate(json.loads(outputs.path("evaluation.json").read_text()))


def test_mistakes_name_class_confidence_and_sample(write):
    content = read(write(describe_rows=lambda rows: [f"image {row}" for row in rows]))
    assert (content.num_samples, content.num_mistakes, content.num_listed) == (4, 2, 2)
    first, second = content.mistakes
    assert (first.sample, first.true, first.predicted, first.text) == (2, "dog", "cat", "image 8")
    assert (second.sample, second.text, second.tile) == (3, "image 9", None)
    assert [(cell.true, cell.predicted, cell.num) for cell in content.confused] == [
        ("cat", "cat", 1), ("cat", "dog", 1), ("dog", "cat", 1), ("dog", "dog", 1),
    ]  # fmt: skip
    assert [score.recall for score in content.per_class] == [0.5, 0.5]


@pytest.mark.parametrize(("side", "channels", "tile"), [(8, 1, 8), (8, 3, 8), (200, 3, 96)])
def test_wrong_images_are_tiles_of_one_picture(write, side, channels, tile):
    def pictures(rows):
        levels = np.array(rows, dtype=np.uint8).reshape(-1, 1, 1, 1)
        return np.broadcast_to(levels, (len(rows), side, side, channels))

    outputs = write(read_pictures=pictures)
    content = read(outputs)
    assert (content.tiles.side, content.tiles.columns) == (tile, 2)
    assert [mistake.tile for mistake in content.mistakes] == [0, 1]
    with Image.open(outputs.path("mistakes.png")) as sheet:
        assert sheet.size == (2 * tile, tile)
        assert np.array(sheet).reshape(tile, 2, tile, -1)[0, :, 0, 0].tolist() == [8, 9]
    assert outputs.names == ["mistakes.png", "evaluation.json"]


def test_the_report_has_the_worst_images_with_their_answers(write):
    outputs = write(read_pictures=lambda rows: np.zeros((len(rows), 8, 8, 3), dtype=np.uint8))
    section = write_mistakes(outputs)
    assert "| dog | cat |" in section
    assert "](worst-mistakes.png)" in section
    assert outputs.names == ["mistakes.png", "evaluation.json", "worst-mistakes.png"]
    assert list(list_pictures(outputs).values()) == [outputs.path("worst-mistakes.png")]


def test_the_report_lists_mistakes_that_are_not_images(write):
    outputs = write(describe_rows=lambda rows: [f"text {row}" for row in rows])
    assert "| 1 | text 8 | dog | cat |" in write_mistakes(outputs)
    assert outputs.names == ["evaluation.json"]


def test_a_model_without_mistakes_has_no_picture(write):
    perfect = np.eye(2, dtype=np.float32)[LABELS]
    outputs = write(logits=perfect, read_pictures=lambda rows: pytest.fail("nothing to draw"))
    assert (read(outputs).mistakes, read(outputs).tiles) == ([], None)
    assert write_mistakes(outputs) == ""


def test_a_regression_has_no_evaluation_by_class(write):
    assert write(Regression("price", mean=0.0, std=1.0)).names == []
