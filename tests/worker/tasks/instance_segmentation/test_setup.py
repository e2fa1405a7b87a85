"""Jobs that train a network to find objects and their masks."""

import numpy as np
import pytest

from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec
from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_STOPPED

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
    for name, reason in (("int8-static", "values without a range"), ("int8-qat", "int8-qat")):
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
