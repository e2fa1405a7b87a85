import pytest
import torch

from redkiln.failure import FailureCode
from redkiln.tasks.text_classification import Model
from worker.trainer.failed import TrainingFailed
from worker.trainer.models.backbone import find_head
from worker.trainer.text.network import (
    build_network,
    check_reading,
    describe_network,
    takes_prepared_mask,
)
from worker.trainer.text.tokenizer import END, SPECIAL

VOCABULARY = 300
LENGTH = 16


def build(name, *, max_length=LENGTH, **config):
    options = {"dim": 32, "layers": 1, "heads": 4, "max_length": max_length}
    model = Model.model_validate({"name": name, "options": options, "config": config})
    return build_network(
        describe_network(model, max_length=LENGTH, num_classes=3, vocabulary_size=VOCABULARY)
    )


@pytest.mark.parametrize(
    "name",
    [
        "albert", "bart", "bert", "deberta-v2", "distilbert", "electra", "falcon", "flaubert",
        "gemma", "gemma2", "gpt2", "gptj", "llama", "mbart", "mistral", "modernbert", "opt",
        "phi3", "qwen2", "qwen3", "roberta", "smollm3", "stablelm", "t5", "xlm",
    ],
)  # fmt: skip
def test_an_architecture_is_built_in_the_size_that_was_asked_for_and_learns(name):
    torch.manual_seed(0)
    network = build(name)
    check_reading(network, max_length=LENGTH, vocabulary_size=VOCABULARY)
    takes_prepared_mask(network, max_length=LENGTH, vocabulary_size=VOCABULARY)
    ids = torch.randint(len(SPECIAL), VOCABULARY, (4, LENGTH))
    ids[:, -1] = SPECIAL.index(END)
    logits = network(ids, torch.ones_like(ids))
    assert logits.shape == (4, 3)
    torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 0])).backward()
    assert any(p.grad is not None and p.grad.any() for p in find_head(network).parameters())


@pytest.mark.parametrize(
    ("build_it", "pointer", "words"),
    [
        (lambda: build("deepseek_v2"), "/model/config", "cannot read texts (TypeError: "),
        (
            lambda: build("distilbert", max_position_embeddings=8),
            "/model/options/max_length",
            "cannot read texts of 16 tokens",
        ),
    ],
)
def test_what_cannot_read_is_refused_with_what_to_change(build_it, pointer, words):
    with pytest.raises(TrainingFailed) as caught:
        check_reading(build_it(), max_length=LENGTH, vocabulary_size=VOCABULARY)
    failure = caught.value.failure
    assert failure.code is FailureCode.BAD_INPUT
    assert failure.details["pointer"] == pointer
    assert words in failure.message


@pytest.mark.parametrize("name", ["fnet", "funnel", "xlnet"])
def test_what_takes_padding_for_a_part_of_the_text_is_refused(name):
    torch.manual_seed(0)
    with pytest.raises(TrainingFailed, match="depends on the padding behind it") as caught:
        check_reading(build(name), max_length=LENGTH, vocabulary_size=VOCABULARY)
    assert caught.value.failure.code is FailureCode.BAD_INPUT
    assert caught.value.failure.details["pointer"] == "/model/name"


@pytest.mark.parametrize("name", ["convbert", "nystromformer"])
def test_what_padding_changes_by_next_to_nothing_is_no_reason_to_refuse(name):
    torch.manual_seed(0)
    check_reading(build(name), max_length=LENGTH, vocabulary_size=VOCABULARY)


def test_what_cannot_read_padded_texts_is_refused_before_it_is_trained(monkeypatch):
    network = build("distilbert")
    forward = network.forward

    def assert_unpadded(ids, mask=None):
        assert mask is None
        return forward(ids)

    monkeypatch.setattr(network, "forward", assert_unpadded)
    with pytest.raises(TrainingFailed, match="a short text beside a longer one") as caught:
        check_reading(network, max_length=LENGTH, vocabulary_size=VOCABULARY)
    assert caught.value.failure.details["pointer"] == "/model/name"
