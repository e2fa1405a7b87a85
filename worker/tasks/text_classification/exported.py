"""A text classifier for export: it takes tokens and their mask, and returns logits.

Shapes: N texts, B batch, T tokens of a batch's longest text.
"""

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.predict.texts import feed_tokens
from worker.export.exportable import OTHER_BATCH, TRACED_BATCH, Exportable
from worker.export.target import Arrays
from worker.trainer.text.network import TextClassifier
from worker.trainer.text.synthetic import end_texts, find_end, make_synthetic_ids
from worker.trainer.text.tokens import Tokens

IDS, MASK, OUTPUT = "input_ids", "attention_mask", "logits"
AXES = {0: "batch", 1: "tokens"}
TRACED_LENGTH = 8
OTHER_LENGTH = 13
"""Tokens of the rehearsal's texts, unless the network reads only fewer."""


def make_text_exportable(
    network: TextClassifier, *, config: dict[str, Any], max_length: int
) -> Exportable:
    """Copy a network to the CPU, with generated texts of two sizes.

    Args:
        network: The network in training.
        config: The network's whole configuration.
        max_length: Most tokens that it reads.
    """
    module = copy.deepcopy(network).cpu().eval().requires_grad_(False)
    traced, other = min(TRACED_LENGTH, max_length), min(OTHER_LENGTH, max_length)
    return Exportable(
        module,
        examples=_make_up(TRACED_BATCH, traced, config),
        others=_make_up(OTHER_BATCH, other, config),
        output=OUTPUT,
        architecture={"source": "transformers", **config},
        dynamic={IDS: AXES, MASK: AXES},
    )


class TextSamples:
    """Tokenised texts as samples."""

    noun = "texts"

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def get(self, rows: NDArray[np.int64]) -> Arrays:
        """Return tokens and masks of some texts, (N, T) with T for the longest of all texts."""
        offsets, facts = self._tokens.offsets, self._tokens.facts
        ids = np.full((len(rows), facts.longest), facts.pad_id, dtype=np.int32)
        mask = np.zeros((len(rows), facts.longest), dtype=np.int8)
        for place, row in enumerate(rows):
            some = self._tokens.ids[offsets[row] : offsets[row + 1]]
            ids[place, : len(some)] = some
            mask[place, : len(some)] = 1
        return {IDS: ids, MASK: mask}

    def feed(self, raw: Arrays) -> Arrays:
        """Return them as int64, without columns that are padding in every row."""
        return feed_tokens(raw[IDS], raw[MASK])


def preprocessing_of_texts(
    tokens: Tokens,
    *,
    column: str,
    target: str,
    max_length: int,
    lowercase: bool | None,
    output: str = OUTPUT,
    labels_separator: str | None = None,
    encoding: str | None = None,
) -> dict[str, Any]:
    """Return how a text becomes the model's inputs, as JSON.

    Args:
        tokens: The data set's tokens.
        column: Name of the column with the texts.
        target: Name of the column with the classes.
        max_length: Tokens after which a text is truncated.
        lowercase: Whether case is ignored; None if the pretrained tokenizer decides.
        output: Name of the model's output.
        labels_separator: Separator of the labels in the target, if a text can have several.
        encoding: Encoding of the training table, if its owner named one.
    """
    known: dict[str, Any] = {} if lowercase is None else {"lowercase": lowercase}
    known |= {} if labels_separator is None else {"labels_separator": labels_separator}
    known |= {} if encoding is None else {"encoding": encoding}
    return {
        "inputs": [IDS, MASK],
        "output": output,
        "dtype": "int64",
        "layout": "(batch, tokens)",
        "tokenizer": "tokenizer.json",
        "column": column,
        "target": target,
        "max_length": max_length,
        "pad_id": tokens.facts.pad_id,
        "vocabulary_size": tokens.facts.vocabulary_size,
        **known,
    }


def _make_up(num: int, length: int, config: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Generate texts of arbitrary tokens; the first one is padded to half of its length."""
    vocabulary = int(config["vocab_size"])
    ids = make_synthetic_ids(num, length=length, vocabulary=vocabulary)
    mask = torch.ones_like(ids)
    mask[0, length // 2 :] = 0
    ids = end_texts(ids, end=find_end(config), vocabulary=vocabulary, mask=mask)
    return {IDS: ids.masked_fill(mask == 0, config["pad_token_id"]), MASK: mask}
