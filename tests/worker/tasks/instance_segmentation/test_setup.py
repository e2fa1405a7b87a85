"""Jobs that train a network to find objects and their masks."""

import numpy as np
import pytest

from redkiln.annotations import ObjectMask
from redkiln.failure import FailureCode
from redkiln.predict.masks.coding import pack_mask
from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec
from tests.worker.tasks.instance_segmentation.conftest import write_instances
from tests.worker.tasks.object_detection.conftest import widen
from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_STOPPED
from worker.process.failed import TrainingFailed

PLAIN = {"mosaic": 0, "crop": 0, "scale": 0, "translate": 0}


def test_a_job_lowers_its_loss_and_scores_masks_and_boxes(make_instance_job, start):
    training = {"epochs": 3, "augment": PLAIN, "ema": None, "clip_norm": None}
    training["optimizer"] = {"name": "adamw", "lr": 2e-3}
    loop, setup = start(make_instance_job(training=training))
    model = setup.spec.model
    assert (model.source, model.name) == ("transformers", "rf_detr")
    loop.run()
    points = loop.history.series
    assert points["val/loss"][-1][1] < points["val/loss"][0][1]
    names = ("loss", "map", "map50", "map75", "box_map", "box_map50", "box_map75")
    assert {f"val/{name}" for name in names} == set(loop.best_metrics)
    shown = setup.preview()
    assert len(shown) == setup.counts["validation"]
    assert shown[0].image.shape == (64, 128, 3)


def test_the_spec_has_the_training_that_attention_needs():
    spec = parse_spec({"task": "instance-segmentation", "dataset": "any"})
    assert (spec.model.source, spec.model.name) == ("transformers", "rf_detr")
    assert (spec.training.clip_norm, spec.training.backbone_lr) == (0.1, 0.1)
    assert spec.training.optimizer.lr == 2e-4
    named = parse_spec({"task": "instance-segmentation", "dataset": "any", "model": "job:job_1"})
    assert (named.model.name, named.model.pretrained) == ("rf_detr", "job:job_1")
    for name, reason in (("int8-static", "int8 has no range"), ("int8-qat", "int8-qat")):
        export = {"variants": [name]}
        with pytest.raises(SpecError, match=reason):
            parse_spec({"task": "instance-segmentation", "dataset": "any", "export": export})
    with pytest.raises(SpecError):
        parse_spec({"task": "instance-segmentation", "dataset": "any", "model": "dense-nano"})


def test_another_job_gives_its_weights(make_instance_job, start, tmp_path):
    from safetensors.torch import save_file

    _, first = start(make_instance_job("first"))
    path = tmp_path / "checkpoint.safetensors"
    metadata = {"task": "instance-segmentation", "model": first.spec.model.model_dump_json()}
    weights = {name: value.contiguous().clone() for name, value in first.model.state_dict().items()}
    save_file(weights, path, metadata=metadata)
    job_dir = make_instance_job(
        "second",
        model={"pretrained": "job:job_1"},
        training={"seed": 5},
        order={"initial": str(path)},
    )
    _, second = start(job_dir)
    ours = second.model.state_dict()
    assert all(np.array_equal(ours[name], value) for name, value in weights.items())


def test_two_ranks_train_together_and_resume_as_one_process(
    make_instance_job, start, losses, rank_pair
):
    # Shares of 3 and 4 images, in micro steps of 1 and 2: the ranks compute different numbers of
    # losses, each with its own objects.
    training = {"batch_size": 7, "accumulation": 2, "ema": None}
    job_dir = make_instance_job("both", training=training)
    answers = rank_pair.make(job_dir, stop_after=3)
    assert [(each["status"], each["step"]) for each in answers] == [(EXIT_STOPPED, 4)] * 2
    assert answers[0] == answers[1]
    newest = CheckpointStore(job_dir.checkpoints_dir).manifests()[-1].name
    loop, _ = start(make_instance_job("both", training=training, order={"resume": newest}))
    loop.run()
    found = losses(job_dir)
    assert sorted(found) == list(range(1, loop.step + 1))
    alone = make_instance_job("alone", training=training)
    start(alone)[0].advance(2)
    assert found[1] == pytest.approx(losses(alone)[1], rel=0.1)


def of_one_class(_number, boxes):
    return [box.model_copy(update={"label": 0}) for box in boxes[:1]]


def without_objects(number, boxes):
    return [] if number % 2 else boxes


def a_thousand(number, boxes):
    return (boxes * 1000)[:1000] if number == 0 else boxes


@pytest.mark.parametrize(
    ("num_train", "boxes_of"), [(1, of_one_class), (4, without_objects), (2, a_thousand)]
)
def test_unusual_data_can_be_trained(make_instance_job, start, tmp_path, num_train, boxes_of):
    folder = tmp_path / "own"
    dataset = write_instances(folder, num_train=num_train, num_test=1, boxes_of=boxes_of)
    loop, setup = start(make_instance_job(dataset=dataset))
    loop.run()
    assert loop.step == 2
    assert setup.counts["train"] + setup.counts["validation"] == num_train
    assert all(np.isfinite(value) for _, value in loop.history.series["train/loss"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boxes_of": lambda _number, _boxes: []}, "no training image has an object"),
        ({"num_test": 0}, "no test images"),
        ({"boxes_of": lambda _number, boxes: boxes[:1] * 1001}, "0.png has 1,001 objects"),
    ],
)
def test_data_that_cannot_be_trained_are_refused(
    make_instance_job, start, tmp_path, options, message
):
    dataset = write_instances(tmp_path / "own", **{"num_train": 4, "num_test": 1, **options})
    with pytest.raises(TrainingFailed, match=message) as refused:
        start(make_instance_job(dataset=dataset))
    assert refused.value.failure.code == FailureCode.BAD_INPUT


def test_an_image_of_10_000_pixels_has_its_masks(make_instance_job, start, tmp_path):
    def enlarge(_number, boxes):
        mask = ObjectMask(packed=pack_mask(np.ones((128, 1280), np.uint8)), size=(1280, 128))
        return [boxes[0].model_copy(update={"xyxy": (0, 250, 5000, 750), "mask": mask})]

    dataset = write_instances(tmp_path / "own", num_train=1, num_test=1, boxes_of=enlarge)
    widen(dataset, (10_000, 1_250))
    job_dir = make_instance_job(
        dataset=dataset, training={"augment": {**PLAIN, "flip": False}, "epochs": 1}
    )
    loop, setup = start(job_dir)
    _, (truth,) = setup.batches.get(0, 0)
    left, top, right, bottom = truth[0, 1:5].tolist()
    assert (left, right) == pytest.approx((0, 32))
    assert bottom - top == pytest.approx(500 * 64 / 10_000)
    loop.run()
    assert loop.step == 1
