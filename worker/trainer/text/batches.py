"""Texts on a device, and batches of texts of similar length.

Shapes: N texts, B batch, T tokens of a batch's longest text, rounded up.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from worker.trainer.insight.pace import Pace
from worker.trainer.ranks.distributed import ALONE
from worker.trainer.seeds import build_generator
from worker.trainer.tables.table import Split
from worker.trainer.text.synthetic import end_texts, make_synthetic_ids
from worker.trainer.text.tokens import Tokens

Batch = tuple[tuple[torch.Tensor, ...], torch.Tensor]

RESIDENT_SHARE = 0.3
"""Share of a GPU's free memory that tokens may take; larger sets stay in host memory."""
POOL_BATCHES = 50
"""Batches whose texts are sorted by length together: enough that the texts of a batch are about
equally long, few enough that an epoch's batches stay mixed."""

GPU_MULTIPLE = 8
"""Batch lengths are rounded up to this: matrix units work in such blocks, and fewer shapes need
fewer kernels."""
CPU_MULTIPLE = 1


class ResidentTexts:
    """Tokens, labels and splits on a device.

    Attributes:
        device: Device that batches are used on.
        rows: Rows of each split.
        tokenizer_path: Tokenizer that made the tokens.
        lengths: (N,) tokens of each text, on the host, where batch shapes are decided.
    """

    def __init__(
        self,
        tokens: Tokens,
        labels: NDArray[Any],
        *,
        rows: dict[Split, NDArray[np.int64]],
        device: torch.device,
        multiple: int,
        is_mask_prepared: bool,
    ) -> None:
        """Move the texts to the device that batches are made on.

        Args:
            tokens: Tokens of all rows.
            labels: (N,) class of each row; (N, C) with 1 for each of several labels.
            rows: Rows of each split.
            device: The model's device.
            multiple: Number that batch lengths are rounded up to.
            is_mask_prepared: Whether masks are (B, 1, 1, T) bool, ready for attention, instead of
                (B, T) int64.
        """
        self.device = device
        self.rows = rows
        self.tokenizer_path = tokens.tokenizer_path
        self.lengths = np.diff(tokens.offsets)
        self._multiple = multiple
        self._longest = tokens.facts.longest
        self._pad_id = tokens.facts.pad_id
        self._end_id = tokens.end_id
        self._is_mask_prepared = is_mask_prepared
        ids = torch.from_numpy(np.asarray(tokens.ids))
        self._ids = ids.to(_home(ids, device))
        home = self._ids.device
        self._starts = torch.from_numpy(tokens.offsets[:-1].copy()).to(home)
        self._num_tokens = torch.from_numpy(self.lengths).to(home)
        self._labels = torch.from_numpy(labels).to(home)
        self._places = torch.arange(_round_up(self._longest, multiple), device=home)

    @property
    def size_bytes(self) -> int:
        """Size of all tokens."""
        return self._ids.nbytes

    def num(self, split: Split) -> int:
        """Return how many texts a split has."""
        return len(self.rows[split])

    def tokens_of(self, row: int) -> list[int]:
        """Return a text's tokens without padding."""
        start, length = int(self._starts[row]), int(self.lengths[row])
        tokens: list[int] = self._ids[start : start + length].tolist()
        return tokens

    def label_of(self, row: int) -> int:
        """Return a text's class."""
        return int(self._labels[row])

    @property
    def usual_length(self) -> int:
        """Median length of training texts in tokens, including padding."""
        return self.padded_length(int(np.median(self.lengths[self.rows["train"]])))

    def make_up(self, num: int, *, length: int, vocabulary: int) -> Batch:
        """Return a batch of generated texts on the model's device.

        Args:
            num: Number of texts.
            length: Tokens per text.
            vocabulary: Size of the vocabulary that tokens are taken from.
        """
        ids = make_synthetic_ids(num, length=length, vocabulary=vocabulary)
        ids = end_texts(ids, end=self._end_id, vocabulary=vocabulary)
        labels = torch.zeros((num, *self._labels.shape[1:]), dtype=self._labels.dtype)
        return self.move(((ids,), labels))

    @property
    def home(self) -> torch.device:
        """Device that holds the tokens."""
        return self._ids.device

    def get_batch(self, rows: torch.Tensor, *, longest: int, is_padded: bool) -> Batch:
        """Return tokens, their mask if any row is shorter than the batch, and labels.

        Args:
            rows: (B,) int64, on the device that holds the tokens.
            longest: Tokens of the longest of these rows.
            is_padded: Whether any of them is shorter than `longest`, rounded up.
        """
        return self.move(self.select(rows, longest=longest, is_padded=is_padded))

    def select(self, rows: torch.Tensor, *, longest: int, is_padded: bool) -> Batch:
        """Return the same as `get_batch`, on the device that holds the tokens."""
        places = self._places[: self.padded_length(longest)]
        index = self._starts[rows].unsqueeze(1) + places
        labels = self._labels[rows]
        if not is_padded:
            return (self._ids[index].long(),), labels
        mask = places < self._num_tokens[rows].unsqueeze(1)
        ids = self._ids[index.clamp_(max=len(self._ids) - 1)].long()
        ids = torch.where(mask, ids, self._pad_id)
        return (ids, mask[:, None, None, :] if self._is_mask_prepared else mask.long()), labels

    def move(self, batch: Batch) -> Batch:
        """Move a selected batch to the model's device."""
        inputs, labels = batch
        moved = tuple(part.to(self.device, non_blocking=True) for part in inputs)
        return moved, labels.to(self.device, non_blocking=True)

    def padded_length(self, longest: int) -> int:
        """Return the number of tokens per row in a batch."""
        return _round_up(longest, self._multiple)

    def batches(self, split: Split, *, batch_size: int) -> Iterator[Batch]:
        """Yield all of a split by length, shortest first; the last batch may be smaller."""
        rows = self.rows[split]
        rows = rows[np.argsort(self.lengths[rows], kind="stable")]
        for start in range(0, len(rows), batch_size):
            some = rows[start : start + batch_size]
            longest, is_padded = self.shape_of(some)
            yield self.get_batch(
                torch.from_numpy(some).to(self.home), longest=longest, is_padded=is_padded
            )

    def shape_of(self, rows: NDArray[np.int64]) -> tuple[int, bool]:
        """Return the length of the longest of some rows, and whether any of them is padded."""
        lengths = self.lengths[rows]
        longest = int(lengths.max())
        return longest, int(lengths.min()) < self.padded_length(longest)


