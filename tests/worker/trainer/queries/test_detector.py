"""Detectors of transformers behind the interface of our own."""

import pickle
import sys

import pytest
import torch

from tests.worker.trainer.queries.conftest import CLASSES, SIDE, build
from worker.process.failed import TrainingFailed
from worker.trainer.models.hub import PretrainedFiles
from worker.trainer.queries.detector import QueryDetector, QueryLoss


@pytest.fixture
def images():
    return torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))


def test_training_returns_the_library_s_loss_for_each_image(detector, images, targets):
    raw = detector.train()(images, targets)
    loss = QueryLoss()(raw, targets)
    assert raw.shape == (2, 1)
    assert raw[0] == raw[1] == loss > 0
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in detector.parameters())
    detector.zero_grad(set_to_none=True)


def test_a_batch_without_any_object_has_a_finite_loss(detector, images, targets):
    nothing = torch.full_like(targets, -1)
    assert detector.train()(images, nothing).isfinite().all()


def test_a_thousand_objects_an_image_have_a_finite_loss(detector, images):
    many = torch.full((2, 1000, 5), 4.0)
    many[..., 0] = torch.arange(1000) % CLASSES
    many[..., 1:3] = torch.linspace(0, SIDE - 8, 1000)[:, None]
    many[..., 3:] += many[..., 1:3]
    loss = detector.train()(images, many).mean()
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is None or p.grad.isfinite().all() for p in detector.parameters())
    detector.zero_grad(set_to_none=True)


def test_boxes_are_inside_the_image_and_each_query_has_one(detector, images, targets):
    with torch.inference_mode():
        raw = detector.eval()(images, targets)
        boxes, scores, labels = detector.find_boxes(raw, threshold=0.0)
    assert boxes.shape == (2, 100, 4)
    assert ((boxes >= 0) & (boxes <= SIDE)).all()
    assert (scores.diff(dim=1) <= 0).all()
    assert set(labels.unique().tolist()) <= {-1, *range(CLASSES)}
    num = min(100, detector.num_queries * CLASSES)
    assert (labels >= 0).sum(dim=1).tolist() == [num, num]


def test_scores_without_targets_are_those_with_targets(detector, images, targets):
    with torch.inference_mode():
        plain, scored = detector.eval()(images), detector(images, targets)
    assert torch.equal(plain[:, 1:], scored[:, 1:])
    assert (plain[:, 0] == 0).all()
    assert (scored[:, 0] > 0).all()


def test_what_is_compared_does_not_depend_on_the_selection(detector, images):
    with torch.inference_mode():
        raw = detector.eval()(images)
    compared = detector.find_compared(raw)
    queries = detector.num_queries * (CLASSES + 4)
    assert compared.shape[1] == raw.shape[1] - 1 - queries
    assert compared.shape[1] % (CLASSES + 4) == 0
    assert compared.abs().max() <= 20, "places at the border have no infinite coordinates"


def test_decoded_boxes_are_in_pixels(detector):
    width = CLASSES + 4
    raw = torch.zeros(1, 1 + detector.num_queries * width)
    raw[0, -width:] = torch.tensor([0.0, 2.0, -2.0, 0.5, 0.25, 0.5, 0.25])
    boxes, scores = detector.decode(raw)
    assert boxes[0, -1].tolist() == [16.0, 8.0, 48.0, 24.0]
    assert scores[0, -1].argmax() == 1


def test_a_copy_in_another_process_can_be_traced(detector):
    module = sys.modules[type(detector.network).__module__]
    sent = pickle.dumps(detector)
    del module.len
    pickle.loads(sent)
    assert module.len(torch.zeros(3, 2)) == 3
    assert module.len([1, 2]) == 2


def test_random_weights_do_not_freeze_the_statistics_of_batch_norms(detector):
    kinds = {type(module).__name__ for module in detector.backbone.modules()}
    assert not any("Frozen" in kind for kind in kinds)


def test_grey_images_are_taken(targets):
    grey = torch.rand(2, 1, SIDE, SIDE)
    for kind in ("d_fine", "rf_detr"):
        assert build(kind, channels=1).train()(grey, targets).isfinite().all()


@pytest.mark.parametrize("kind", ["rt_detr_v2", "rf_detr"])
def test_pretrained_weights_are_loaded_and_other_classes_are_new(kind, tmp_path):
    theirs = build(kind)
    theirs.network.save_pretrained(tmp_path)
    model = theirs_with_classes(theirs, num_classes=CLASSES + 2)
    files = PretrainedFiles(tmp_path, (tmp_path / "model.safetensors",))
    new = model.load_pretrained(files)
    assert new
    assert all("class_embed" in name or "enc_score_head" in name for name in new)
    ours, before = model.network.state_dict(), theirs.network.state_dict()
    same = [name for name, value in ours.items() if value.shape == before[name].shape]
    assert all(torch.equal(ours[name], before[name]) for name in same if name not in new)
    assert len(same) > len(ours) / 2


def test_weights_of_another_size_are_refused(tmp_path):
    build("rt_detr_v2").network.save_pretrained(tmp_path)
    other = build("rt_detr_v2", channels=1)
    with pytest.raises(TrainingFailed, match=r"pretrained weights do not fit.*channels to auto"):
        other.load_pretrained(PretrainedFiles(tmp_path, (tmp_path / "model.safetensors",)))


def theirs_with_classes(detector, *, num_classes):
    from redkiln.tasks.object_detection import Detector

    config = {**detector.network.config.to_dict(), "num_labels": num_classes}
    kind = detector.network.config.model_type
    options = {"image_size": SIDE, "channels": 3}
    model = Detector(name=kind, options=options).model_copy(update={"config": config})
    return QueryDetector(model, num_classes=num_classes)
