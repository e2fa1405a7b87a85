"""A backbone that is frozen at first: what is trained, at which rate, and what a stop changes."""

from dataclasses import replace

import pytest
import safetensors.torch
import torch

from redkiln.spec.image_models import Model
from redkiln.spec.schedule import learning_rate
from worker.checkpoints.checkpoint import CheckpointStore
from worker.process.lifetime import Stopped
from worker.trainer.models import build_model
from worker.trainer.models.backbone import find_head
from worker.trainer.optim.optimizer import optimizer_tensors

STEPS_AN_EPOCH = 6
SETTINGS = [
    {"optimizer": "adamw", "ema": 0.9},
    {"optimizer": "sgd", "schedule": "one-cycle"},
    {"optimizer": "muon", "clip_norm": 0.5},
    {"optimizer": "adamw", "precision": "fp16"},
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A job's checkpoint: a mnist-cnn, which has batch norm and dropout, for two classes."""
    model = Model.model_validate(
        {"name": "mnist-cnn", "options": {"image_size": 12, "channels": 3, "dropout": 0.2}}
    )
    torch.manual_seed(8)
    path = tmp_path_factory.mktemp("source") / "checkpoint.safetensors"
    weights = build_model(model, num_classes=2).state_dict()
    safetensors.torch.save_file(weights, path, metadata={"model": model.model_dump_json()})
    return path


@pytest.fixture
def make_thawing_job(make_job, trained):
    """A job of three epochs, the first of which trains the head alone."""

    def make(name="job", *, order=None, **training):
        return make_job(
            name,
            model={"name": "job:job_0"},
            training={"freeze_backbone_epochs": 1, "epochs": 3, **training},
            order={"initial": str(trained), **(order or {})},
        )

    return make


def is_trained(loop):
    """Names of the parameters that the optimiser has moments of."""
    tensors = optimizer_tensors(loop._setup.model, loop._stepper.optimizer)
    return {name.rpartition("/")[0] for name in tensors}


@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "muon", "lion"])
def test_the_optimiser_admits_a_thawed_backbone_at_the_current_rate(
    make_thawing_job, start, optimizer
):
    loop, setup = start(make_thawing_job(optimizer=optimizer))
    before = {name: tensor.clone() for name, tensor in setup.model.state_dict().items()}
    head = {f"head.{name}" for name, _ in find_head(setup.model).named_parameters()}
    loop.advance(STEPS_AN_EPOCH)
    after = setup.model.state_dict()
    assert {name for name in after if not torch.equal(after[name], before[name])} == head
    assert is_trained(loop) == head

    loop.advance(2)
    assert is_trained(loop) == {name for name, _ in setup.model.named_parameters()}
    wanted = learning_rate(
        setup.spec.training.schedule,
        start=setup.spec.training.optimizer.lr,
        step=STEPS_AN_EPOCH + 1,
        steps=setup.plan.steps,
        steps_per_epoch=setup.plan.steps_per_epoch,
    )
    assert loop._stepper.optimizer.param_groups
    assert {group["lr"] for group in loop._stepper.optimizer.param_groups} == {wanted}
    assert all(module.training for module in setup.model.modules())


def test_optimiser_moments_begin_when_their_weights_thaw(make_thawing_job, start):
    loop, setup = start(make_thawing_job())
    loop.advance(STEPS_AN_EPOCH + 2)
    tensors = optimizer_tensors(setup.model, loop._stepper.optimizer)
    steps = {name: float(tensor) for name, tensor in tensors.items() if name.endswith("/step")}
    assert steps.pop("head.weight/step") == steps.pop("head.bias/step") == STEPS_AN_EPOCH + 2
    assert set(steps.values()) == {2.0}


@pytest.mark.parametrize("stop_after", [3, STEPS_AN_EPOCH, STEPS_AN_EPOCH + 2])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_run_stopped_before_at_or_after_the_thaw_resumes_exactly(
    make_thawing_job, start, losses, settings, stop_after
):
    straight = make_thawing_job("straight", **settings)
    loop, setup = start(straight)
    loop.run()
    cut = make_thawing_job("cut", **settings)
    with pytest.raises(Stopped):
        start(cut, stop_after=stop_after)[0].run()
    newest = CheckpointStore(cut.checkpoints_dir).manifests()[-1]
    assert newest.step == stop_after
    resumed, resumed_work = start(make_thawing_job("cut", order={"resume": newest.name}))
    resumed.run()
    assert losses(cut) == losses(straight)
    wanted = setup.model.state_dict()
    for name, tensor in resumed_work.model.state_dict().items():
        assert torch.equal(tensor, wanted[name]), name


def test_going_back_past_the_thaw_freezes_again(make_thawing_job, start, losses):
    job_dir = make_thawing_job(on_divergence="rollback")
    loop, setup = start(job_dir)
    rate = setup.spec.training.optimizer.lr
    left = {STEPS_AN_EPOCH + 2}

    def loss(outputs, targets, *, own=loop._setup.loss):
        is_wrong = loop.step + 1 in left
        left.discard(loop.step + 1)
        return own(outputs, targets) * (float("nan") if is_wrong else 1.0)

    loop._stepper.gradients._setup = replace(loop._setup, loss=loss)
    # The only checkpoint to go back to lies within the frozen epoch.
    loop.advance(4)
    loop._save(is_best=False, metrics={})
    loop._store.save = lambda *_, **__: CheckpointStore(job_dir.checkpoints_dir).manifests()[-1]
    loop.advance(4)
    del loop._store.save
    loop.run()

    other = make_thawing_job("undisturbed")
    straight, other_work = start(other)
    straight.advance(4)
    other_work.spec.training.optimizer.lr = rate / 2
    straight.run()
    assert losses(job_dir) == losses(other)
    assert is_trained(loop) == {name for name, _ in setup.model.named_parameters()}
