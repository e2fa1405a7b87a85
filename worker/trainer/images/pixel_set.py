"""The pixels of a job's images: where they are, and how batches get them.

A set that fits its budget is resident: on the device, or for a CPU as pages of the decoded file
that stay in memory. Of a larger set only the next batches are in memory, read ahead by a thread.
Both produce the same batches.

Shapes: N images, B batch, C channels, S side in pixels.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import torch

from redkiln.datasets import ImageIndex, take_fraction
from worker.trainer.images.augment.colour import WHITE, scale_colours
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.decode.room import Home, choose_depth, choose_home, detect_memory_budget
from worker.trainer.images.rows.pixel_rows import ArrayRows, Rows
from worker.trainer.images.rows.prefetch import Prefetch, Request
from worker.trainer.images.rows.read_ahead import DEPTH

PARTS = 8
"""Parts of a batch when memory is short: a batch prepared at once takes three times its own size in
addition to itself."""

Shown = tuple[torch.Tensor, torch.Tensor | None]
"""Images (n, C, S, S) float32 from 0 to 255, and their rows of `PixelSet.scale_colours`."""
Split = Literal["train", "validation", "test"]
RowsAndPlanes = tuple[torch.Tensor, torch.Tensor]


def split_rows(index: ImageIndex, *, validation_fraction: float) -> dict[Split, list[int]]:
    """Return the rows of the decoded array in each split: its own, or by its frozen order."""
    train = index.splits["train"]
    strata, ranks = [s.stratum for s in train], [s.rank for s in train]
    held = take_fraction(strata, ranks, fraction=validation_fraction)
    first_test = len(train)
    if index.num_validation:
        held = [row >= first_test - index.num_validation for row in range(first_test)]
    return {
        "train": [row for row, is_held in enumerate(held) if not is_held],
        "validation": [row for row, is_held in enumerate(held) if is_held],
        "test": list(range(first_test, first_test + len(index.splits["test"]))),
    }


class PixelSet:
    """Pixels and splits.

    Args:
        decoded: The pixels.
        index: Classes and splits.
        validation_fraction: Share of the training split used for validation, from the spec.
        device: Device that batches are used on.
        memory_format: Memory format of batches.
        budget_bytes: Host memory for pixels. None: a share of what is free now.
        say: Called with a message when batches have to be prepared in parts.

    Attributes:
        memory_format: Memory format of batches; may be changed between them.
        classes: Names by label.
        rows: Rows of each split, on the host.
        home: Place that pixels are read from.
    """

    def __init__(
        self,
        decoded: DecodedImages,
        index: ImageIndex,
        *,
        validation_fraction: float,
        device: torch.device,
        memory_format: torch.memory_format,
        budget_bytes: int | None = None,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.device = device
        self._say = say
        self._num_parts = 1
        self.classes = index.classes
        self._num_images, self.size, _, channels = decoded.images.shape
        self.image_shape = (channels, self.size, self.size)
        self.budget_bytes = detect_memory_budget() if budget_bytes is None else budget_bytes
        self._decoded = decoded
        self.home = self._choose_home()
        self._pixels = self._load() if self.home == "device" else None  # (N, C, S, S) uint8
        rows = split_rows(index, validation_fraction=validation_fraction)
        self.rows: dict[Split, torch.Tensor] = {
            name: torch.tensor(places, dtype=torch.int64) for name, places in rows.items()
        }
        self.memory_format = memory_format
        # (x - mean) / std on grey levels from 0 to 255, as one multiplication and one addition.
        mean, std = torch.tensor(decoded.facts.mean), torch.tensor(decoded.facts.std)
        self._scale = (1 / (255 * std)).view(1, -1, 1, 1).to(device)
        self._offset = -(mean / std).view(1, -1, 1, 1).to(device)
        white = self._offset + WHITE * self._scale
        # Black and white, for planes and for whole rows of pixels.
        self._limits = [level.view(-1, 1) for level in (self._offset, white)]  # (C, 1)
        self._limits_of_rows = [level.repeat(self.size, 1).view(-1) for level in self._limits]

    @property
    def size_bytes(self) -> int:
        """Size of all decoded images, wherever they are."""
        return self._num_images * int(np.prod(self.image_shape))

    def num(self, split: Split) -> int:
        """Return how many images a split has."""
        return len(self.rows[split])

    def get_planes(self, rows: torch.Tensor) -> torch.Tensor:
        """Return planes (B, C, S, S) uint8 of some rows on the device, read now if necessary."""
        if self.home == "device":
            return self.select_planes(rows.to(self.device))
        planes = np.empty((len(rows), *self.image_shape), dtype=np.uint8)
        with contextlib.closing(self.open_rows()) as reader:
            reader.read(rows.tolist(), planes)
        return torch.from_numpy(planes).to(self.device)

    def select_planes(self, rows: torch.Tensor) -> torch.Tensor:
        """Return planes (B, C, S, S) uint8 of some rows, all on the device."""
        assert self._pixels is not None
        return self._pixels.index_select(0, rows)

    def planes(self, split: Split, *, batch_size: int) -> Iterator[RowsAndPlanes]:
        """Yield rows (B,) and planes (B, C, S, S) of all of a split in its own order.

        The last batch may be smaller. On a CPU the planes stay valid until the next batch.
        """
        pieces = torch.split(self.rows[split], batch_size)
        if self.home == "device":
            for rows in pieces:
                yield rows, self.select_planes(rows.to(self.device))
            return
        requests = ((None, rows.tolist()) for rows in pieces)
        with (
            contextlib.closing(self.open_rows()) as reader,
            contextlib.closing(self.read_ahead(reader, requests, batch_size=batch_size)) as ahead,
        ):
            for rows in pieces:
                found = ahead.next()
                assert found is not None
                yield rows, found[1]

    def open_rows(self) -> Rows:
        """Open a reader of the decoded set."""
        if self._decoded.open_rows is not None:
            return self._decoded.open_rows()
        planes = np.asarray(self._decoded.images).transpose(0, 3, 1, 2)
        return ArrayRows(np.ascontiguousarray(planes))

    def close(self) -> None:
        """Stop the decoding processes; the next read starts them again. No reader may be in use."""
        self._decoded.close()

    def read_ahead(
        self, rows: Rows, requests: Iterator[Request], *, batch_size: int, depth: int = DEPTH
    ) -> Prefetch:
        """Start a thread that reads batches of planes while earlier ones are used."""
        return Prefetch(
            rows,
            requests,
            batch_size=batch_size,
            image_shape=self.image_shape,
            device=self.device,
            depth=self.fit_depth(depth, batch_size=batch_size),
        )

    def fit_depth(self, wanted: int, *, batch_size: int) -> int:
        """Return how many batches can be read ahead within the memory for images."""
        batch_bytes = batch_size * int(np.prod(self.image_shape))
        return choose_depth(batch_bytes=batch_bytes, budget_bytes=self.budget_bytes, wanted=wanted)

    def scale_colours(self, colours: torch.Tensor) -> torch.Tensor:
        """Return changes of colours (N, C, C + 1) as `finish_images` takes them, normalised."""
        return scale_colours(colours, scale=self._scale.view(-1, 1))

    def finish_images(
        self, num: int, prepare: Callable[[slice], Shown], *, cut: int = 0
    ) -> torch.Tensor:
        """Return normalised images (B, C, S, S) float32; prepared in parts if memory is short.

        Args:
            num: Number of images, B.
            prepare: Prepares the images of some places.
            cut: Place that begins a new part, because images before it are prepared differently.

        Raises:
            torch.OutOfMemoryError: the batch does not fit even in parts.
        """
        try:
            return self._finish_in_parts(num, prepare, cut)
        except torch.OutOfMemoryError:
            if self._num_parts > 1:
                raise
        # Outside the handler of the error, which keeps every tensor of the batch alive.
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self._num_parts = PARTS
        self._say(
            "the device ran out of memory while augmenting a batch of images; batches are now "
            f"prepared in {PARTS} parts, which is slower"
        )
        return self._finish_in_parts(num, prepare, cut)

    def _finish_in_parts(
        self, num: int, prepare: Callable[[slice], Shown], cut: int
    ) -> torch.Tensor:
        shape, layout = (num, *self.image_shape), self.memory_format
        out = torch.empty(shape, device=self.device, memory_format=layout)
        size = -(-num // self._num_parts)
        for first, last in ((0, cut), (cut, num)):
            for start in range(first, last, size):
                places = slice(start, min(start + size, last))
                images, colours = prepare(places)
                self._normalise(images, colours, out=out[places])
        return out

    def _choose_home(self) -> Home:
        if not self._decoded.is_stored:
            return "disk"
        free_bytes = 0
        if self.device.type == "cuda":
            free_bytes, _ = torch.cuda.mem_get_info(self.device)
        return choose_home(
            self.size_bytes,
            kind=self.device.type,
            free_bytes=free_bytes,
            budget_bytes=self.budget_bytes,
        )

    def _load(self) -> torch.Tensor:
        # On a CPU the pages of the mapped file stay in memory.
        planes = np.asarray(self._decoded.images).transpose(0, 3, 1, 2)
        return torch.from_numpy(planes).to(self.device)

    def _normalise(
        self, images: torch.Tensor, colours: torch.Tensor | None, *, out: torch.Tensor
    ) -> None:
        """Write normalised images with changed colours into `out`, in its layout."""
        is_planar = self.memory_format == torch.contiguous_format or images.shape[1] == 1
        if colours is not None:
            self._normalise_changed(images, colours, out=out, is_planar=is_planar)
        elif is_planar or self.device.type != "cpu":
            torch.addcmul(self._offset, images, self._scale, out=out)
        else:
            # Plane by plane, which takes 0.6 of the time on a CPU.
            scales = self._scale.view(-1).tolist()
            for channel, offset in enumerate(self._offset.view(-1).unbind()):
                torch.add(offset, images[:, channel], alpha=scales[channel], out=out[:, channel])

    def _normalise_changed(
        self, images: torch.Tensor, colours: torch.Tensor, *, out: torch.Tensor, is_planar: bool
    ) -> None:
        num, channels, size, _ = out.shape
        # Not a matrix product: its sums would depend on how many images are changed together.
        means = (colours[..., channels:] * images.mean(dim=(2, 3))[:, None]).sum(dim=2)
        linear, bias = colours[..., :channels], means + self._offset.view(-1)  # (B, C)
        pixels = images.flatten(2)  # (B, C, S * S)
        if is_planar:
            flat = out.flatten(2)
            torch.baddbmm(bias[:, :, None], linear, pixels, out=flat).clamp_(*self._limits)
            return
        # Add and clamp whole rows of pixels: a CPU is slow over the few channels of a single one.
        rows = out.permute(0, 2, 3, 1).view(num, size, size * channels)
        torch.bmm(pixels.mT, linear.mT, out=rows.view(num, size * size, channels))
        of_rows = bias[:, None].expand(num, size, channels).reshape(num, 1, -1)
        rows.add_(of_rows).clamp_(*self._limits_of_rows)
