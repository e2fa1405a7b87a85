"""Batches of pixels that a thread reads while earlier steps run.

A buffer is reused only after its batch has been used: on a GPU, once the copy out of pinned memory
is done. An error in the thread is raised where the batch is requested.

Shapes: B batch, C channels, S side in pixels.
"""

import queue
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from worker.trainer.images.rows.pixel_rows import Rows
from worker.trainer.images.rows.read_ahead import DEPTH

CLOSE_SECONDS = 10.0

Request = tuple[object, Sequence[int]]
"""Name of the batch, and its rows."""


class _Buffer:
    """Memory for one batch; on a GPU `copied` is the event after its last copy to the device."""

    def __init__(self, shape: tuple[int, ...], *, is_pinned: bool) -> None:
        self.pixels = torch.empty(shape, dtype=torch.uint8, pin_memory=is_pinned)
        self.array: NDArray[np.uint8] = self.pixels.numpy()
        self.copied: torch.cuda.Event | None = None


_Ready = tuple[object, _Buffer, int]


class Prefetch:
    """Reads batches in the order of their requests.

    Args:
        rows: Reader of the rows.
        requests: Batches to read, taken as buffers become free; at most `batch_size` rows each.
        batch_size: Largest number of rows in a request.
        image_shape: Shape of one image's planes, (C, S, S).
        device: Device that the batches go to.
        depth: Batches read ahead.
    """

    def __init__(
        self,
        rows: Rows,
        requests: Iterator[Request],
        *,
        batch_size: int,
        image_shape: tuple[int, ...],
        device: torch.device,
        depth: int = DEPTH,
    ) -> None:
        self._rows = rows
        self._requests = requests
        self._device = device
        self._shape = (batch_size, *image_shape)
        self._num_buffers = 0
        self._free: queue.SimpleQueue[_Buffer | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[_Ready | BaseException | None] = queue.SimpleQueue()
        self.deepen(depth)
        self._in_use: _Buffer | None = None
        self._stream = _open_stream(device)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
        self._thread.start()

    def deepen(self, depth: int) -> None:
        """Read at least `depth` batches ahead from now on; the depth never falls."""
        # One buffer more than batches ahead, for the batch in use.
        while self._num_buffers < depth + 1:
            self._num_buffers += 1
            self._free.put(_Buffer(self._shape, is_pinned=self._device.type == "cuda"))

    def next(self) -> tuple[object, torch.Tensor] | None:
        """Return the next batch's name and its pixels (B, C, S, S) uint8 on the device.

        Returns None after the last batch. On a CPU the pixels are those of the buffer and stay
        valid until the next call.

        Raises:
            TrainingFailed: a row could not be read.
        """
        self._give_back()
        item = self._ready.get()
        if item is None or isinstance(item, BaseException):
            self._ready.put(item)  # so that a further call gets the same answer
            if item is None:
                return None
            raise item
        name, buffer, size = item
        self._in_use = buffer
        pixels = buffer.pixels[:size]
        return name, pixels if self._stream is None else self._copy(pixels, buffer)

    def close(self) -> None:
        """Stop the thread; a read that hangs is abandoned."""
        self._closing.set()
        self._free.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _copy(self, pixels: torch.Tensor, buffer: _Buffer) -> torch.Tensor:
        # On a separate stream, so that the copy overlaps with queued steps.
        assert self._stream is not None
        with torch.cuda.stream(self._stream):
            moved = pixels.to(self._device, non_blocking=True)
            buffer.copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            buffer.copied.record(self._stream)
        current = torch.cuda.current_stream(self._device)
        current.wait_event(buffer.copied)
        moved.record_stream(current)
        return moved

    def _give_back(self) -> None:
        if self._in_use is not None:
            self._free.put(self._in_use)
            self._in_use = None

    def _run(self) -> None:
        try:
            for name, rows in self._requests:
                buffer = self._free.get()
                if buffer is None or self._closing.is_set():
                    return
                if buffer.copied is not None:
                    buffer.copied.synchronize()
                self._rows.read(rows, buffer.array[: len(rows)])
                self._ready.put((name, buffer, len(rows)))
            self._ready.put(None)
        except BaseException as error:  # noqa: BLE001 - it is raised where the batch is asked for
            self._ready.put(error)


def _open_stream(device: torch.device) -> torch.cuda.Stream | None:
    if device.type != "cuda":
        return None
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
