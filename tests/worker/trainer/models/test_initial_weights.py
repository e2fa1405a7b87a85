"""Where the first weights come from, over the whole way from an order to a trained model."""

import json

import pytest
import safetensors.torch
import torch

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped, StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

pytestmark = pytest.mark.usefixtures("rehearsed")

SMALL_VIT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def train(job_dir):
    assert run_job(job_dir, StopSignal()) == 0, job_dir.events_path.read_text()[-2000:]
    assert export_job(job_dir) == 0, job_dir.events_path.read_text()[-2000:]


def failure_of(start, job_dir):
    with pytest.raises(TrainingFailed) as caught:
        start(job_dir)
    failure = caught.value.failure
    assert failure.code is FailureCode.BAD_INPUT
    return failure


@pytest.mark.parametrize("model_type", ["resnet", "convnext", "vit"])
def test_an_architecture_of_transformers_trains_and_exports_verified(
    make_job, events, tiny_configs, model_type
):
    config = {k: v for k, v in tiny_configs[model_type].items() if k != "image_size"}
    job_dir = make_job(
        model={"source": "transformers", "name": model_type, "config": config},
        training={"epochs": 1},
    )
    train(job_dir)
    result = events(job_dir, "result")[0]["data"]
    assert result["verified"], events(job_dir, "warning")
    resolved = events(job_dir, "resolved")[-1]["data"]["spec"]["model"]
    assert resolved["config"]["model_type"] == model_type
    assert resolved["config"]["num_channels"] == 3


def test_pretrained_weights_are_loaded_except_for_the_head(make_job, start, models_dir, events):
    job_dir = make_job(
        model={"name": "resnet", "pretrained": "mine/resnet"},
        training={"epochs": 1},
        order={"models_dir": str(models_dir)},
    )
    _, setup = start(job_dir)
    theirs = safetensors.torch.load_file(models_dir / "mine" / "resnet" / "model.safetensors")
    mine = setup.model.network.state_dict()
    assert all(torch.equal(mine[k], v) for k, v in theirs.items() if "classifier" not in k)
    assert mine["classifier.1.weight"].shape[0] == 3
    resolved = setup.spec.model
    assert resolved.initial_weights.startswith("sha256 ")
    assert resolved.config["hidden_sizes"] == [8, 16]
    said = [event["data"]["text"] for event in events(job_dir, "message")]
    assert any("classifier.1.weight" in text and "new weights: " in text for text in said)


def test_weights_other_than_those_of_a_resolved_spec_are_refused(make_job, start, models_dir):
    model = {"name": "resnet", "pretrained": "mine/resnet"}
    order = {"models_dir": str(models_dir)}
    _, setup = start(make_job("first", model=model, order=order))
    resolved = setup.spec.model.model_dump(mode="json")
    _, again = start(make_job("again", model=resolved, order=order))
    assert again.spec.model == setup.spec.model
    weights = models_dir / "mine" / "resnet" / "model.safetensors"
    theirs = safetensors.torch.load_file(weights)
    safetensors.torch.save_file({k: v + 1 for k, v in theirs.items()}, weights)
    with pytest.raises(TrainingFailed) as caught:
        start(make_job("changed", model=resolved, order=order))
    assert caught.value.failure.details["pointer"] == "/model/initial_weights"


def test_images_are_resized_to_the_size_of_the_pretrained_weights(make_job, start, models_dir):
    job_dir = make_job(
        model={"name": "auto", "pretrained": "mine/vit"},
        training={"epochs": 1},
        order={"models_dir": str(models_dir)},
    )
    _, setup = start(job_dir)
    assert (setup.spec.model.name, setup.spec.model.options.image_size) == ("vit", 12)


