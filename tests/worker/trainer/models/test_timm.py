"""Models of timm, in the environment that has torchvision (`make vision`)."""

import pytest
import safetensors.torch
import torch

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

pytestmark = pytest.mark.vision


@pytest.mark.parametrize("name", ["test_resnet", "test_vit"])
def test_a_model_of_timm_trains_and_exports_verified(make_job, events, name):
    job_dir = make_job(
        model={"name": f"timm:{name}", "options": {"image_size": 32}}, training={"epochs": 1}
    )
    assert run_job(job_dir, StopSignal()) == 0, job_dir.events_path.read_text()[-2000:]
    assert export_job(job_dir) == 0, job_dir.events_path.read_text()[-2000:]
    assert events(job_dir, "result")[0]["data"]["verified"], events(job_dir, "warning")
    resolved = events(job_dir, "resolved")[-1]["data"]["spec"]["model"]
    assert (resolved["source"], resolved["name"]) == ("timm", name)


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory):
    """A tiny model of timm as the hub has it, with a head of 5 classes."""
    import json

    import timm

    folder = tmp_path_factory.mktemp("models") / "mine" / "tiny"
    folder.mkdir(parents=True)
    torch.manual_seed(4)
    network = timm.create_model("test_resnet", num_classes=5)
    safetensors.torch.save_file(network.state_dict(), folder / "model.safetensors")
    cfg = {"input_size": [3, 24, 24], "num_classes": 5, "first_conv": "conv1", "classifier": "fc"}
    config = {"architecture": "test_resnet", "num_classes": 5, "pretrained_cfg": cfg}
    (folder / "config.json").write_text(json.dumps(config))
    return folder.parents[1]


def test_pretrained_weights_are_loaded_except_for_the_head(make_job, start, models_dir):
    job_dir = make_job(
        model={"source": "timm", "name": "auto", "pretrained": "mine/tiny"},
        training={"freeze_backbone_epochs": 1},
        order={"models_dir": str(models_dir)},
    )
    _, setup = start(job_dir)
    theirs = safetensors.torch.load_file(models_dir / "mine" / "tiny" / "model.safetensors")
    mine = setup.model.network.state_dict()
    assert all(torch.equal(mine[k], v) for k, v in theirs.items() if not k.startswith("fc."))
    assert mine["fc.weight"].shape[0] == 3
    assert (setup.spec.model.name, setup.spec.model.options.image_size) == ("test_resnet", 24)
    assert setup.spec.model.initial_weights.startswith("sha256 ")


@pytest.mark.parametrize(
    ("model", "pointer", "message"),
    [
        ({"name": "timm:resnet19"}, "/model/name", "timm has no model 'resnet19'; did you mean"),
        (
            {"name": "timm:vit_tiny_patch16_224", "options": {"image_size": 8}},
            "/model/options/image_size",
            "8",
        ),
        (
            {"name": "timm:test_resnet", "config": {"no_such": 1}},
            "/model/config",
            "timm cannot build test_resnet",
        ),
        (
            {"name": "timm:test_resnet", "config": {"pretrained": True}},
            "/model/config/pretrained",
            "set initial weights with model.pretrained",
        ),
        (
            {"name": "timm:test_vit", "pretrained": "mine/tiny"},
            "/model/name",
            "the pretrained weights are of a test_resnet, not of a test_vit",
        ),
    ],
)
def test_a_model_that_cannot_be_built_is_refused_with_a_pointer(
    make_job, start, models_dir, model, pointer, message
):
    job_dir = make_job(model=model, order={"models_dir": str(models_dir)})
    with pytest.raises(TrainingFailed) as caught:
        start(job_dir)
    failure = caught.value.failure
    assert failure.code is FailureCode.BAD_INPUT
    assert failure.details["pointer"] == pointer
    assert message in failure.message
