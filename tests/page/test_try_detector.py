"""A detector that was trained and exported finds in the browser what `redkiln predict` finds."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from redkiln.predict.model import Model
from tests.page.made import expect_parity, make_model
from tests.worker.tasks.object_detection.conftest import make_job, write_shapes
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

KINDS = {"model.onnx": "model", "manifest.json": "manifest", "parity.npz": "parity"}
PLAIN = {"mosaic": 0, "crop": 0, "scale": 0, "translate": 0}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    return write_shapes(tmp_path_factory.mktemp("shapes"))


@pytest.fixture(scope="module")
def exported(shapes, tmp_path_factory):
    """The folder with the files of a short job."""
    folder = tmp_path_factory.mktemp("detector")
    job_dir = make_job(
        folder / "job",
        dataset=shapes,
        cache_dir=folder / "cache",
        training={"epochs": 15, "batch_size": 4, "ema": 0.9, "augment": PLAIN},
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    return Path(job_dir.out_dir)


def test_an_exported_detector_finds_the_boxes_of_redkiln_predict(
    site, open_page, gpu_worker, shapes, exported
):
    photos = sorted(Path(shapes.path).glob("*.png"))[-4:]
    expected = list(Model(exported / "model.onnx").predict(photos))
    assert any(each.boxes for each in expected)
    files = [(name, kind, (exported / name).read_bytes()) for name, kind in KINDS.items()]
    page = open_page(f"/try/{make_model(site, gpu_worker, files)}")
    page.get_by_label("Pictures").set_input_files(photos)
    answers = page.get_by_role("list", name="Answers")
    for photo, found in zip(photos, expected, strict=True):
        name = f"{photo.name} with {len(found.boxes)} boxes"
        answer = answers.get_by_role("listitem").filter(has=page.get_by_role("img", name=name))
        expect(answer).to_be_visible()
        drawn = [
            [float(rect.get_attribute(name)) for name in ("x", "y", "width", "height")]
            for rect in answer.locator("rect").all()
        ]
        boxes = [
            [x, y, right - x, bottom - y] for x, y, right, bottom in (b.box for b in found.boxes)
        ]
        assert sorted(drawn) == [pytest.approx(box, abs=0.05) for box in sorted(boxes)]
    expect_parity(page)
