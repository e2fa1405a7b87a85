"""`python -m native up`: the stack in the foreground until Ctrl-C; what crashes starts again."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from native.processes import Part
from native.stack import Stack

LOOK_SECONDS = 0.5
MAX_CRASHES = 3
CRASH_WINDOW_SECONDS = 120.0
"""A part that crashes more often within this is left alone, with its log's last words."""
EXIT_CONFIG = 78
"""A part that ends with this says that starting it again changes nothing (EX_CONFIG)."""


@dataclass
class Crashes:
    """When the parts ended by themselves."""

    times: dict[str, list[float]] = field(default_factory=dict)

    def should_restart(self, part: Part, *, now: float) -> bool:
        """Whether a part that has ended is worth another start."""
        recent = [at for at in self.times.get(part.name, []) if now - at < CRASH_WINDOW_SECONDS]
        self.times[part.name] = [*recent, now]
        return part.exit_status != EXIT_CONFIG and len(recent) < MAX_CRASHES


def run_up(state_dir: Path) -> int:
    """Run the stack until it is interrupted; the exit status.

    Raises:
        PartFailed: a part did not start, or crashes again and again.
        KeyboardInterrupt: as asked for; everything is stopped by then.
    """
    print("Starting Redis, the service and a worker ...", flush=True)
    with Stack(state_dir, inherit_settings=True) as stack:
        print(describe(stack), flush=True)
        watch(stack)
    return 0


def watch(stack: Stack) -> None:
    """Start again what ends, until that makes no sense.

    Raises:
        PartFailed: a part crashes again and again.
    """
    crashes = Crashes()
    while True:
        for part in stack.parts:
            if part.is_running:
                continue
            if not crashes.should_restart(part, now=time.monotonic()):
                part.check()
            print(f"{part.name} ended with status {part.exit_status}; starting it again "
                  f"(log: {part.log_path})", flush=True)  # fmt: skip
            part.restart()
        time.sleep(LOOK_SECONDS)


def describe(stack: Stack) -> str:
    """Where things are, and how to go on."""
    key_file = stack.state_dir / "keys" / "admin.key"
    key_lines, header = [], ""
    if stack.needs_key:
        key_lines = [f"  export REDKILN_KEY_FILE={key_file}"]
        header = ' -H "Authorization: Bearer $(cat $REDKILN_KEY_FILE)"'
    lines = [
        "",
        f"Redkiln is up.    API and its documentation: {stack.url}/docs",
        f"Logs: {stack.logs_dir}    State: {stack.state_dir}",
        "",
        "In another terminal:",
        f"  export REDKILN_URL={stack.url}",
        *key_lines,
        "  .venv/bin/redkiln train builtin:digits           # data in, verified ONNX out",
        "  .venv/bin/redkiln train PATH/TO/IMAGES           # a folder, zip or tar of them",
        f"  curl -s {stack.url}/v1/jobs -H 'Content-Type: application/json'{header} \\",
        '       -d \'{"dataset": "builtin:digits"}\'',
        "",
        "Ctrl-C stops everything.",
    ]
    return "\n".join(lines)