def test_one_field_of_a_pretrained_vision_config_can_be_changed(
    make_job, start, models_dir, tiny_configs
):
    _, setup = start(
        make_job(
            model={
                "name": "auto",
                "pretrained": "mine/siglip",
                "config": {"vision_config": {"attention_dropout": 0.5}},
            },
            order={"models_dir": str(models_dir)},
        )
    )
    wanted = {**tiny_configs["siglip"]["vision_config"], "attention_dropout": 0.5}
    seen = setup.spec.model.config["vision_config"]
    assert {name: seen[name] for name in wanted} == wanted
    theirs = safetensors.torch.load_file(models_dir / "mine" / "siglip" / "model.safetensors")
    mine = setup.model.network.state_dict()
    assert all(torch.equal(mine[k], v) for k, v in theirs.items() if "classifier" not in k)


def test_only_the_head_trains_in_a_model_that_is_all_backbone(make_job, start, models_dir):
    job_dir = make_job(
        model={"name": "auto", "pretrained": "mine/siglip"},
        training={"epochs": 1, "freeze_backbone_epochs": 1},
        order={"models_dir": str(models_dir)},
    )
    loop, setup = start(job_dir)
    assert setup.spec.model.options.image_size == 16
    before = {name: tensor.clone() for name, tensor in setup.model.state_dict().items()}
    loop.run()
    state = setup.model.state_dict()
    changed = {name for name, tensor in state.items() if not torch.equal(tensor, before[name])}
    assert changed == {"network.classifier.weight", "network.classifier.bias"}


def test_a_resumed_job_does_not_load_its_pretrained_model_again(
    make_job, start, models_dir, losses, tmp_path
):
    spec = {
        "model": {"name": "auto", "pretrained": "mine/resnet"},
        "training": {"epochs": 3, "freeze_backbone_epochs": 1},
    }
    order = {"models_dir": str(models_dir)}
    whole = make_job("whole", order=order, **spec)
    loop, setup = start(whole)
    loop.run()
    end = setup.model.state_dict()
    # Once while it is frozen, once thereafter.
    for stop_after in (2, 9):
        cut = make_job(f"cut-{stop_after}", order=order, **spec)
        loop, _ = start(cut, stop_after=stop_after)
        with pytest.raises(Stopped):
            loop.run()
        resume = sorted(path.name for path in cut.checkpoints_dir.glob("*.safetensors"))[-1]
        order_now = json.loads(cut.order_path.read_text())
        order_now |= {"resume": resume, "models_dir": str(tmp_path / "nothing-here")}
        cut.order_path.write_text(json.dumps(order_now))
        loop, setup = start(cut)
        loop.run()
        assert losses(cut) == losses(whole)
        state = setup.model.state_dict()
        assert all(torch.equal(state[name], end[name]) for name in end)


