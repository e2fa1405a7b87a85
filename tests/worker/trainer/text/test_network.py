import pytest
import torch
from transformers import DistilBertConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

from redkiln.tasks.text_classification import (
    DISTILBERT_FIELDS,
    NGRAMS,
    NGRAMS_FIELDS,
    SHARED_FIELDS,
    WELL_KNOWN,
    Model,
)
from tests.worker.trainer.text.small_model import LENGTH, OPTIONS, VOCABULARY, build, described
from worker.trainer.models.backbone import find_head
from worker.trainer.text.ngrams import NgramsConfig
from worker.trainer.text.tokenizer import END, SPECIAL
from worker.trainer.text.trial_reading import check_reading, takes_prepared_mask


@pytest.mark.parametrize(
    "name",
    [
        "albert", "bart", "bert", "deberta-v2", "distilbert", "electra", "falcon", "flaubert",
        "gemma", "gemma2", "gpt2", "gptj", "llama", "mbart", "mistral", "modernbert", "opt",
        "phi3", "qwen2", "qwen3", "roberta", "smollm3", "stablelm", "t5", "xlm",
    ],
)  # fmt: skip
def test_an_architecture_is_built_in_the_requested_size_and_learns(name):
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


@pytest.mark.parametrize("name", ["bart", "mbart", "t5"])
def test_a_decoder_gets_the_requested_layers_heads_and_widths_too(name):
    config = described(name)
    layers = [value for key, value in config.items() if key.endswith("_layers")]
    heads = [value for key, value in config.items() if key.endswith("_heads")]
    widths = [value for key, value in config.items() if key.endswith("ffn_dim") or key == "d_ff"]
    assert {*layers} == {OPTIONS.layers}
    assert {*heads} == {OPTIONS.heads}
    assert {*widths} == {4 * OPTIONS.dim}


def test_no_name_of_transformers_is_taken_for_a_typing_mistake():
    known = {*MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES, NGRAMS, "auto"}
    assert {Model(name=name).name for name in known} == known >= set(WELL_KNOWN)


def test_fields_of_what_auto_may_be_are_those_of_its_configurations():
    own, theirs = NgramsConfig(), DistilBertConfig()
    assert {*theirs.to_dict(), *theirs.attribute_map} - {*own.to_dict()} == {*DISTILBERT_FIELDS}
    assert {*own.to_dict()} - {*theirs.to_dict()} == {*NGRAMS_FIELDS}
    assert {*own.to_dict(), "num_labels"} & {*theirs.to_dict(), "num_labels"} == {*SHARED_FIELDS}
