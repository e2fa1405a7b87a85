"""A look into a few steps: a trace for a browser, and a table of what takes the time.

`training.profile` asks for it. The steps are ordinary ones of the job, a little after its first,
but slower by what recording costs, and so they count in no figure of its speed. All of them are of
one epoch: an evaluation or a checkpoint between two of them would be taken for a part of a step.
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
"""Steps of the process before the window: the first ones are like no others."""
WARM_UP_STEPS = 2
"""Recorded and thrown away: the first recorded ones pay for the profiler's own start."""
ACTIVE_STEPS = 4
MAX_WINDOWS = 3
"""That a checkpoint may end in their warm-up: their steps count in no figure of the job's speed."""
MAX_TRACE_BYTES = 256 * 1024**2
"""Of the trace before it is packed; a browser does not open larger ones."""
NUM_ROWS = 25
TOO_SHORT = (
    f"nothing was profiled: after the first {WAIT_STEPS} steps no epoch had more than "
    f"{WARM_UP_STEPS} in a row, which the profiler needs to warm up; smaller batches "
    "(training.batch_size) or more epochs (training.epochs) make more steps"
)
CUT_SHORT = (
    f"nothing was profiled: checkpoints left no more than {WARM_UP_STEPS} steps in a row, which "
    "the profiler needs to warm up; a larger training.checkpoint_seconds makes fewer of them"
)


def is_time(step: int, plan: Plan) -> bool:
    """Whether a window that begins with this step is as long as any that could begin later."""
    ends = min(plan.steps, -(-step // plan.steps_per_epoch) * plan.steps_per_epoch)
    now, later = ends - step + 1, min(plan.steps_per_epoch, plan.steps - ends)
    return now > WARM_UP_STEPS and now >= min(later, WARM_UP_STEPS + ACTIVE_STEPS)


@dataclass(frozen=True)
class Operation:
    """All calls of an operator, or of a kernel, within the window.

    Attributes:
        cpu_ms: of the host, in it alone and not in what it calls.
        device_ms: of the device, likewise; 0 without one.
    """

    name: str
    calls: int
    cpu_ms: float
    device_ms: float


class StepProfiler:
    """Profiles a window of a run's steps.

    Attributes:
        is_over: the window is behind, or none is tried any more.
        num_steps: made within it so far, those of its warm-up too.

    Args:
        folder: that the files are left in.
        plan: of the run.
        device: that trains.
        say: told what was left, or why nothing was.
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
        """Whether the window has begun and not ended."""
        return self._profile is not None

    def takes(self, step: int) -> bool:
        """Whether this step, counted from 1, is one of the window."""
        if self.is_open:
            return True
        return self._waited >= WAIT_STEPS and is_time(step, self._plan)

    def skip(self) -> None:
        """A step outside the window is made."""
        self._waited += 1

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Within it a step of the window is made."""
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
        """Something that is no step comes next: what was recorded is written.

        A window in which nothing was is forgotten, and another one may begin, a few times.
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
            # The steps themselves were made: a training does not end for want of a look into it.
            first = str(error).partition("\n")[0]
            self._say(f"the profile is left out: {first}")
        if not steps:
            self._num_cut += 1
            if self._num_cut == MAX_WINDOWS:
                self._give_up()

    def close(self) -> None:
        """No more steps are made: where nothing was recorded, say why."""
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
        self._say(f"{steps} steps were profiled: {TABLE}" + (f", {TRACE}" if has_trace else ""))

    def _start(self) -> None:
        activities = [ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        # Over all of the window with no schedule of the profiler's own where it has no warm-up.
        schedule = torch.profiler.schedule(
            wait=0, warmup=WARM_UP_STEPS, active=ACTIVE_STEPS, repeat=1
        )
        self._profile = profile(activities=activities, schedule=schedule, acc_events=True)
        self._profile.start()

    def _write_trace(self, recorded: Any) -> bool:
        """Pack the trace; False for one that is too large to be of use."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            plain = Path(folder) / "trace.json"
            recorded.export_chrome_trace(str(plain))
            if plain.stat().st_size > MAX_TRACE_BYTES:
                self._say("the trace was too large for any viewer and is left out")
                return False
            packed = Path(folder) / TRACE
            with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
                shutil.copyfileobj(source, target)
            packed.replace(self._folder / TRACE)
        return True


def render_table(
    operations: Sequence[Operation], *, steps: int, device: str, has_trace: bool
) -> str:
    """`profile.md`: the operators that took most of the time, those of the device first."""
    known = [o for o in operations if not _is_bracket(o.name)]
    has_device = any(o.device_ms for o in known)
    ordered = sorted(known, key=lambda o: (o.device_ms, o.cpu_ms), reverse=True)[:NUM_ROWS]
    cpu_ms, device_ms = sum(o.cpu_ms for o in known), sum(o.device_ms for o in known)
    total = device_ms if has_device else cpu_ms
    busy = f"; {device_ms / steps:.2f} ms of {device}" if has_device else ""
    head = (
        f"# Profile of {steps} training steps on {device}\n\n"
        f"A step took {cpu_ms / steps:.2f} ms of the CPU's threads that issue it{busy}, recording "
        "included, which makes steps slower. Times are of each operator alone, without those that "
        "it calls.\n\n"
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
    more = f"\n{left} more are left out; the trace has all of them.\n" if left > 0 else ""
    return (
        f"{head}| operation | calls/step | CPU ms/step |{column} share |\n"
        f"|---|---:|---:|{rule}---:|\n{rows}{more}"
    )


def _is_bracket(name: str) -> bool:
    """Marks around whole steps, which are no operators."""
    return name.startswith("ProfilerStep") or name == "step"


def _cell(name: str) -> str:
    return name.replace("|", "\\|").replace("`", "'")[:120]