@pytest.mark.parametrize(
    ("model", "pointer", "message"),
    [
        ({"name": "transformers:resnext"}, "/model/name", "did you mean 'resnet'"),
        (
            {"name": "vit", "config": {"patch_size": 5}},
            "/model/options/image_size",
            "set model.options.image_size to 10 or 15, or model.config.patch_size to one of 1, 2, ",
        ),
        (
            {"name": "vit", "config": {"pach_size": 4}},
            "/model/config/pach_size",
            "did you mean 'patch_size'",
        ),
        ({"name": "vit", "config": {"patch_size": "x"}}, "/model/config", "patch_size"),
        (
            {"name": "vit", "config": {"patch_size": 4, "hidden_size": 10}},
            "/model/config",
            "transformers cannot build vit",
        ),
        (
            {"name": "vit", "config": {"patch_size": 4, "hidden_act": "relu7"}},
            "/model/config",
            "transformers cannot build vit (KeyError: ",
        ),
        (
            {"name": "convnext", "config": {"hidden_sizes": [8], "depths": [1, 1]}},
            "/model/config",
            "transformers cannot build convnext (IndexError: ",
        ),
        (
            {
                "name": "vit",
                "config": {"patch_size": 4, "return_dict": False, **SMALL_VIT},
            },
            "/model/options/image_size",
            "check model.config",
        ),
        (
            {"name": "swin", "config": {"embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2]}},
            "/model/options/image_size",
            "set model.options.image_size to ",
        ),
        (
            {"name": "vit", "pretrained": "mine/resnet"},
            "/model/name",
            "the pretrained weights are of a resnet, not of a vit",
        ),
        (
            {"pretrained": "mine/vit", "options": {"image_size": 16}},
            "/model/options/image_size",
            "set image_size and channels to auto",
        ),
        (
            {"pretrained": "mine/resnet", "options": {"channels": 1}},
            "/model/options/image_size",
            "do not fit",
        ),
        ({"name": "timm:resnet18"}, "/model/source", "need the packages timm and torchvision"),
        (
            {"name": "transformers:hgnet_v2", "options": {"channels": 1}},
            "/model/options/channels",
            "with 1 channel (RuntimeError: ",
        ),
        (
            {"name": "transformers:textnet", "options": {"channels": 1}},
            "/model/options/channels",
            "; set model.options.channels to 3",
        ),
        *(
            (
                {"name": "transformers:clip", "config": {"vision_config": wrong}},
                "/model/config/vision_config",
                "vision_config must be an object of fields",
            )
            for wrong in (5, "x", None, [])
        ),
    ],
)
def test_a_model_that_cannot_be_built_is_refused_with_a_pointer(
    make_job, start, models_dir, model, pointer, message
):
    job_dir = make_job(model={"name": "auto", **model}, order={"models_dir": str(models_dir)})
    failure = failure_of(start, job_dir)
    assert message in failure.message
    assert failure.details["pointer"] == pointer


@pytest.fixture(scope="session")
def trained_checkpoint(tmp_path_factory):
    """A file as the export leaves it: weights of a mnist-cnn for two classes, and its model."""
    return save_checkpoint(tmp_path_factory.mktemp("source"), num_classes=2)


def save_checkpoint(folder, *, num_classes):
    from redkiln.spec.image_models import Model
    from worker.trainer.models import build_model

    model = Model.model_validate(
        {"name": "mnist-cnn", "options": {"image_size": 12, "channels": 3, "dropout": 0.3}}
    )
    torch.manual_seed(8)
    network = build_model(model, num_classes=num_classes)
    path = folder / "checkpoint.safetensors"
    safetensors.torch.save_file(
        network.state_dict(), path, metadata={"model": model.model_dump_json()}
    )
    return path


def test_a_job_starts_from_another_jobs_weights_with_a_new_head(
    make_job, start, trained_checkpoint
):
    job_dir = make_job(
        model={"name": "job:job_1"},
        training={"freeze_backbone_epochs": 1},
        order={"initial": str(trained_checkpoint)},
    )
    _, setup = start(job_dir)
    theirs = safetensors.torch.load_file(trained_checkpoint)
    mine = setup.model.state_dict()
    assert mine["head.weight"].shape[0] == 3
    assert all(torch.equal(mine[k], v) for k, v in theirs.items() if not k.startswith("head."))
    resolved = setup.spec.model
    assert (resolved.source, resolved.name) == ("builtin", "mnist-cnn")
    assert resolved.pretrained == "job:job_1"
    assert resolved.options.dropout == 0.3


def test_a_job_of_as_many_classes_keeps_the_head(make_job, start, events, tmp_path):
    path = save_checkpoint(tmp_path, num_classes=3)
    job_dir = make_job(model={"name": "job:job_1"}, order={"initial": str(path)})
    _, setup = start(job_dir)
    mine, theirs = setup.model.state_dict(), safetensors.torch.load_file(path)
    assert all(torch.equal(mine[name], weights) for name, weights in theirs.items())
    texts = [event["data"]["text"] for event in events(job_dir, "message")]
    (text,) = [text for text in texts if "training starts from" in text]
    assert "new weights" not in text


def test_a_spec_overrides_options_of_the_job_it_starts_from(make_job, start, trained_checkpoint):
    options = {"dropout": 0.5, "resize": "crop"}
    order = {"initial": str(trained_checkpoint)}
    _, setup = start(make_job(model={"name": "job:job_1", "options": options}, order=order))
    assert setup.spec.model.options.dropout == 0.5
    assert setup.spec.model.options.resize == "crop"


def test_a_job_can_start_from_a_transformers_job_with_another_dropout(
    make_job, start, tiny_configs
):
    fields = {k: v for k, v in tiny_configs["vit"].items() if k != "image_size"}
    options = {"resize": "pad"}
    model = {"source": "transformers", "name": "vit", "config": fields, "options": options}
    first = make_job("first", model=model, training={"epochs": 1})
    train(first)
    order = {"initial": str(first.out_dir / "checkpoint.safetensors")}
    named = {"source": "transformers", "name": "vit", "pretrained": "job:job_1"}
    again = {**named, "config": {"hidden_dropout_prob": 0.5}}
    _, setup = start(make_job("again", model=again, order=order))
    resolved = setup.spec.model
    assert (resolved.config["hidden_dropout_prob"], resolved.config["hidden_size"]) == (0.5, 16)
    assert resolved.options.resize == "pad"
    wrong = {**named, "config": {"hidden_dropuot_prob": 0.5}}
    failure = failure_of(start, make_job("wrong", model=wrong, order=order))
    assert failure.details["pointer"] == "/model/config/hidden_dropuot_prob"


@pytest.mark.parametrize("name", ["resnet18", "transformers:resnet"])
def test_batch_norm_of_one_pixel_and_one_sample_is_refused(make_job, start, name):
    training = {"batch_size": 8, "accumulation": 8}
    small = {"embedding_size": 8, "hidden_sizes": [8] * 4, "depths": [1] * 4}
    model = {"name": name, "options": {"image_size": 8}}
    model |= {} if name == "resnet18" else {"config": {**small, "layer_type": "basic"}}
    failure = failure_of(start, make_job(model=model, training=training))
    assert "at least 2 samples in a micro step" in failure.message
    assert failure.details["pointer"] == "/training/batch_size"


def test_a_job_started_from_another_exports_verified(make_job, start, events, trained_checkpoint):
    job_dir = make_job(
        model={"name": "job:job_1"},
        training={"epochs": 1},
        order={"initial": str(trained_checkpoint)},
    )
    train(job_dir)
    assert events(job_dir, "result")[0]["data"]["verified"]
    # And what it leaves can be started from in turn.
    again = make_job(
        "again",
        model={"name": "job:job_2"},
        training={"epochs": 1},
        order={"initial": str(job_dir.out_dir / "checkpoint.safetensors")},
    )
    start(again)


@pytest.mark.parametrize(
    ("model", "initial", "pointer", "message"),
    [
        ({"name": "job:job_1"}, None, "/model/pretrained", "no longer exists"),
        ({"name": "resnet18", "pretrained": "job:job_1"}, "it", "/model/name", "trained a mnist-c"),
        (
            {"name": "job:job_1", "options": {"image_size": 16}},
            "it",
            "/model/options/image_size",
            "set model.options.image_size and channels to auto",
        ),
        ({"name": "job:job_1"}, "broken", "/model/pretrained", "cannot be read"),
    ],
)
def test_unsuitable_weights_of_another_job_are_refused(
    make_job, start, trained_checkpoint, tmp_path, model, initial, pointer, message
):
    (tmp_path / "broken").write_bytes(b"no tensors")
    path = {"it": str(trained_checkpoint), "broken": str(tmp_path / "broken"), None: None}[initial]
    failure = failure_of(start, make_job(model=model, order={"initial": path}))
    assert message in failure.message
    assert failure.details["pointer"] == pointer
