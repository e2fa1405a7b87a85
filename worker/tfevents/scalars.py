"""Events with scalars: each has a step, the time of writing, and named values.

Source: TensorFlow's `core/util/event.proto` and, in `core/framework`, `summary.proto`,
`tensor.proto` and `tensor_shape.proto`, which give the numbers of the fields.
"""

from collections.abc import Iterable, Iterator

from worker.tfevents.wire import (
    FIXED_32,
    Field,
    read_fields,
    to_floats,
    to_signed,
    write_bytes,
    write_double,
    write_float,
    write_varint,
)

EVENT_WALL_TIME, EVENT_STEP, EVENT_VERSION, EVENT_SUMMARY, EVENT_SESSION = 1, 2, 3, 5, 7
SESSION_STATUS, SESSION_START = 1, 1
SUMMARY_VALUE = 1
VALUE_TAG, VALUE_SIMPLE, VALUE_TENSOR = 1, 2, 8
TENSOR_DTYPE, TENSOR_SHAPE, TENSOR_CONTENT, TENSOR_FLOATS, TENSOR_DOUBLES = 1, 2, 4, 5, 6
SHAPE_SIZE = 2
SIZES = {1: 4, 2: 8}
"""Bytes of a number for each tensor type that a scalar may have: float, double."""
Scalar = tuple[str, int, float]
"""Name, step and value."""


def encode_version(wall_time: float) -> bytes:
    """Encode the event that a file begins with."""
    return write_double(EVENT_WALL_TIME, wall_time) + write_bytes(EVENT_VERSION, b"brain.Event:2")


def encode_scalar(name: str, value: float, *, step: int, wall_time: float) -> bytes:
    """Encode an event with one value."""
    scalar = write_bytes(VALUE_TAG, name.encode()) + write_float(VALUE_SIMPLE, value)
    summary = write_bytes(SUMMARY_VALUE, scalar)
    return _head(step, wall_time) + write_bytes(EVENT_SUMMARY, summary)


def encode_start(*, step: int, wall_time: float) -> bytes:
    """Encode the start of a session, which discards earlier events from this step onwards."""
    session = write_varint(SESSION_STATUS, SESSION_START)
    return _head(step, wall_time) + write_bytes(EVENT_SESSION, session)


def parse_scalars(event: bytes) -> Iterator[Scalar]:
    """Yield the scalars of one event.

    Raises:
        ValueError: The bytes are not an event.
    """
    fields = list(read_fields(event))
    step = next((to_signed(v) for n, _, v in fields if n == EVENT_STEP and isinstance(v, int)), 0)
    for summary in _inner(fields, EVENT_SUMMARY):
        for value in _inner(read_fields(summary), SUMMARY_VALUE):
            parts = list(read_fields(value))
            number = _scalar(parts)
            if number is not None:
                tag = b"".join(_inner(parts, VALUE_TAG))
                yield tag.decode(errors="replace"), step, number


def _head(step: int, wall_time: float) -> bytes:
    return write_double(EVENT_WALL_TIME, wall_time) + write_varint(EVENT_STEP, step)


def _inner(fields: Iterable[Field], wanted: int) -> Iterator[bytes]:
    return (v for number, _, v in fields if number == wanted and isinstance(v, bytes))


def _scalar(parts: Iterable[Field]) -> float | None:
    """Return a summary value's number; None if it is an image, a text or several numbers."""
    for number, kind, content in parts:
        if isinstance(content, int):
            continue
        if number == VALUE_SIMPLE and kind == FIXED_32:
            return to_floats(content, size_bytes=4)[0]
        if number == VALUE_TENSOR:
            return _scalar_of_tensor(content)
    return None


def _scalar_of_tensor(tensor: bytes) -> float | None:
    dtype, numbers = 0, list[float]()
    for number, _, content in read_fields(tensor):
        if isinstance(content, int):
            dtype = content if number == TENSOR_DTYPE else dtype
        elif number == TENSOR_SHAPE and any(_inner(read_fields(content), SHAPE_SIZE)):
            return None  # it has dimensions
        elif number == TENSOR_FLOATS:
            numbers += to_floats(content, size_bytes=4)
        elif number == TENSOR_DOUBLES:
            numbers += to_floats(content, size_bytes=8)
        elif number == TENSOR_CONTENT and dtype in SIZES:
            numbers += to_floats(content, size_bytes=SIZES[dtype])
    return numbers[0] if len(numbers) == 1 else None
