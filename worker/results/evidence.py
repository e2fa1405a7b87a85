"""Evidence that a device did the work of the first steps: what it computed, held, and how long.

Each measure rules out another way of not working. Operators: no result of the steps lies on the
device. Memory: gradients are allocated anew in every step, so at least their size passes through
the device's allocator. Time: the device notes when it passes two points around the steps; its
clock runs through pauses too, so this proves only that its queue was passed in order, and says
nothing of how busy it was.
"""

import math

from pydantic import BaseModel

MIN_TIME_SHARE = 0.1
"""Of the host's time, by the device's clock. Honest ones are close to 1."""


class DeviceWork(BaseModel):
    """What was seen of the first steps.

    Attributes:
        steps: how many.
        wall_seconds: of the host, from before the first to after the last, the device waited for.
        device_seconds: of the device, between the same two points.
        gradient_bytes: of all gradients of one step.
        allocated_bytes: passed through the device's allocator meanwhile; None when nobody counts.
        peak_bytes: the most that was allocated at once.
        used_bytes: the device's memory in use by anybody, by its driver.
        device_operators: operators whose result lies on the device; None when not counted.
        cpu_operators: operators whose result lies on the CPU.
    """

    device: str
    steps: int
    wall_seconds: float
    device_seconds: float
    gradient_bytes: int
    allocated_bytes: int | None
    peak_bytes: int
    used_bytes: int
    device_operators: int | None = None
    cpu_operators: int | None = None


def find_idleness(work: DeviceWork) -> str | None:
    """Why the device cannot have done the work; None when it has."""
    if work.device_operators == 0:
        return f"none of {work.cpu_operators} operators had its result on {work.device}"
    if work.allocated_bytes is None:
        if work.used_bytes < work.gradient_bytes:
            return (
                f"its driver tells of {work.used_bytes:,} bytes in use, less than the "
                f"{work.gradient_bytes:,} of the gradients alone"
            )
    elif work.peak_bytes == 0 or work.allocated_bytes < work.gradient_bytes:
        return (
            f"{work.allocated_bytes:,} bytes were allocated on it in {work.steps} steps, less "
            f"than the {work.gradient_bytes:,} of one step's gradients"
        )
    if math.isnan(work.device_seconds) or work.device_seconds <= 0:
        return f"its clock tells of {work.device_seconds} s"
    if work.device_seconds < MIN_TIME_SHARE * work.wall_seconds:
        return (
            f"its clock tells of {work.device_seconds:.3f} s where the host's tells of "
            f"{work.wall_seconds:.3f} s"
        )
    return None


def describe_work(work: DeviceWork) -> str:
    """The evidence in a sentence."""
    counted = ""
    if work.device_operators is not None:
        counted = f"{work.device_operators:,} operators there, {work.cpu_operators:,} on the CPU, "
    return (
        f"the first {work.steps} steps ran on {work.device}: {counted}"
        f"{work.peak_bytes / 2**20:,.0f} MiB at most, {work.device_seconds:.2f} s by its clock, "
        f"{work.wall_seconds:.2f} s by the host's"
    )
