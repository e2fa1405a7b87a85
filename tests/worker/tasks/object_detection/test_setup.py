import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from redkiln.annotations import Box
from redkiln.failure import FailureCode
from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_STOPPED
from worker.process.failed import TrainingFailed


@pytest.fixture
def train(make_detection_job, start):
    """Trains a job in this process; its loop and its setup."""

    def run(name="job", **options):
        loop, setup = start(make_detection_job(name, **options))
        loop.run()
        return loop, setup

    return run


def test_a_job_learns_and_reports_its_average_precision(train):
    loop, setup = train(
        training={"epochs": 8, "ema": None, "validation_fraction": 0.2},
    )
    points = loop.history.series
    assert points["val/loss"][-1][1] < 0.95 * points["val/loss"][0][1]
    assert loop.best_metrics["val/map50"] > 2 * points["val/map50"][0][1]
    assert {"val/loss", "val/map", "val/map50", "val/map75"} == set(loop.best_metrics)
    assert setup.counts == {"train": 19, "validation": 5, "test": 8}


def test_what_auto_means_on_a_cpu_is_in_the_resolved_spec(make_detection_job, start):
    _, setup = start(make_detection_job())
    model = setup.spec.model
    assert (model.name, model.options.image_size, model.options.channels) == ("dense-nano", 64, 3)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_preview_shows_the_boxes_of_validation_images(make_detection_job, start, channels):
    model = {"options": {"channels": channels}}
    loop, setup = start(make_detection_job(model=model, training={"validation_fraction": 0.2}))
    loop.advance(1)
    shown = setup.preview()
    assert len(shown) == setup.counts["validation"]
    assert {sample.predicted for sample in shown} == {"nothing"}
    assert not any(sample.is_right for sample in shown)
    for sample in shown:
        assert sample.image.shape == (64, 64, 3)
        assert (sample.image == 255).all(axis=2).sum() > 20, "true boxes are white"
        assert any(name in sample.truth for name in ("circle", "square", "triangle"))


def test_a_batch_that_does_not_fit_is_split_and_gives_the_same_loss(
    make_detection_job, start, losses, run_out_of_memory
):
    whole = make_detection_job("whole")
    start(whole)[0].advance(1)
    split = make_detection_job("split")
    loop, setup = start(split)
    run_out_of_memory(setup.model, limit=4)
    loop.advance(1)
    assert setup.spec.training.accumulation == 2
    # Batch norm sees fewer images at a time.
    assert losses(split)[1] == pytest.approx(losses(whole)[1], rel=0.1)


def test_a_resumed_job_continues_with_the_same_losses(make_detection_job, start, losses):
    straight = make_detection_job("straight")
    start(straight)[0].run()
    job_dir = make_detection_job("moved")
    loop, _ = start(job_dir)
    loop.advance(3)
    loop._save(is_best=False, metrics={})
    newest = CheckpointStore(job_dir.checkpoints_dir).manifests()[-1].name
    start(make_detection_job("moved", order={"resume": newest}))[0].run()
    assert losses(job_dir) == losses(straight)


def test_two_ranks_train_together_and_resume_as_one_process(
    make_detection_job, start, losses, rank_pair
):
    # Each rank's batch norm sees its own images, so the curve is not that of one process.
    job_dir = make_detection_job("both")
    answers = rank_pair.make(job_dir, stop_after=3)
    assert [(each["status"], each["step"]) for each in answers] == [(EXIT_STOPPED, 4)] * 2
    newest = CheckpointStore(job_dir.checkpoints_dir).manifests()[-1].name
    loop, _ = start(make_detection_job("both", order={"resume": newest}))
    loop.run()
    found = losses(job_dir)
    assert sorted(found) == list(range(1, loop.step + 1))
    alone = make_detection_job("alone")
    start(alone)[0].advance(2)
    assert found[1] == pytest.approx(losses(alone)[1], rel=0.1)


