"""Checks, before training, that a network can read the texts it is to be trained on.

Shapes: B batch, T tokens.
"""

import contextlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed
from worker.trainer.text.network import TextClassifier
from worker.trainer.text.synthetic import end_texts, find_end
from worker.trainer.text.table import TextTable
from worker.trainer.text.tokens import Tokens

SHORT_TEXT = 4
"""Length in tokens that every network can read."""
PADDED_TEXT = 16
"""Length in tokens next to which a shorter text is padded, unless texts are shorter."""
SAME_PADDED = 0.05
"""Largest difference that padding may make, relative to the largest output.

Source: fresh networks of 1 to 4 blocks, 7 tokens next to 16, n=12 each (transformers 5.23, CPU,
2026-11-22): xlnet 0.4 to 2.5, fnet 0.09 to 1.6, funnel 0.02 to 1.8, none of which can be exported
faithfully; nystromformer up to 0.007 and convbert up to 0.0003, which can; nearly all others 1e-6.
"""
SAME_OUTPUTS = 1e-4
"""Largest difference of two ways to compute the same result, relative to the largest output."""
SHOWN = 80
"""Characters of a text shown in a message."""


def check_reading(network: TextClassifier, *, max_length: int, vocabulary_size: int) -> None:
    """Let a new network on the CPU read a text of full length, and a short one next to another.

    Raises:
        TrainingFailed: it cannot read that many tokens or this vocabulary, or padding changes its
            output.
    """
    ids = _end(network, _texts_of(max_length, vocabulary_size)[:1])
    failed = _fail_to_read(network, ids)
    if failed is None:
        _check_padding(network, length=min(PADDED_TEXT, max_length), vocabulary=vocabulary_size)
        return
    reason = _reason_of(failed)
    if _fail_to_read(network, ids[:, -SHORT_TEXT:]) is None:
        message = (
            f"the network cannot read texts of {max_length} tokens ({reason}); lower "
            "model.options.max_length"
        )
        pointer = "/model/options/max_length"
    else:
        kind = network.network.config.model_type
        message = (
            f"a {kind} with this configuration cannot read texts ({reason}); check model.config, "
            "or choose another model.name"
        )
        pointer = "/model/config"
    raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer) from failed


def check_ends(network: TextClassifier, tokens: Tokens, table: TextTable) -> None:
    """Check that all texts contain the end token equally often, if the network requires that.

    A pretrained tokenizer turns the name of that token in a text into the token.

    Raises:
        TrainingFailed: some texts contain it more often, and the network cannot read them.
    """
    if tokens.end_id is None or not len(tokens.ids):
        return
    counts = np.add.reduceat(tokens.ids == tokens.end_id, tokens.offsets[:-1], dtype=np.int64)
    usual = int(np.bincount(counts).argmax())
    others = np.flatnonzero(counts != usual)
    if not len(others):
        return
    config = network.network.config
    ids = _end(network, _texts_of(SHORT_TEXT, config.vocab_size))
    ids[0, 0] = tokens.end_id
    if _fail_to_read(network, ids) is None:
        return
    (text,) = table.iter_some(others[:1])
    name = _name_of(tokens.end_id, tokens)
    message = (
        f"a {config.model_type} finds the end of a text by the token {name}, so every text must "
        f"contain it the same number of times. {len(others)} of {len(counts)} texts differ; the "
        f"first is {text[:SHOWN]!r}. Remove {name} from these texts, or choose another model"
    )
    raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/dataset")


def takes_prepared_mask(network: TextClassifier, *, max_length: int, vocabulary_size: int) -> bool:
    """Return whether a mask prepared for attention gives the same output as a plain one.

    When transformers prepares a mask it reads the mask's values, and so waits for the device at
    every step. Some architectures add to the mask (causal ones, and those with a window of tokens),
    so this is tried on two texts of full length, with a new network on the CPU.
    """
    if any(getattr(module, "is_causal", False) for module in network.modules()):
        return False
    ids = _texts_of(max_length, vocabulary_size)
    mask = torch.ones_like(ids)
    mask[0, max_length // 2 :] = 0
    ids = _end(network, ids, mask)
    try:
        with _reading(network):
            plain = network(ids, mask)
            prepared = network(ids, mask.bool()[:, None, None, :])
    # As in `_fail_to_read`; xlm and flaubert assert that a mask is plain.
    except Exception:  # noqa: BLE001
        return False
    difference, largest = (plain - prepared).abs().max(), plain.abs().max()
    return bool(difference <= SAME_OUTPUTS * largest)


def _fail_to_read(network: TextClassifier, ids: torch.Tensor) -> Exception | None:
    try:
        with _reading(network):
            network(ids)
    # A wrong value can cause any error in the code of so many architectures.
    except Exception as error:  # noqa: BLE001 - the caller reports it
        return error
    return None


def _check_padding(network: TextClassifier, *, length: int, vocabulary: int) -> None:
    """Compare a short text read alone with the same text padded next to one of this length.

    Batches differ between training, scoring and use of the exported model, so padding must not
    matter.
    """
    short = max(SHORT_TEXT - 1, length // 2 - 1)
    ids = _texts_of(length, vocabulary)
    mask = torch.ones_like(ids)
    mask[0, short:] = 0
    config = network.network.config
    ids = _end(network, ids, mask).masked_fill(mask == 0, config.pad_token_id or 0)
    kind = config.model_type
    try:
        with _reading(network):
            padded, alone = network(ids, mask)[:1], network(ids[:1, :short])
    # As in `_fail_to_read`.
    except Exception as error:
        message = (
            f"a {kind} cannot read a short text next to a longer one ({_reason_of(error)}); "
            "choose another model.name"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/model/name") from error
    difference, largest = (padded - alone).abs().max(), alone.abs().max()
    if difference > SAME_PADDED * largest:
        message = (
            f"the output of a {kind} for a text changes with its padding (here by "
            f"{difference / largest:.0%}), and therefore with the other texts in the batch; choose "
            "another model.name"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/model/name")


def _end(
    network: TextClassifier, ids: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    config = network.network.config
    end = find_end(config.to_dict())
    return end_texts(ids, end=end, vocabulary=config.vocab_size, mask=mask)


def _reason_of(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"


def _name_of(token: int, tokens: Tokens) -> str:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(tokens.tokenizer_path)).id_to_token(token) or str(token)


@contextlib.contextmanager
def _reading(network: nn.Module) -> Iterator[None]:
    network.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        network.train()


def _texts_of(length: int, vocabulary: int) -> torch.Tensor:
    """Return two texts, (2, length) int64."""
    return torch.arange(2 * length).remainder_(vocabulary).flip(0).view(2, length)
