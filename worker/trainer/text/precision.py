"""What `precision: auto` becomes for texts.

On a GPU it follows from the GPU, as for images. On a CPU that multiplies bf16 it depends on how
long the texts are, how wide the network is and how many cores share it, so both ways are tried for
a moment, and the winner is remembered.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from redkiln.hardware import Precision
from redkiln.job import Phase
from worker.trainer.precision import DeviceFacts, resolve_precision
from worker.trainer.report import Report
from worker.trainer.trials.probing import Probe, measure_rates
from worker.trainer.trials.remembered import Remembered

WORTH = 1.1
"""Times the rate in fp32 that bf16 must reach: below that rounding is not worth it."""


def settle_precision(
    wanted: Literal["auto"] | Precision,
    *,
    device: DeviceFacts,
    probe_at: Callable[[Precision], Probe],
    batch_size: int,
    key: Mapping[str, Any],
    remembered: Remembered,
    report: Report,
) -> Precision:
    """The type of the forward pass.

    Args:
        wanted: by the spec.
        device: that it runs on.
        probe_at: the model as it would train at a precision.
        batch_size: to try it with.
        key: what the speed depends on beside the device, as JSON.
        remembered: of this host and device.
        report: told what is measured and what came of it.

    Raises:
        TrainingFailed: the GPU has no such arithmetic, whatever torch says.
    """
    settled = resolve_precision(wanted, device=device)
    if wanted != "auto" or device.kind != "cpu" or settled == "fp32":
        return settled
    whole_key = {**key, "batch_size": batch_size}
    gain = remembered.find("bf16_gain", whole_key)
    if gain is None:
        report.enter(Phase.WARMING)
        gain = _measure_rate(probe_at("bf16"), batch_size) / _measure_rate(
            probe_at("fp32"), batch_size
        )
        remembered.save("bf16_gain", whole_key, gain)
        report.enter(Phase.PREPARING)
    chosen: Precision = "bf16" if gain >= WORTH else "fp32"
    report.message(
        f"precision auto is {chosen}: in bf16 this CPU trains {gain:.2f} times as fast as in fp32"
    )
    return chosen


def _measure_rate(probe: Probe, batch_size: int) -> float:
    rates = measure_rates(probe, [batch_size], is_enough=lambda _: True)
    return rates[batch_size]
