"""Profiles a few steps: a trace for a browser, and a table of the operators that take most time.

`training.profile` turns it on. The steps are ordinary steps of the job, soon after its first, but
recording slows them down, so they do not count towards its speed. They all belong to one epoch,
because an evaluation or checkpoint between two of them would look like part of a step.
"""

import contextlib
import gzip
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from worker.trainer.plan import Plan

TRACE, TABLE = "trace.json.gz", "profile.md"
WAIT_STEPS = 5
"""Steps of the process before the window, because the first ones are not typical."""
WARM_UP_STEPS = 2
"""Steps recorded and discarded, because the first include the profiler's own start."""
ACTIVE_STEPS = 4
MAX_WINDOWS = 3
"""Most windows that a checkpoint may interrupt during warm-up, because none of their steps count
towards the job's speed."""
MAX_TRACE_BYTES = 256 * 1024**2
"""Largest trace before compression; a browser cannot open larger ones."""
NUM_ROWS = 25
TOO_SHORT = (
    f"nothing was profiled: the profiler ignores the first {WAIT_STEPS} steps of the process and "
    f"{WARM_UP_STEPS} steps of each epoch, and no steps were left; for more steps, lower "
    "training.batch_size or raise training.epochs"
)
CUT_SHORT = (
    f"nothing was profiled: the profiler needs more than {WARM_UP_STEPS} steps between two "
    "checkpoints, to warm up; raise training.checkpoint_seconds"
)


