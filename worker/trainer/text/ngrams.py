"""A linear model of weighted n-grams, which learns from few texts.

It is logistic regression on TF-IDF features, as an architecture of transformers: each n-gram is
hashed to a row of weights, one for each class. If tokens are characters, the n-grams are runs of
characters within words and the blanks around them. Source: hashed n-grams, Joulin et al.,
arXiv:1607.01759; inverse document frequencies as in scikit-learn's TfidfVectorizer, and n-grams as
with its analyzer `char_wb`.

Importing this module registers the architecture. It imports transformers, which takes a while.

Shapes: B batch, T tokens, G n-grams, C classes.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from redkiln.tasks.text_classification import NGRAMS
from worker.trainer.text.tokenizer import SPECIAL

RATE_FACTOR = 30.0
"""Factor of all weights: the default rate suits networks, and linear models need larger steps."""
LEAST_RARITY = 0.3
"""Inverse document frequency of an n-gram that is in every text; scikit-learn has 1, which was
worse for characters. Source: bench.accuracy few-texts, 2026-11-29."""
_SMALL = 1e-3
"""Standard deviation of the first weights."""
_FACTOR, _PRIME = 1_000_003, 2**31 - 1
_SPREAD, _WORD = 2_654_435_761, 2**32
"""Constants of the hash; no product exceeds 63 bits. Source: Knuth, TAOCP 3, section 6.4."""


class NgramsConfig(PretrainedConfig):  # type: ignore[misc]  # transformers has no types
    """Configuration of the architecture.

    Attributes:
        vocab_size: Size of the tokenizer's vocabulary.
        longest: Tokens of the longest n-gram.
        buckets: Rows of weights; n-grams of the same hash share one.
        blank_id: Token of a blank if tokens are characters; n-grams then stay within words. None
            if tokens are parts of words.
    """

    model_type = NGRAMS

    def __init__(
        self,
        vocab_size: int = 8192,
        pad_token_id: int = 0,
        longest: int = 2,
        buckets: int = 2**16,
        blank_id: int | None = None,
        **others: Any,
    ) -> None:
        super().__init__(**others)
        self.vocab_size = vocab_size
        self.pad_token_id = pad_token_id
        self.longest = longest
        self.buckets = buckets
        self.blank_id = blank_id


class NgramsForSequenceClassification(PreTrainedModel):  # type: ignore[misc]
    """Adds up the weights of a text's n-grams, the rare ones most."""

    config_class: ClassVar[type[NgramsConfig]] = NgramsConfig
    config: NgramsConfig

    def __init__(self, config: NgramsConfig) -> None:
        super().__init__(config)
        self.weights = nn.Embedding(config.buckets, config.num_labels)
        self.register_buffer("rarity", torch.ones(config.buckets))
        self.rarity: torch.Tensor
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=_SMALL)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> SequenceClassifierOutput:
        """Compute logits (B, C) of tokens (B, T) int64.

        Args:
            input_ids: The tokens.
            attention_mask: As many elements, 0 where a row is padded.
        """
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        places, is_there = self._hash(input_ids, attention_mask.reshape(input_ids.shape))
        shares = self.rarity[places] * is_there
        norms = shares.square().sum(dim=1, keepdim=True).clamp_min(1.0).sqrt()
        sums = (self.weights(places) * (shares / norms)[..., None]).sum(dim=1)
        return SequenceClassifierOutput(logits=RATE_FACTOR * sums)

    def learn_rarity(self, texts: Iterable[torch.Tensor]) -> None:
        """Set the inverse document frequencies of the n-grams.

        Args:
            texts: Tokens (T,) int64 of each text of the training split.
        """
        counts, num_texts = torch.zeros(self.config.buckets), 0
        for ids in texts:
            places, is_there = self._hash(ids[None], torch.ones_like(ids)[None])
            counts[places[is_there > 0].unique()] += 1  # type: ignore[no-untyped-call]
            num_texts += 1
        self.rarity.copy_(torch.log((1 + num_texts) / (1 + counts)) + LEAST_RARITY)

    def _hash(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows of weights of all n-grams (B, G), and 0 in other places."""
        longest, num = self.config.longest, input_ids.shape[1]
        blank = self.config.blank_id
        if blank is not None:
            # The special tokens around a text end words like blanks.
            input_ids = torch.where(input_ids < len(SPECIAL), blank, input_ids)
        # N-grams that begin with the last tokens would end after the text.
        ids = nn.functional.pad(input_ids, (0, longest - 1))
        mask = nn.functional.pad(attention_mask.bool(), (0, longest - 1))
        found, flags = [], []
        mixed = torch.zeros_like(input_ids)
        is_within = torch.ones_like(input_ids, dtype=torch.bool)
        for behind in range(longest):
            here = ids[:, behind : num + behind]
            mixed = (mixed * _FACTOR + here + 1) % _PRIME
            found.append(mixed)
            flags.append(mask[:, behind : num + behind] & is_within)
            if blank is not None and behind:
                is_within = is_within & (here != blank)
        places = torch.cat(found, dim=1) * _SPREAD % _WORD % self.config.buckets
        return places, torch.cat(flags, dim=1).float()


AutoConfig.register(NGRAMS, NgramsConfig)
AutoModelForSequenceClassification.register(NgramsConfig, NgramsForSequenceClassification)
