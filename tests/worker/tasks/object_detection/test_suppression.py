"""The choice of boxes, exported as operators of ONNX, is that of torch."""

import numpy as np
import pytest
import torch

from redkiln.predict.boxes.joined import OUTPUTS, THRESHOLD, join_outputs, split_outputs
from worker.export.exportable import Answers, Exportable
from worker.export.onnx_file import open_session, write_onnx
from worker.export.parity import onnx_predict
from worker.tasks.object_detection.exported import list_translations
from worker.trainer.detection.selection import CANDIDATES, select_boxes

NUM_CLASSES = 3


class Choice(torch.nn.Module):
    """Chooses from boxes and scores (B, A, 4 + classes), which are its compared output."""

    def forward(self, cells, threshold):
        return cells, *select_boxes(cells[..., :4], cells[..., 4:], threshold=threshold)


def draw(num_images, num_cells):
    """Crowded boxes, so that most of them suppress others."""
    random = np.random.default_rng(num_images)
    corner = random.random((num_images, num_cells, 2)) * 30
    side = 20 + random.random((num_images, num_cells, 2)) * 20
    scores = random.random((num_images, num_cells, NUM_CLASSES))
    return np.concatenate([corner, corner + side, scores], axis=-1, dtype=np.float32)


def export(folder, num_cells):
    given = {"cells": torch.from_numpy(draw(2, num_cells)), THRESHOLD: torch.tensor([0.1])}
    exportable = Exportable(
        Choice().eval(),
        examples=given,
        others=given,
        output="raw",
        architecture={},
        dynamic={THRESHOLD: {}},
        answers=Answers(
            names=OUTPUTS,
            defaults={THRESHOLD: np.array([0.5], np.float32)},
            join=join_outputs,
            split=split_outputs,
            agreement="boxes",
            least_agreement=1.0,
            translate=list_translations,
        ),
    )
    write_onnx(exportable, folder / "model.onnx", opset=20, metadata={})
    return exportable, open_session(folder / "model.onnx", threads=1)


@pytest.mark.parametrize("num_cells", [20, 2 * CANDIDATES])
def test_both_runtimes_choose_the_same_boxes(tmp_path, num_cells):
    exportable, session = export(tmp_path, num_cells)
    predict = onnx_predict(session, exportable.answers)
    for num_images, threshold in ((1, 0.0), (5, 0.0), (3, 0.6)):
        feed = {"cells": draw(num_images, num_cells), THRESHOLD: np.array([threshold], np.float32)}
        found = predict(feed)
        np.testing.assert_array_equal(found, exportable.predict(feed))
        assert found.shape == (num_images, 100, 6)
        num_found = (found[..., 5] >= 0).sum(axis=1)
        assert (num_found > 0).all()
        assert (num_found < min(101, num_cells * NUM_CLASSES)).all()


def test_a_missing_threshold_is_the_default(tmp_path):
    _, session = export(tmp_path, 20)
    cells = draw(2, 20)
    scores, explicit = (
        session.run(["scores"], {"cells": cells, **more})[0]
        for more in ({}, {THRESHOLD: np.array([0.5], np.float32)})
    )
    np.testing.assert_array_equal(scores, explicit)
    assert scores[scores > 0].min() >= 0.5
