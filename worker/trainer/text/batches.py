"""Texts on a device, and batches of about equal length.

Legend of shapes: N texts, B batch, T tokens of a batch's longest text, rounded up.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from worker.trainer.insight.pace import Pace
from worker.trainer.ranks.distributed import ALONE
from worker.trainer.seeds import build_generator
from worker.trainer.tables.table import Split
from worker.trainer.text.made_up import end_texts, make_up_ids
from worker.trainer.text.tokens import Tokens

Batch = tuple[tuple[torch.Tensor, ...], torch.Tensor]

RESIDENT_SHARE = 0.3
"""Of a GPU's free memory that tokens may take; more stay in host memory."""
POOL_BATCHES = 50
"""Batches whose texts are sorted by length together: enough that a batch's texts are about equally
long, few enough that an epoch's batches stay mixed."""

GPU_MULTIPLE = 8
"""Of tokens: matrix units work in such blocks, and few shapes need few kernels."""
CPU_MULTIPLE = 1


class ResidentTexts:
    """Tokens, labels and splits on a device.

    Attributes:
        device: where batches are made and used.
        rows: of each split.
        tokenizer_path: of what made the tokens.
        lengths: (N,) tokens of each text, on the host, which decides shapes by them.
    """

    def __init__(
        self,
        tokens: Tokens,
        labels: NDArray[np.int64],
        *,
        rows: dict[Split, NDArray[np.int64]],
        device: torch.device,
        multiple: int,
        is_mask_prepared: bool,
    ) -> None:
        """Put the texts where batches are made of them.

        Args:
            tokens: of all rows.
            labels: (N,) class of each row.
            rows: of each split.
            device: of the model.
            multiple: lengths of batches are rounded up to it.
            is_mask_prepared: whether masks are (B, 1, 1, T) bool, ready for attention, rather than
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
        """Of all tokens."""
        return self._ids.nbytes

    def num(self, split: Split) -> int:
        """How many texts a split has."""
        return len(self.rows[split])

    def tokens_of(self, row: int) -> list[int]:
        """A text's tokens, without padding."""
        start, length = int(self._starts[row]), int(self.lengths[row])
        tokens: list[int] = self._ids[start : start + length].tolist()
        return tokens

    def label_of(self, row: int) -> int:
        """A text's class."""
        return int(self._labels[row])

    @property
    def usual_length(self) -> int:
        """Tokens of a text of the training split, padding included, as most batches have it."""
        return self.padded_length(int(np.median(self.lengths[self.rows["train"]])))

    def make_up(self, num: int, *, length: int, vocabulary: int) -> Batch:
        """A batch of made-up texts on the model's device.

        Args:
            num: of texts.
            length: tokens of each.
            vocabulary: that tokens are taken from.
        """
        ids = make_up_ids(num, length=length, vocabulary=vocabulary)
        ids = end_texts(ids, end=self._end_id, vocabulary=vocabulary)
        return self.move(((ids,), torch.zeros(num, dtype=torch.int64)))

    @property
    def home(self) -> torch.device:
        """Where the tokens lie."""
        return self._ids.device

    def get_batch(self, rows: torch.Tensor, *, longest: int, is_padded: bool) -> Batch:
        """Tokens, their mask where any row is shorter than the batch, and labels.

        Args:
            rows: (B,) int64, where the tokens lie.
            longest: tokens of the longest of these rows.
            is_padded: whether any of them is shorter than `longest`, rounded up.
        """
        return self.move(self.select(rows, longest=longest, is_padded=is_padded))

    def select(self, rows: torch.Tensor, *, longest: int, is_padded: bool) -> Batch:
        """`get_batch`, where the tokens lie."""
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
        """A selected batch on the model's device."""
        inputs, labels = batch
        moved = tuple(part.to(self.device, non_blocking=True) for part in inputs)
        return moved, labels.to(self.device, non_blocking=True)

    def padded_length(self, longest: int) -> int:
        """Tokens of each row of a batch."""
        return _round_up(longest, self._multiple)

    def batches(self, split: Split, *, batch_size: int) -> Iterator[Batch]:
        """All of a split by length, shortest first; the last batch may be smaller."""
        rows = self.rows[split]
        rows = rows[np.argsort(self.lengths[rows], kind="stable")]
        for start in range(0, len(rows), batch_size):
            some = rows[start : start + batch_size]
            longest, is_padded = self.shape_of(some)
            yield self.get_batch(
                torch.from_numpy(some).to(self.home), longest=longest, is_padded=is_padded
            )

    def shape_of(self, rows: NDArray[np.int64]) -> tuple[int, bool]:
        """The longest of some rows, and whether any of them is padded."""
        lengths = self.lengths[rows]
        longest = int(lengths.max())
        return longest, int(lengths.min()) < self.padded_length(longest)


@dataclass(frozen=True)
class _Epoch:
    """One epoch's batches.

    Attributes:
        rows: (batches, B), where the tokens lie.
        longest: tokens of each batch's longest text.
        is_padded: whether any of a batch's rows is shorter than the batch.
    """

    number: int
    rows: torch.Tensor
    longest: list[int]
    is_padded: list[bool]


class LengthBatches:
    """Shuffled batches of the train split, each a function of (seed, epoch, place).

    The texts are shuffled, and sorted by length within pools of many batches; the batches are then
    shuffled again. The longest comes first, so that memory that is too small shows at once. What
    does not fill a batch is left out of an epoch; another order leaves others out.

    Attributes:
        pace: of the host, which makes the batches.
        ranks: that share each batch.
        texts: that they are made of.
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
        """Batch `place` of epoch `epoch`, both counted from 0."""
        with self.pace.making():
            if self._epoch is None or self._epoch.number != epoch:
                self._epoch = self._draw(epoch)
            drawn = self._epoch
            start, stop = self.ranks.share(0, self.batch_size)
            # All ranks pad to the longest of the whole batch, so that they take about as long.
            selected = self.texts.select(
                drawn.rows[place, start:stop],
                longest=drawn.longest[place],
                is_padded=drawn.is_padded[place],
            )
        with self.pace.waiting():
            return self.texts.move(selected)

    def count_tokens(self, places: Iterable[tuple[int, int]]) -> int:
        """Tokens in some batches, each (epoch, place), without padding."""
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
    """One epoch's order.

    Args:
        rows: (N,) of the split.
        lengths: of all rows of the data set.
        batch_size: texts in each batch.
        generator: draws the order; nothing else decides it.

    Returns:
        (batches, batch_size) rows.
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
    """What batches' lengths are rounded up to on a kind of device."""
    return CPU_MULTIPLE if device_type == "cpu" else GPU_MULTIPLE


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _home(ids: torch.Tensor, device: torch.device) -> torch.device:
    if device.type != "cuda":
        return device
    free_bytes, _ = torch.cuda.mem_get_info(device)
    is_small = ids.numel() * ids.element_size() < RESIDENT_SHARE * free_bytes
    return device if is_small else torch.device("cpu")