def test_one_image_of_one_class_can_be_trained(train, make_shapes):
    def only_one(_number, boxes):
        return [box.model_copy(update={"label": 0}) for box in boxes]

    loop, setup = train(dataset=make_shapes(num_train=1, num_test=1, boxes_of=only_one))
    assert setup.counts == {"train": 1, "validation": 0, "test": 1}
    assert setup.spec.training.batch_size == 1
    assert loop.step == 2


def test_training_includes_images_without_objects(train, make_shapes):
    dataset = make_shapes(boxes_of=lambda number, boxes: boxes if number % 3 == 0 else [])
    loop, _ = train(dataset=dataset)
    assert np.isfinite(loop.best_metrics["val/loss"])


def test_crowds_are_neither_learned_nor_scored(train, make_shapes):
    def gather(_number, boxes):
        return [*boxes, Box(label=0, xyxy=(0, 0, 30, 30), crowd=True)]

    loop, _ = train(dataset=make_shapes(boxes_of=gather))
    assert np.isfinite(loop.best_metrics["val/loss"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boxes_of": lambda _number, _boxes: []}, "no training image has an object"),
        ({"num_test": 0}, "no test images"),
        (
            {"boxes_of": lambda _number, boxes: boxes[:1] * 1001},
            "0.png has 1,001 objects, and training supports at most 1,000",
        ),
    ],
)
def test_data_that_cannot_be_trained_are_refused(
    make_detection_job, make_shapes, start, options, message
):
    with pytest.raises(TrainingFailed, match=message) as refused:
        start(make_detection_job(dataset=make_shapes(**options)))
    assert refused.value.failure.code == FailureCode.BAD_INPUT


def test_a_thousand_objects_an_image_can_be_trained(train, make_shapes):
    def many(number, boxes):
        return (boxes * 1000)[:1000] if number == 0 else boxes

    loop, _ = train(dataset=make_shapes(num_train=4, num_test=1, boxes_of=many))
    assert loop.step == 2


def test_large_images_are_made_smaller_with_their_boxes(make_detection_job, make_shapes, start):
    dataset = make_shapes(num_train=2, num_test=1, side=640)
    model = {"options": {"image_size": 64}}
    _, setup = start(make_detection_job(dataset=dataset, model=model))
    _, targets = setup.batches.get(0, 0)
    boxes = targets[targets[..., 0] >= 0][:, 1:]
    assert len(boxes)
    assert boxes.max() <= 64


def test_an_image_of_100_megapixels_is_decoded_with_its_boxes(
    make_detection_job, make_shapes, start
):
    box, side = (2000, 3000, 5000, 7000), 10_000
    dataset = make_shapes(num_train=1, num_test=1)
    path = Path(dataset.index_path)
    index = json.loads(path.read_text())
    (image,) = index["splits"]["train"]
    image |= {"width": side, "height": side, "boxes": [{"label": 0, "xyxy": box}]}
    path.write_text(json.dumps(index))
    picture = Image.new("L", (side, side))
    picture.paste(255, box)
    picture.save(Path(dataset.path) / image["path"], compress_level=1)
    model = {"options": {"image_size": 64, "channels": 1}}
    still = dict.fromkeys(("mosaic", "crop", "scale", "translate", "brightness", "contrast"), 0)
    job_dir = make_detection_job(
        dataset=dataset, model=model, training={"augment": {**still, "flip": False}}
    )
    _, setup = start(job_dir)
    images, targets = setup.batches.get(0, 0)
    bright = (images[0, 0] > images.mean()).nonzero()
    left, top, right, bottom = targets[0, 0, 1:].tolist()
    assert (left, top, right, bottom) == pytest.approx([one * 64 / side for one in box])
    assert bright.min(dim=0).values.tolist() == pytest.approx([top, left], abs=1)
    assert (bright.max(dim=0).values + 1).tolist() == pytest.approx([bottom, right], abs=1)


def test_images_are_trained_in_the_layout_of_the_spec(train):
    _, setup = train(training={"memory_format": "channels_last", "steps": 1, "epochs": None})
    images, _ = setup.batches.get(0, 0)
    assert images.is_contiguous(memory_format=torch.channels_last)
