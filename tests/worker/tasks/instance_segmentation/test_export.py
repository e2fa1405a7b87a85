"""A trained network becomes a verified file that returns boxes and masks."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from redkiln import coco
from redkiln.annotations import DetectionIndex
from redkiln.predict.boxes.matching import find_agreement
from redkiln.predict.boxes.scores import Detections
from redkiln.predict.instances.joined import list_objects, load_found, load_truth
from redkiln.predict.instances.regions import encode
from redkiln.views.evaluation import EvaluationFile
from service.datasets.inspect.answers import write_answers
from tests.worker.job_dirs import load_arrays
from tests.worker.tasks.instance_segmentation.conftest import make_job, write_instances
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.instance_segmentation.scoring import InstanceScoring
from worker.tasks.train import run_job

VARIANTS = ["fp16", "int8-dynamic"]
PLAIN = {"mosaic": 0, "crop": 0, "scale": 0, "translate": 0, "flip": False}
PLAIN |= {"brightness": 0, "contrast": 0, "saturation": 0}


@pytest.fixture(scope="module", autouse=True)
def blank_figures():
    """Does nothing: the figures are drawn."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory, cache_dir):
    """A short training of few images; tests only read its files."""
    folder = tmp_path_factory.mktemp("instance")
    dataset = write_instances(folder, num_train=9, num_test=3)
    training = {"epochs": 2, "batch_size": 4, "augment": PLAIN, "ema": None}
    job_dir = make_job(
        folder / "job",
        dataset=dataset,
        cache_dir=cache_dir,
        training=training,
        export={"variants": VARIANTS},
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    return job_dir


def test_all_files_are_published(exported, events):
    names = [output.name for output in exported.load_outputs()]
    assert {"model.onnx", "parity.npz", "precision.png", "evaluation.json", "report.html"} <= set(
        names
    )
    result = events(exported, "result")[-1]["data"]
    assert {"test/map", "test/map50", "test/box_map", "test/map_onnx"} <= set(result["metrics"])
    manifest = json.loads((exported.out_dir / "manifest.json").read_text())
    assert manifest["verification"]["relative"] < 1e-3
    assert manifest["preprocessing"]["mask_side"] == 16
    outputs = [each["name"] for each in manifest["model"]["outputs"]]
    assert outputs == ["boxes", "scores", "labels", "masks"]
    report = (exported.out_dir / "report.md").read_text()
    assert "`box_map`" in report
    content = EvaluationFile.model_validate_json((exported.out_dir / "evaluation.json").read_text())
    assert content.has_boxes
    assert content.num_mistakes <= content.num_samples == 3


def test_the_file_takes_batches_of_any_size(exported):
    session = onnxruntime.InferenceSession(exported.out_dir / "model.onnx")
    images = np.random.default_rng(0).random((3, 3, 64, 64), dtype=np.float32)
    for num in (1, 3):
        boxes, scores, labels, masks = session.run(None, {"images": images[:num]})
        assert (boxes.shape, scores.shape) == ((num, 100, 4), (num, 100))
        assert (masks.shape, masks.dtype) == ((num, 100, 16, 16), np.uint8)
        assert not masks[labels < 0].any()


def test_saved_samples_repeat_the_comparison(exported):
    saved = load_arrays(exported.out_dir / "parity.npz")
    session = onnxruntime.InferenceSession(exported.out_dir / "model.onnx")
    feed = {
        "images": saved["images"].transpose(0, 3, 1, 2).astype(np.float32) / 255,
        "threshold": np.array([0.001], np.float32),
    }
    ours = list_objects(session.run(None, feed), side=64)
    torchs = load_found(saved, side=64)
    assert find_agreement(ours, torchs) >= 0.99
    truth = load_truth(saved, side=64)
    assert len(truth) == len(ours)
    assert all(len(one.regions) == len(one.labels) > 0 for one in truth)


def test_the_code_in_the_report_finds_masks_in_any_image(exported, tmp_path, monkeypatch, capsys):
    from PIL import Image

    text = (exported.out_dir / "report.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    photo = tmp_path / "wide.png"
    with Image.open(Path(exported.root).parent / "0.png") as square:
        square.resize((190, 110)).save(photo)
    monkeypatch.chdir(exported.out_dir)
    monkeypatch.setattr(sys, "argv", ["predict.py", str(photo)])
    scope = {"__name__": "__main__"}
    exec(code, scope)
    assert capsys.readouterr().out.startswith(str(photo))
    found = scope["detect"](photo, 0.001)
    assert found
    assert all(mask.shape == (110, 190) for _, _, _, mask in found)


def test_the_file_is_verified_without_torch(exported):
    from redkiln.predict.verify import verify

    verdict = verify(exported.out_dir / "model.onnx", threads=1)
    assert (verdict.metric_name, verdict.framework) == ("map", "torch")
    assert all(way.difference.agreement >= 0.99 for way in verdict.ways.values())
    assert all(abs(way.drop) <= 0.002 for way in verdict.ways.values())


def test_smaller_files_are_scored_by_their_masks(exported):
    from redkiln.predict.verify import verify

    manifest = json.loads((exported.out_dir / "manifest.json").read_text())
    whole, *smaller = manifest["variants"]
    assert [one["name"] for one in smaller] == VARIANTS
    for one in smaller:
        assert one["size_bytes"] < whole["size_bytes"] / 2
        assert one["drop"] == pytest.approx(whole["metric"] - one["metric"], abs=1e-6)
        assert 0 < one["max_abs"] < 1
        verdict = verify(exported.out_dir / one["file"], threads=1)
        assert verdict.verified == one["verified"]


def test_predictions_have_masks_in_the_photo_and_are_drawn(exported, tmp_path):
    from PIL import Image

    from redkiln.predict.boxes.drawing import draw_found
    from redkiln.predict.document import build_document
    from redkiln.predict.model import Model
    from redkiln.views.models.prediction import PredictionsView

    photo = tmp_path / "wide.png"
    Image.new("RGB", (190, 110), "white").save(photo)
    model = Model(exported.out_dir / "model.onnx", threads=1, threshold=0.001)
    (one,) = model.predict([photo], top=3)
    assert len(one.boxes) == 3
    assert all(box.mask.shape == (110, 190) for box in one.boxes)
    document = build_document([one], [], model, name="model.onnx")
    (view,) = PredictionsView.model_validate({**document, "notes": []}).predictions
    assert (view.boxes[0].mask.width, view.boxes[0].mask.height) == (190, 110)
    one.boxes[0].mask[:] = 0
    one.boxes[0].mask[40:60, 40:60] = 1
    drawn = tmp_path / "drawn.png"
    draw_found(photo, [one.boxes[0]], drawn, model.description.classes)
    with Image.open(drawn) as picture:
        assert picture.getpixel((50, 50)) != (255, 255, 255)


def test_other_data_are_scored_by_their_masks(exported, tmp_path):
    from redkiln.predict.labelled.regions import score_regions
    from redkiln.predict.model import Model

    folder = Path(exported.root).parent
    index = DetectionIndex.model_validate_json((folder / "index.json").read_bytes())
    names = [one.path for one in index.splits["test"]]
    for name in names:
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    for name, content in write_answers(index, names):
        (tmp_path / name).write_bytes(content)
    model = Model(exported.out_dir / "model.onnx", threads=1)
    found = score_regions(model, tmp_path)
    assert (found.num_samples, found.skipped) == (3, [])
    known = json.loads((exported.out_dir / "manifest.json").read_text())["metrics"]
    assert found.metric == pytest.approx(known["test/map_onnx"], abs=1e-6)

    path = tmp_path / coco.NAME
    content = json.loads(path.read_text())
    del content["annotations"][0]["segmentation"]
    path.write_text(json.dumps(content))
    found = score_regions(model, tmp_path)
    assert found.num_samples == 2
    assert "neither polygons nor runs" in found.skipped[0].reason


def test_the_worst_images_show_the_boxes_and_both_masks(exported):
    from PIL import Image

    content = EvaluationFile.model_validate_json((exported.out_dir / "evaluation.json").read_text())
    with Image.open(exported.out_dir / content.tiles.name) as sheet:
        rows = -(-content.num_listed // content.tiles.columns)
        side = content.tiles.side
        assert sheet.size == (content.tiles.columns * side, rows * side)

    mask = np.zeros((1, 8, 8), np.uint8)
    mask[:, 2:6, 2:6] = 1
    box, one = np.array([[2.0, 2, 5, 5]]), np.ones(1)
    thing = Detections(box, one, np.zeros(1, np.int64), encode(mask), 8)
    nothing = thing.select(one < 0)
    scoring = InstanceScoring(["thing"], threshold=0.5, choice={})
    drawn = scoring.draw_image(np.full((8, 8, 1), 50, np.uint8), nothing, thing)
    parts = drawn.reshape(2, 8, 2, 8, 3).swapaxes(1, 2)
    assert (parts[0, 0] == 50).all()
    assert (parts[0, 1].max(axis=-1) == 255).sum() == 12  # the white box
    assert (parts[1, 0] != 50).any(axis=-1).sum() == 16  # the true mask
    assert (parts[1, 1] == 50).all()  # none was found
