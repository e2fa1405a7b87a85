import json
import shutil

import pytest
import torch

from redkiln.failure import FailureCode
from redkiln.tasks.text_classification import Model
from tests.worker.trainer.text.small_model import MAX_LENGTH, OPTIONS, described
from worker.process.failed import TrainingFailed
from worker.trainer.models import hub
from worker.trainer.text.network import build_network, describe_network
from worker.trainer.text.trial_reading import takes_prepared_mask


def test_a_pretrained_model_keeps_its_weights_and_gets_a_head_for_the_classes(
    make_tuning_job, start, models_dir
):
    _, setup = start(make_tuning_job())
    network = setup.model.network
    assert network.classifier.out_features == 3
    torch.manual_seed(1)
    theirs = build_network(described()).network
    assert torch.equal(
        network.distilbert.embeddings.word_embeddings.weight,
        theirs.distilbert.embeddings.word_embeddings.weight,
    )
    spec = setup.spec.model
    assert spec.name == "distilbert"
    assert spec.options.max_length == MAX_LENGTH + 8
    assert spec.initial_weights.startswith("sha256 ")
    assert spec.config["num_labels"] == 3


# Without a checkpoint, and if no checkpoint to resume from can be read.
@pytest.mark.parametrize("order", [{}, {"resume": "step-000000000010"}])
def test_a_resolved_spec_that_is_submitted_again_starts_from_the_same_weights(
    make_tuning_job, start, order
):
    _, first = start(make_tuning_job("first"))
    model = first.spec.model.model_dump(mode="json")
    _, second = start(make_tuning_job("second", model=model, order=order))
    assert second.spec.model == first.spec.model
    theirs = first.model.state_dict()
    for name, tensor in second.model.state_dict().items():
        if "embeddings" in name or "transformer" in name:
            assert torch.equal(tensor, theirs[name]), name


def test_weights_other_than_those_of_a_resolved_spec_are_refused(make_tuning_job, start):
    model = start(make_tuning_job("first"))[1].spec.model.model_dump(mode="json")
    model["initial_weights"] = "sha256 of others"
    with pytest.raises(TrainingFailed) as caught:
        start(make_tuning_job("second", model=model))
    assert caught.value.failure.details["pointer"] == "/model/initial_weights"


def test_a_resumed_job_no_longer_needs_the_pretrained_weights(make_tuning_job, start, losses):
    straight = make_tuning_job("straight", training={"epochs": 2})
    start(straight)[0].run()
    first = make_tuning_job("first", training={"epochs": 2})
    loop, _ = start(first)
    loop.advance(15)
    newest = max(first.checkpoints_dir.glob("*.safetensors"))
    second = make_tuning_job(
        "first",
        training={"epochs": 2},
        order={"resume": newest.stem, "models_dir": "/nowhere"},
    )
    start(second)[0].run()
    assert losses(second) == losses(straight)


def test_a_frozen_backbone_keeps_its_weights_until_it_thaws(make_tuning_job, start):
    loop, setup = start(make_tuning_job(training={"epochs": 2, "freeze_backbone_epochs": 1}))
    before = {name: tensor.clone() for name, tensor in setup.model.state_dict().items()}
    loop.advance(5)
    after = setup.model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert not any(".distilbert." in name for name in changed)


def test_an_unreachable_hub_error_says_where_to_put_the_files(
    make_tuning_job, start, monkeypatch, tmp_path
):
    def unreachable(*_args, **kwargs):
        from huggingface_hub.errors import LocalEntryNotFoundError

        raise LocalEntryNotFoundError("no network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)
    job_dir = make_tuning_job(model={"pretrained": "org/other"})
    with pytest.raises(TrainingFailed, match=r"put its files .* into .*org/other") as caught:
        start(job_dir)
    assert caught.value.failure.code is FailureCode.MODEL_UNAVAILABLE
    assert "tokenizer.json" in hub.TOKENIZER


def test_a_pretrained_model_without_a_tokenizer_is_refused(
    make_tuning_job, start, models_dir, tmp_path
):
    folder = tmp_path / "models" / "bare"
    folder.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((models_dir / "org" / "small" / name).read_bytes())
    order = {"models_dir": str(tmp_path / "models")}
    with pytest.raises(TrainingFailed, match="no usable tokenizer"):
        start(make_tuning_job(model={"pretrained": "bare"}, order=order))


@pytest.mark.parametrize("field", ["trust_remote_code", "code_revision", "to_dict"])
def test_code_in_a_model_folder_is_never_run(make_tuning_job, start, models_dir, tmp_path, field):
    folder = shutil.copytree(models_dir / "org" / "small", tmp_path / "models" / "org" / "small")
    ran = tmp_path / "ran"
    (folder / "own.py").write_text(
        f"open({str(ran)!r}, 'w').close()\n"
        "from transformers import DistilBertConfig\n"
        "class Own(DistilBertConfig): pass\n"
    )
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "own.Own"}
    (folder / "config.json").write_text(json.dumps(config))
    order = {"models_dir": str(tmp_path / "models")}
    model = {"pretrained": "org/small", "config": {field: True}}
    with pytest.raises(TrainingFailed) as caught:
        start(make_tuning_job("asks", order=order, model=model))
    assert caught.value.failure.details["pointer"] == f"/model/config/{field}"
    start(make_tuning_job("silent", order=order))
    assert not ran.exists()


def test_an_architecture_other_than_that_of_the_weights_is_refused(make_tuning_job, start):
    model = {"pretrained": "org/small", "name": "roberta"}
    with pytest.raises(TrainingFailed, match="of a distilbert, not of a roberta"):
        start(make_tuning_job(model=model))


@pytest.mark.parametrize("name", ["distilbert", "bart", "t5"])
def test_a_whole_configuration_describes_itself(name):
    config = described(name)
    again = Model(name=name, options=OPTIONS, config=json.loads(json.dumps(config)))
    assert (
        describe_network(again, max_length=MAX_LENGTH, num_classes=5, vocabulary_size=300) == config
    )


@pytest.mark.parametrize(
    ("name", "expected"), [("distilbert", True), ("bert", True), ("gpt2", False)]
)
def test_masks_are_prepared_only_if_outputs_stay_the_same(name, expected):
    torch.manual_seed(0)
    network = build_network(described(name))
    assert takes_prepared_mask(network, max_length=MAX_LENGTH, vocabulary_size=300) is expected