@dataclass(frozen=True)
class _Epoch:
    """One epoch's batches.

    Attributes:
        rows: (batches, B), on the device that holds the tokens.
        longest: Tokens of each batch's longest text.
        is_padded: Whether any row of a batch is shorter than the batch.
    """

    number: int
    rows: torch.Tensor
    longest: list[int]
    is_padded: list[bool]


class LengthBatches:
    """Shuffled batches of the training split, each a function of (seed, epoch, place).

    The texts are shuffled, then sorted by length within pools of many batches, and the batches are
    shuffled again. The longest batch comes first, so that insufficient memory shows immediately.
    Texts that do not fill a last batch are left out of the epoch; another epoch leaves out others.

    Attributes:
        pace: Measures the host's time for preparing batches.
        ranks: Ranks that share each batch.
        texts: The job's texts.
    """

    def __init__(self, texts: ResidentTexts, *, batch_size: int, seed: int) -> None:
        self.texts = texts
        self._seed = seed
        self._epoch: _Epoch | None = None
        self.pace = Pace()
        self.ranks = ALONE
        self.batch_size = batch_size
        self.num_batches = texts.num("train") // batch_size

    def get(self, epoch: int, place: int) -> Batch:
        """Return batch `place` of epoch `epoch`, both counted from 0."""
        with self.pace.making():
            if self._epoch is None or self._epoch.number != epoch:
                self._epoch = self._draw(epoch)
            drawn = self._epoch
            start, stop = self.ranks.share(0, self.batch_size)
            # All ranks pad to the longest text of the whole batch, so that they take equally long.
            selected = self.texts.select(
                drawn.rows[place, start:stop],
                longest=drawn.longest[place],
                is_padded=drawn.is_padded[place],
            )
        with self.pace.waiting():
            return self.texts.move(selected)

    def count_tokens(self, places: Iterable[tuple[int, int]]) -> int:
        """Count the tokens in some batches, each (epoch, place), without padding."""
        wanted: dict[int, list[int]] = {}
        for epoch, place in places:
            wanted.setdefault(epoch, []).append(place)
        return sum(
            int(self.texts.lengths[self._arrange(epoch)[of_epoch]].sum())
            for epoch, of_epoch in wanted.items()
        )

    def _draw(self, epoch: int) -> _Epoch:
        texts = self.texts
        rows = self._arrange(epoch)
        lengths = texts.lengths[rows]
        longest = lengths.max(axis=1)
        padded = np.array([texts.padded_length(int(length)) for length in longest])
        return _Epoch(
            number=epoch,
            rows=torch.from_numpy(rows).to(texts.home),
            longest=longest.tolist(),
            is_padded=(lengths.min(axis=1) < padded).tolist(),
        )

    def _arrange(self, epoch: int) -> NDArray[np.int64]:
        return arrange(
            self.texts.rows["train"],
            self.texts.lengths,
            batch_size=self.batch_size,
            generator=build_generator(self._seed, "order", epoch, device=torch.device("cpu")),
        )


def arrange(
    rows: NDArray[np.int64],
    lengths: NDArray[np.int64],
    *,
    batch_size: int,
    generator: torch.Generator,
) -> NDArray[np.int64]:
    """Return one epoch's order of rows in batches.

    Args:
        rows: (N,) rows of the split.
        lengths: Tokens of every row of the data set.
        batch_size: Texts per batch.
        generator: Draws the order, which depends on nothing else.

    Returns:
        Rows (batches, batch_size).
    """
    num_batches = len(rows) // batch_size
    order = torch.randperm(len(rows), generator=generator).numpy()[: num_batches * batch_size]
    drawn = rows[order]
    pools = np.arange(len(drawn)) // (POOL_BATCHES * batch_size)
    batches: NDArray[np.int64] = drawn[np.lexsort((lengths[drawn], pools))].reshape(
        num_batches, batch_size
    )
    batches = batches[torch.randperm(num_batches, generator=generator).numpy()]
    first = int(lengths[batches].max(axis=1).argmax())
    batches[[0, first]] = batches[[first, 0]]
    return batches


def padding_multiple(device_type: str) -> int:
    """Return the number that batch lengths are rounded up to on a kind of device."""
    return CPU_MULTIPLE if device_type == "cpu" else GPU_MULTIPLE


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _home(ids: torch.Tensor, device: torch.device) -> torch.device:
    if device.type != "cuda":
        return device
    free_bytes, _ = torch.cuda.mem_get_info(device)
    is_small = ids.numel() * ids.element_size() < RESIDENT_SHARE * free_bytes
    return device if is_small else torch.device("cpu")
