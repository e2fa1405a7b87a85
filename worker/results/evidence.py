"""Evidence that a device did the work of the first steps: operators, memory and time.

Each measure detects another kind of failure. Operators: no result of the steps is on the device.
Memory: gradients are allocated again in every step, so at least their size must pass through the
device's allocator. Time: the device records when it passes two points around the steps. Its clock
also runs while it is idle, so this proves only that its queue was processed in order, not how busy
it was.
"""

import math

from pydantic import BaseModel

MIN_TIME_SHARE = 0.1
"""Least ratio of the device's time to the host's. Correct ones are close to 1."""


class DeviceWork(BaseModel):
    """Measurements of the first steps.

    Attributes:
        steps: Number of steps.
        wall_seconds: Host time from before the first step until the device finished the last one.
        device_seconds: Device time between the same two points.
        gradient_bytes: Size of all gradients of one step.
        allocated_bytes: Allocations on the device meanwhile; None if nothing counts them.
        peak_bytes: Most memory that was allocated at once.
        used_bytes: The device's memory in use by all programs, according to its driver.
        device_operators: Operators with a result on the device; None if not counted.
        cpu_operators: Operators with a result on the CPU.
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
    """Return why the device cannot have done the work; None if it has."""
    if work.device_operators == 0:
        return f"none of {work.cpu_operators} operators had its result on {work.device}"
    if work.allocated_bytes is None:
        if work.used_bytes < work.gradient_bytes:
            return (
                f"its driver reports {work.used_bytes:,} bytes in use, less than the "
                f"{work.gradient_bytes:,} bytes of the gradients alone"
            )
    elif work.peak_bytes == 0 or work.allocated_bytes < work.gradient_bytes:
        return (
            f"{work.allocated_bytes:,} bytes were allocated on it in {work.steps} steps, less "
            f"than the {work.gradient_bytes:,} bytes of one step's gradients"
        )
    if math.isnan(work.device_seconds) or work.device_seconds <= 0:
        return f"its clock measured {work.device_seconds} s"
    if work.device_seconds < MIN_TIME_SHARE * work.wall_seconds:
        return (
            f"its clock measured {work.device_seconds:.3f} s while the host's clock measured "
            f"{work.wall_seconds:.3f} s"
        )
    return None


def describe_work(work: DeviceWork) -> str:
    """Return the evidence as a sentence."""
    counted = ""
    if work.device_operators is not None:
        counted = f"{work.device_operators:,} operators on it, {work.cpu_operators:,} on the CPU, "
    return (
        f"the first {work.steps} steps ran on {work.device}: {counted}"
        f"{work.peak_bytes / 2**20:,.0f} MiB at peak, {work.device_seconds:.2f} s by its clock, "
        f"{work.wall_seconds:.2f} s by the host's clock"
    )