def is_time(step: int, plan: Plan) -> bool:
    """Return whether a window that starts here is as long as any that could start later."""
    ends = min(plan.steps, -(-step // plan.steps_per_epoch) * plan.steps_per_epoch)
    now, later = ends - step + 1, min(plan.steps_per_epoch, plan.steps - ends)
    return now > WARM_UP_STEPS and now >= min(later, WARM_UP_STEPS + ACTIVE_STEPS)


@dataclass(frozen=True)
class Operation:
    """All calls of an operator or kernel within the window.

    Attributes:
        cpu_ms: Host time in the operator itself, without what it calls.
        device_ms: Device time likewise; 0 without a device.
    """

    name: str
    calls: int
    cpu_ms: float
    device_ms: float


class StepProfiler:
    """Profiles a window of a run's steps.

    Attributes:
        is_over: Whether the window is done, or no further one is tried.
        num_steps: Steps in the window so far, including its warm-up.

    Args:
        folder: Folder for the files.
        plan: Steps and epochs of the run.
        device: Device that trains.
        say: Called with a message about the result, or why it is missing.
    """

    def __init__(
        self, folder: Path, *, plan: Plan, device: torch.device, say: Callable[[str], None]
    ) -> None:
        self.is_over = False
        self.num_steps = 0
        self._waited = 0
        self._num_cut = 0
        self._folder = folder
        self._plan = plan
        self._device = device
        self._say = say
        self._profile: Any = None

    @property
    def is_open(self) -> bool:
        """Whether the window has started but not ended."""
        return self._profile is not None

    def takes(self, step: int) -> bool:
        """Return whether this step, counted from 1, belongs to the window."""
        if self.is_open:
            return True
        return self._waited >= WAIT_STEPS and is_time(step, self._plan)

    def skip(self) -> None:
        """Count a step outside the window."""
        self._waited += 1

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Record the step that is run inside the block."""
        if self._profile is None:
            self._start()
        with record_function("step"):
            yield
        self.num_steps += 1
        if self.num_steps == WARM_UP_STEPS + ACTIVE_STEPS:
            self.end_window()
        else:
            self._profile.step()

    def end_window(self) -> None:
        """End the window because no step comes next, and write what was recorded.

        If nothing was recorded, another window may start, a limited number of times.
        """
        if self._profile is None:
            return
        recorded, self._profile = self._profile, None
        steps, self.num_steps = max(0, self.num_steps - WARM_UP_STEPS), 0
        self.is_over = steps > 0
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        try:
            recorded.stop()
            if steps:
                self._write(recorded, steps)
        except (OSError, RuntimeError) as error:
            # The job must not fail because of a missing profile.
            first = str(error).partition("\n")[0]
            self._say(f"the profile could not be written: {first}")
        if not steps:
            self._num_cut += 1
            if self._num_cut == MAX_WINDOWS:
                self._give_up()

    def close(self) -> None:
        """Finish after the last step; if nothing was recorded, say why."""
        self.end_window()
        if not self.is_over:
            self._give_up()

    def _give_up(self) -> None:
        self._say(CUT_SHORT if self._num_cut else TOO_SHORT)
        self.is_over = True

    def _write(self, recorded: Any, steps: int) -> None:
        self._folder.mkdir(exist_ok=True)
        operations = [
            Operation(
                event.key,
                event.count,
                event.self_cpu_time_total / 1000,
                getattr(event, "self_device_time_total", 0) / 1000,
            )
            for event in recorded.key_averages()
        ]
        has_trace = self._write_trace(recorded)
        text = render_table(operations, steps=steps, device=str(self._device), has_trace=has_trace)
        (self._folder / TABLE).write_text(text)
        self._say(f"profiled {steps} steps: {TABLE}" + (f", {TRACE}" if has_trace else ""))

    def _start(self) -> None:
        activities = [ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        # acc_events keeps the whole window, because the schedule has a warm-up.
        schedule = torch.profiler.schedule(
            wait=0, warmup=WARM_UP_STEPS, active=ACTIVE_STEPS, repeat=1
        )
        self._profile = profile(activities=activities, schedule=schedule, acc_events=True)
        self._profile.start()

    def _write_trace(self, recorded: Any) -> bool:
        """Compress the trace; return False if it is too large to be useful."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            plain = Path(folder) / "trace.json"
            recorded.export_chrome_trace(str(plain))
            if plain.stat().st_size > MAX_TRACE_BYTES:
                self._say("the trace is omitted because it is too large for any viewer")
                return False
            packed = Path(folder) / TRACE
            with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
                shutil.copyfileobj(source, target)
            packed.replace(self._folder / TRACE)
        return True


def render_table(
    operations: Sequence[Operation], *, steps: int, device: str, has_trace: bool
) -> str:
    """Render `profile.md`: the operators that took most time, those of the device first."""
    known = [o for o in operations if not _is_bracket(o.name)]
    has_device = any(o.device_ms for o in known)
    ordered = sorted(known, key=lambda o: (o.device_ms, o.cpu_ms), reverse=True)[:NUM_ROWS]
    cpu_ms, device_ms = sum(o.cpu_ms for o in known), sum(o.device_ms for o in known)
    total = device_ms if has_device else cpu_ms
    busy = f"; {device_ms / steps:.2f} ms of {device}" if has_device else ""
    head = (
        f"# Profile of {steps} training steps on {device}\n\n"
        f"A step took {cpu_ms / steps:.2f} ms of CPU time in the threads that launch it{busy}. "
        "This includes recording, which makes steps slower. Times are of each operator itself, "
        "without the operators that it calls.\n\n"
    )
    if has_trace:
        head += f'`{TRACE}` opens in https://ui.perfetto.dev ("Open trace file").\n\n'
    column = " device ms/step |" if has_device else ""
    rule = "---:|" if has_device else ""
    rows = "".join(
        f"| `{_cell(o.name)}` | {o.calls / steps:g} | {o.cpu_ms / steps:.3f} |"
        + (f" {o.device_ms / steps:.3f} |" if has_device else "")
        + f" {100 * (o.device_ms if has_device else o.cpu_ms) / total if total else 0:.1f} % |\n"
        for o in ordered
    )
    left = len(known) - len(ordered)
    more = f"\n{left} more are not shown; the trace has all of them.\n" if left > 0 else ""
    return (
        f"{head}| operation | calls/step | CPU ms/step |{column} share |\n"
        f"|---|---:|---:|{rule}---:|\n{rows}{more}"
    )


def _is_bracket(name: str) -> bool:
    """Return whether a name marks whole steps instead of an operator."""
    return name.startswith("ProfilerStep") or name == "step"


def _cell(name: str) -> str:
    return name.replace("|", "\\|").replace("`", "'")[:120]
