"""A small network on texts as a folder of a worker's models has it."""

import torch

from redkiln.tasks.text_classification import Model, Options
from worker.trainer.text.network import build_network, describe_network
from worker.trainer.text.tokenizer import train_tokenizer

MAX_LENGTH = 24
OPTIONS = Options(dim=16, layers=2, heads=2, vocabulary_size=300)


def described(name="distilbert", *, num_classes=5):
    return describe_network(
        Model(name=name, options=OPTIONS),
        max_length=MAX_LENGTH,
        num_classes=num_classes,
        vocabulary_size=300,
    )


def save_model(folder):
    """A network of five classes, and its tokenizer."""
    torch.manual_seed(1)
    build_network(described()).network.save_pretrained(folder)
    tokenizer = train_tokenizer(
        [f"word{number} of the sea" for number in range(200)],
        vocabulary_size=300,
        max_length=MAX_LENGTH,
        lowercase=True,
    )
    tokenizer.save(str(folder / "tokenizer.json"))
