"""A small network on texts as a folder of a worker's models has it."""

import torch

from redkiln.tasks.text_classification import Model, Options
from worker.trainer.text.network import build_network, describe_network
from worker.trainer.text.tokenizer import SPECIAL, train_tokenizer

MAX_LENGTH = 24
LENGTH = 16
VOCABULARY = 300
OPTIONS = Options(dim=16, layers=2, heads=2, vocabulary_size=300)


def described(name="distilbert", *, num_classes=5):
    return describe_network(
        Model(name=name, options=OPTIONS),
        max_length=MAX_LENGTH,
        num_classes=num_classes,
        vocabulary_size=300,
    )


def build(name, *, max_length=LENGTH, **config):
    """A fresh network of an architecture; keyword arguments are fields of its configuration."""
    options = {"dim": 32, "layers": 1, "heads": 4, "max_length": max_length}
    model = Model.model_validate({"name": name, "options": options, "config": config})
    return build_network(
        describe_network(model, max_length=LENGTH, num_classes=3, vocabulary_size=VOCABULARY)
    )


def save_model(folder, name="distilbert", *, finds_special=False):
    """A network of five classes, and its tokenizer, which may find special tokens in texts."""
    torch.manual_seed(1)
    build_network(described(name)).network.save_pretrained(folder)
    tokenizer = train_tokenizer(
        [f"word{number} of the sea" for number in range(200)],
        vocabulary_size=300,
        max_length=MAX_LENGTH,
        lowercase=True,
    )
    if finds_special:
        tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.save(str(folder / "tokenizer.json"))
