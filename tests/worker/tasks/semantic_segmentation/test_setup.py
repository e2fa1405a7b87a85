"""Training of a segmenter."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from redkiln.annotations import IGNORED
from redkiln.spec.image_models import Model
from tests.worker.tasks.object_detection.conftest import widen
from tests.worker.tasks.semantic_segmentation.conftest import write_masked
from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_STOPPED
from worker.process.failed import TrainingFailed
from worker.trainer.models import build_model


def test_a_job_learns_and_reports_its_iou(make_segmentation_job, start):
    plain = {"crop": 0, "scale": 0, "translate": 0}
    training = {"epochs": 20, "batch_size": 4, "ema": None, "validation_fraction": 0.2}
    training |= {"augment": plain, "optimizer": {"name": "adamw", "lr": 0.01}}
    loop, setup = start(make_segmentation_job(training=training))
    loop.run()
    points = loop.history.series
    assert points["val/loss"][-1][1] < 0.9 * points["val/loss"][0][1]
    assert loop.best_metrics["val/miou"] > 1.2 * points["val/miou"][0][1]
    assert {"val/loss", "val/miou", "val/dice", "val/pixel_accuracy"} == set(loop.best_metrics)
    assert setup.counts == {"train": 19, "validation": 5, "test": 8}


def test_what_auto_means_on_a_cpu_is_in_the_resolved_spec(make_segmentation_job, start):
    _, setup = start(make_segmentation_job())
    model = setup.spec.model
    assert (model.name, model.options.image_size, model.options.channels) == ("unet-nano", 64, 3)


def test_a_preview_shows_true_and_found_masks_of_validation_images(make_segmentation_job, start):
    loop, setup = start(make_segmentation_job(training={"validation_fraction": 0.2}))
    loop.advance(1)
    shown = setup.preview()
    assert len(shown) == setup.counts["validation"]
    for sample in shown:
        assert sample.image.shape == (64, 128, 3)
        assert any(name in sample.truth for name in ("circle", "square", "triangle"))


def test_a_batch_that_does_not_fit_is_split_and_gives_the_same_loss(
    make_segmentation_job, start, losses, run_out_of_memory
):
    whole = make_segmentation_job("whole")
    start(whole)[0].advance(1)
    split = make_segmentation_job("split")
    loop, setup = start(split)
    run_out_of_memory(setup.model, limit=4)
    loop.advance(1)
    assert setup.spec.training.accumulation == 2
    # Batch norm sees fewer images at a time.
    assert losses(split)[1] == pytest.approx(losses(whole)[1], rel=0.1)


def test_a_resumed_job_continues_with_the_same_losses(make_segmentation_job, start, losses):
    straight = make_segmentation_job("straight")
    start(straight)[0].run()
    job_dir = make_segmentation_job("moved")
    loop, _ = start(job_dir)
    loop.advance(3)
    loop._save(is_best=False, metrics={})
    newest = CheckpointStore(job_dir.checkpoints_dir).manifests()[-1].name
    start(make_segmentation_job("moved", order={"resume": newest}))[0].run()
    assert losses(job_dir) == losses(straight)


def test_two_ranks_train_together_and_resume_as_one_process(
    make_segmentation_job, start, losses, rank_pair
):
    # Each rank's batch norm sees its own images, so the curve is not that of one process.
    job_dir = make_segmentation_job("both")
    answers = rank_pair.make(job_dir, stop_after=3)
    assert [(each["status"], each["step"]) for each in answers] == [(EXIT_STOPPED, 4)] * 2
    newest = CheckpointStore(job_dir.checkpoints_dir).manifests()[-1].name
    loop, _ = start(make_segmentation_job("both", order={"resume": newest}))
    loop.run()
    found = losses(job_dir)
    assert sorted(found) == list(range(1, loop.step + 1))
    alone = make_segmentation_job("alone")
    start(alone)[0].advance(2)
    assert found[1] == pytest.approx(losses(alone)[1], rel=0.1)


def test_a_classifier_gives_its_backbone_to_the_largest_network(
    make_segmentation_job, start, tmp_path
):
    torch.manual_seed(7)
    model = Model(name="resnet18", options={"image_size": 96, "channels": 3})
    classifier = build_model(model, num_classes=2)
    metadata = {"task": "image-classification", "model": model.model_dump_json()}
    path = tmp_path / "checkpoint.safetensors"
    save_file(classifier.state_dict(), path, metadata=metadata)
    order = {"initial": str(path)}
    _, setup = start(make_segmentation_job(model="job:job_1", order=order))
    assert setup.spec.model.name == "unet-medium"
    theirs = classifier.state_dict()["stages.0.body.0.weight"]
    assert torch.equal(setup.model.state_dict()["backbone.stages.0.body.0.weight"], theirs)


def test_unknown_classes_of_weights_are_refused(make_segmentation_job, start):
    with pytest.raises(TrainingFailed, match="no class 'cirle'; did you mean"):
        start(make_segmentation_job(training={"class_weights": {"cirle": 2.0}}))


@pytest.mark.parametrize(
    ("num_train", "mask_of"),
    [
        (1, lambda _number, mask: mask > 0),  # one image, and one class next to the background
        (4, lambda number, mask: mask * (number % 2)),  # images of background only
        (2, lambda _number, mask: dot(mask)),  # a thousand objects
    ],
)
def test_unusual_data_can_be_trained(make_segmentation_job, start, tmp_path, num_train, mask_of):
    def change(number, mask):
        return mask_of(number, mask).astype(np.uint8)

    dataset = write_masked(tmp_path / "own", num_train=num_train, num_test=1, mask_of=change)
    loop, setup = start(make_segmentation_job(dataset=dataset))
    loop.run()
    assert loop.step == 2
    assert setup.counts["train"] + setup.counts["validation"] == num_train
    assert all(np.isfinite(value) for _, value in loop.history.series["train/loss"])


def dot(mask):
    dotted = np.zeros_like(mask)
    dotted[::2, ::2] = 1
    assert dotted.sum() > 1000
    return dotted


@pytest.mark.parametrize("label", [0, IGNORED])
def test_masks_without_an_object_are_refused(make_segmentation_job, start, tmp_path, label):
    dataset = write_masked(
        tmp_path / "own",
        num_train=4,
        num_test=1,
        mask_of=lambda _number, mask: np.full_like(mask, label),
    )
    with pytest.raises(TrainingFailed, match="no training image has a pixel of a class other"):
        start(make_segmentation_job(dataset=dataset))


def test_an_image_of_10_000_pixels_keeps_its_proportions(make_segmentation_job, start, tmp_path):
    def halve(_number, mask):
        return np.repeat(np.arange(64) < 32, 64).reshape(64, 64).T.astype(np.uint8)

    dataset = write_masked(tmp_path / "own", num_train=1, num_test=1, mask_of=halve)
    widen(dataset, (10_000, 1_250))
    still = dict.fromkeys(("crop", "scale", "translate"), 0)
    job_dir = make_segmentation_job(
        dataset=dataset,
        model={"options": {"image_size": 64}},
        training={"augment": {**still, "flip": False}},
    )
    _, setup = start(job_dir)
    (mask,) = setup.batches.get(0, 0)[1].numpy()
    wanted = np.full((64, 64), IGNORED)
    wanted[28:36] = np.arange(64) < 32
    np.testing.assert_array_equal(mask, wanted)
