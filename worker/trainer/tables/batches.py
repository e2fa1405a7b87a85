"""The rows of a job, resident on the device, and the training batches drawn from them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from worker.trainer.inputs import Batch
from worker.trainer.insight.pace import Pace
from worker.trainer.ranks.distributed import ALONE
from worker.trainer.seeds import build_generator
from worker.trainer.tables.table import Preparation, Split, Table, prepare_codes, prepare_numbers

RESIDENT_SHARE = 0.6
"""Share of a GPU's free memory that rows may take; larger tables stay in host memory."""


class ResidentRows:
    """Prepared rows with their targets and splits.

    Attributes:
        device: Device that batches are used on.
        rows: Rows of each split, on the device that holds the values.
    """

    def __init__(
        self,
        table: Table,
        preparation: Preparation,
        targets: NDArray[np.int64] | NDArray[np.float32],  # (N,), or (N, C) for several labels
        *,
        unknown_places: list[int],
        validation_fraction: float,
        device: torch.device,
    ) -> None:
        self.device = device
        values = []
        if table.numeric:
            values.append(torch.from_numpy(prepare_numbers(table.numbers, preparation)))
        if table.categorical:
            places = prepare_codes(table.codes, unknown_places=unknown_places)
            values.append(torch.from_numpy(places))
        wanted = torch.from_numpy(targets)
        home = _home([*values, wanted], device)
        self._values = tuple(tensor.to(home) for tensor in values)
        self._targets = wanted.to(home)
        splits = table.split(validation_fraction=validation_fraction)
        self.rows: dict[Split, torch.Tensor] = {
            split: torch.from_numpy(places).to(home) for split, places in splits.items()
        }

    @property
    def size_bytes(self) -> int:
        """Size of all prepared rows and their targets."""
        return sum(tensor.nbytes for tensor in (*self._values, self._targets))

    def num(self, split: Split) -> int:
        """Return how many rows a split has."""
        return len(self.rows[split])

    def targets(self, split: Split) -> torch.Tensor:
        """Return a split's targets, on the device that holds them."""
        return self._targets[self.rows[split]]

    def get_batch(self, rows: torch.Tensor) -> Batch:
        """Return prepared numbers and category codes, whichever the table has, and targets."""
        inputs = tuple(
            values.index_select(0, rows).to(self.device, non_blocking=True)
            for values in self._values
        )
        return inputs, self._targets.index_select(0, rows).to(self.device, non_blocking=True)

    def batches(self, split: Split, *, batch_size: int) -> Iterator[Batch]:
        """Yield all of a split in its own order; the last batch may be smaller."""
        for rows in torch.split(self.rows[split], batch_size):
            yield self.get_batch(rows)


@dataclass(frozen=True)
class _Epoch:
    number: int
    rows: torch.Tensor


class TrainRows:
    """Shuffled batches of the training split, each a function of (seed, epoch, place).

    Rows that do not fill a last batch are left out of the epoch; another epoch leaves out others.

    Attributes:
        pace: Measures the host's time for preparing batches.
        ranks: Ranks that share each batch.
    """

    def __init__(self, rows: ResidentRows, *, batch_size: int, seed: int) -> None:
        self._rows = rows
        self._seed = seed
        self._epoch: _Epoch | None = None
        self.pace = Pace()
        self.ranks = ALONE
        self.batch_size = batch_size

    def get(self, epoch: int, place: int) -> Batch:
        """Return batch `place` of epoch `epoch`, both counted from 0."""
        first = place * self.batch_size
        start, stop = self.ranks.share(first, first + self.batch_size)
        with self.pace.making():
            if self._epoch is None or self._epoch.number != epoch:
                self._epoch = self._draw(epoch)
            return self._rows.get_batch(self._epoch.rows[start:stop])

    def _draw(self, epoch: int) -> _Epoch:
        rows = self._rows.rows["train"]
        generator = build_generator(self._seed, "order", epoch, device=rows.device)
        order = torch.randperm(len(rows), generator=generator, device=rows.device)
        return _Epoch(epoch, rows[order])


def _home(values: list[torch.Tensor], device: torch.device) -> torch.device:
    if device.type != "cuda":
        return device
    free_bytes, _ = torch.cuda.mem_get_info(device)
    size_bytes = sum(tensor.numel() * tensor.element_size() for tensor in values)
    return device if size_bytes < RESIDENT_SHARE * free_bytes else torch.device("cpu")
