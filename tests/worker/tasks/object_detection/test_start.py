"""Detectors that start from the weights of another job."""

import json

import pytest
import torch
from safetensors.torch import save_file

from redkiln.spec.image_models import Model
from worker.process.failed import TrainingFailed
from worker.tasks.object_detection.setup import build_detector
from worker.trainer.models import build_model


@pytest.fixture
def write_checkpoint(tmp_path):
    """Writes the checkpoint of another job; returns the fields of the order that name it."""

    def write(network, model, *, task):
        path = tmp_path / "checkpoint.safetensors"
        metadata = {"task": task, "model": model.model_dump_json()}
        save_file(network.state_dict(), path, metadata=metadata)
        return {"initial": str(path)}

    return write


def classifier(image_size=96, name="resnet18"):
    torch.manual_seed(7)
    model = Model(name=name, options={"image_size": image_size, "channels": 3})
    return build_model(model, num_classes=5), model


def test_a_classifier_gives_its_backbone(make_detection_job, start, write_checkpoint):
    network, model = classifier()
    order = write_checkpoint(network, model, task="image-classification")
    _, setup = start(make_detection_job(model="job:job_1", order=order))
    assert setup.spec.model.name == "dense-medium"
    assert setup.spec.model.initial_weights.startswith("sha256 ")
    assert setup.spec.model.options.image_size == 64, "the side is that of the data"
    backbone = setup.model.backbone.state_dict()
    for name, tensor in network.state_dict().items():
        assert name.startswith("head.") or torch.equal(backbone[name], tensor)


def test_a_detector_gives_all_but_other_classes(make_detection_job, start, write_checkpoint):
    job_dir = make_detection_job("first")
    _, first = start(job_dir)
    theirs = build_detector(first.spec.model, num_classes=7)
    order = write_checkpoint(theirs, first.spec.model, task="object-detection")
    second = make_detection_job("second", model="job:job_1", order=order)
    _, setup = start(second)
    ours = setup.model.state_dict()
    for name, tensor in theirs.state_dict().items():
        is_kept = torch.equal(ours[name], tensor) if ours[name].shape == tensor.shape else False
        assert is_kept != name.startswith("head.to_logits")
    events = second.events_path.read_text()
    assert "new weights: head.to_logits.bias, head.to_logits.weight" in events


@pytest.mark.parametrize(
    ("made", "spec", "message"),
    [
        (classifier(image_size=32), {}, "more than 64 pixels"),
        (classifier(name="amdnet"), {}, "trained a amdnet"),
        (classifier(), {"name": "dense-nano"}, "fit dense-medium, not dense-nano"),
        (classifier(), {"options": {"channels": 1}}, "do not fit the model.*channels to auto"),
    ],
)
def test_weights_that_do_not_fit_are_refused(
    make_detection_job, start, write_checkpoint, made, spec, message
):
    order = write_checkpoint(*made, task="image-classification")
    job_dir = make_detection_job(model={"pretrained": "job:job_1", **spec}, order=order)
    with pytest.raises(TrainingFailed, match=message) as refused:
        start(job_dir)
    assert json.loads(refused.value.failure.model_dump_json())["details"]["pointer"]


def test_weights_of_other_tasks_are_refused(make_detection_job, start, write_checkpoint):
    network, model = classifier()
    order = write_checkpoint(network, model, task="text-classification")
    with pytest.raises(TrainingFailed, match="trained for text-classification"):
        start(make_detection_job(model="job:job_1", order=order))
