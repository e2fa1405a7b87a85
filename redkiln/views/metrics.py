"""Series over steps or over time, as the API shows them."""

from pydantic import BaseModel


class Series(BaseModel):
    """A metric over steps, possibly thinned for display.

    Attributes:
        num_points: Recorded points; fewer are listed if `downsampled`.
    """

    name: str
    steps: list[int]
    values: list[float | None]
    num_points: int
    downsampled: bool


class TelemetrySeries(BaseModel):
    """A sensor of a job's GPUs or host over time, possibly thinned for display.

    Attributes:
        name: Name with unit: `gpu/0/power_watts`, `gpu/0/busy_ratio`, `host/memory_used_bytes`.
        at_ms: Milliseconds since 1970, rising.
        num_points: Recorded points; fewer are listed if `downsampled`.
    """

    name: str
    at_ms: list[int]
    values: list[float | None]
    num_points: int
    downsampled: bool
