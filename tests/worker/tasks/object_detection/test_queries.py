"""Jobs that train a detector of transformers."""

import numpy as np
import pytest
import torch

from redkiln.predict.boxes.joined import join_outputs
from tests.worker.trainer.queries.conftest import KINDS, TINY, build
from worker.checkpoints.checkpoint import CheckpointStore
from worker.export.onnx_file import open_session, write_onnx
from worker.export.parity import compare_outputs
from worker.process.failed import TrainingFailed
from worker.tasks.object_detection.exported import make_exportable

PLAIN = {"mosaic": 0, "crop": 0, "scale": 0, "translate": 0}
IMAGENET_MEAN = [0.485, 0.456, 0.406]


@pytest.fixture
def weights(tmp_path):
    """The fields of an order with a folder of pretrained weights, `published`."""
    build("rf_detr").network.save_pretrained(tmp_path / "models" / "published")
    return {"models_dir": str(tmp_path / "models")}


def test_a_job_starts_from_a_folder_and_lowers_its_loss(make_detection_job, start, weights):
    training = {"epochs": 3, "batch_size": 8, "augment": PLAIN, "ema": None, "clip_norm": None}
    training["optimizer"] = {"name": "adamw", "lr": 2e-3}
    job_dir = make_detection_job(
        model={"pretrained": "published"}, training=training, order=weights
    )
    loop, setup = start(job_dir)
    model = setup.spec.model
    assert (model.source, model.name) == ("transformers", "rf_detr")
    assert model.config["d_model"] == TINY["rf_detr"]["d_model"]
    assert model.initial_weights.startswith("sha256 ")
    assert "training starts from published" in job_dir.events_path.read_text()
    loop.run()
    points = loop.history.series
    assert points["val/loss"][-1][1] < points["val/loss"][0][1]
    assert {"val/loss", "val/map", "val/map50", "val/map75"} == set(loop.best_metrics)
    assert len(setup.preview()) == setup.counts["validation"]
    exportable = setup.make_exportable()
    assert exportable.module.mean.flatten().tolist() == pytest.approx(IMAGENET_MEAN)


def test_the_backbone_learns_at_a_tenth_of_the_rate(make_detection_job, start):
    job_dir = make_detection_job(model={"name": "rf_detr", "config": TINY["rf_detr"]})
    loop, setup = start(job_dir)
    loop.advance(1)
    training = setup.spec.training
    assert (training.backbone_lr, training.clip_norm) == (0.1, 0.1)
    assert training.optimizer.lr == 2e-4
    head, backbone = loop._stepper.optimizer.param_groups
    assert backbone["lr"] == pytest.approx(head["lr"] / 10)
    assert len(backbone["params"]) == len(list(setup.model.backbone.parameters()))


def test_a_detection_job_of_the_same_type_gives_its_weights(make_detection_job, start, tmp_path):
    from safetensors.torch import save_file

    model = {"name": "rf_detr", "config": TINY["rf_detr"]}
    _, first = start(make_detection_job("first", model=model))
    path = tmp_path / "checkpoint.safetensors"
    metadata = {"task": "object-detection", "model": first.spec.model.model_dump_json()}
    tensors = {name: value.contiguous().clone() for name, value in first.model.state_dict().items()}
    save_file(tensors, path, metadata=metadata)
    order = {"initial": str(path)}
    named = {"name": "rf_detr", "pretrained": "job:job_1"}
    _, second = start(make_detection_job("second", model=named, order=order))
    ours, theirs = second.model.state_dict(), first.model.state_dict()
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())
    with pytest.raises(TrainingFailed, match=r"set model\.name to rf_detr"):
        start(make_detection_job("third", model="job:job_1", order=order))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_does_not_fit_is_split(
    make_detection_job, start, losses, run_out_of_memory, kind
):
    options = {"model": {"name": kind, "config": TINY[kind]}, "training": {"ema": None}}
    whole = make_detection_job("whole", **options)
    start(whole)[0].advance(1)
    split = make_detection_job("split", **options)
    loop, setup = start(split)
    run_out_of_memory(setup.model, limit=4)
    loop.advance(1)
    assert setup.spec.training.accumulation == 2
    # Each part divides its loss by its own objects, and draws its own denoising queries.
    assert losses(split)[1] == pytest.approx(losses(whole)[1], rel=0.15)


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_job_continues_with_the_same_losses(make_detection_job, start, losses, kind):
    options = {"model": {"name": kind, "config": TINY[kind]}}
    straight = make_detection_job("straight", **options)
    start(straight)[0].run()
    moved = make_detection_job("moved", **options)
    loop, _ = start(moved)
    loop.advance(3)
    loop._save(is_best=False, metrics={})
    newest = CheckpointStore(moved.checkpoints_dir).manifests()[-1].name
    start(make_detection_job("moved", **options, order={"resume": newest}))[0].run()
    assert losses(moved) == losses(straight)


@pytest.mark.parametrize("kind", ["d_fine", "rt_detr_v2"])
def test_the_file_takes_batches_of_any_size_and_repeats_torch_s_boxes(tmp_path, kind):
    exportable = make_exportable(build(kind), mean=[0.0] * 3, std=[1.0] * 3, architecture={})
    path = tmp_path / "model.onnx"
    write_onnx(exportable, path, opset=20, metadata={})
    session = open_session(path, threads=1)
    heads = open_session(path, threads=1, compared=exportable.output)
    for num in (1, 5):
        images = np.random.default_rng(num).random((num, 3, 64, 64), dtype=np.float32)
        feed = {"images": images, "threshold": np.array([0.001], np.float32)}
        wanted = exportable.predict_compared(feed)
        assert compare_outputs(heads.run(None, feed)[0], wanted).relative < 1e-4
        assert join_outputs(session.run(None, feed)).shape == (num, 100, 6)
