"""`python -m native up`: runs the stack until Ctrl-C and restarts parts that crash."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from native.page import ensure_page
from native.processes import Part, Terminated
from native.stack import Stack

LOOK_SECONDS = 0.5
MAX_CRASHES = 3
CRASH_WINDOW_SECONDS = 120.0
"""A part that crashes more than `MAX_CRASHES` times within this time is not restarted."""
EXIT_CONFIG = 78
"""Exit status of a part that should not be restarted, because its configuration is wrong."""


@dataclass
class Crashes:
    """When each part has crashed."""

    times: dict[str, list[float]] = field(default_factory=dict)

    def should_restart(self, part: Part, *, now: float) -> bool:
        """Record a crash and return whether to restart the part."""
        recent = [at for at in self.times.get(part.name, []) if now - at < CRASH_WINDOW_SECONDS]
        self.times[part.name] = [*recent, now]
        return part.exit_status != EXIT_CONFIG and len(recent) < MAX_CRASHES


def run_up(state_dir: Path, *, settings: Mapping[str, str]) -> int:
    """Run the stack until Ctrl-C, and return 0 if everything was then stopped.

    Args:
        state_dir: Folder for everything that survives a restart.
        settings: `REDKILN_*` variables that take precedence over those of this process.

    Raises:
        PartFailed: A part did not start, or crashed too often.
        AddressInUse: Another program uses the chosen port.
        KeyboardInterrupt: Ctrl-C was pressed before the stack was up or again while it stopped, or
            SIGTERM or SIGHUP was received; everything has ended by then.
    """
    if (reason := ensure_page()) is not None:
        print(reason, flush=True)
    print("Starting Redis, the service and a worker ...", flush=True)
    with Stack(state_dir, environment=settings, inherit_settings=True) as stack:
        print(describe(stack), flush=True)
        try:
            watch(stack)
        except Terminated:
            raise
        except KeyboardInterrupt:
            print("\nStopping ...", flush=True)
    print("Stopped.", flush=True)
    return 0


def watch(stack: Stack) -> None:
    """Restart parts that end, until one crashes too often.

    Raises:
        PartFailed: A part crashed too often.
    """
    crashes = Crashes()
    while True:
        for part in stack.parts:
            if part.is_running:
                continue
            if not crashes.should_restart(part, now=time.monotonic()):
                part.check()
            print(f"{part.name} ended with status {part.exit_status}; restarting it "
                  f"(log: {part.log_path})", flush=True)  # fmt: skip
            part.restart()
        time.sleep(LOOK_SECONDS)


def describe(stack: Stack) -> str:
    """Say where everything is, and what to do next."""
    key_file = stack.state_dir / "keys" / "admin.key"
    key_lines, header = [], ""
    if stack.needs_key:
        key_lines = [f"  export REDKILN_KEY_FILE={key_file}"]
        header = ' -H "Authorization: Bearer $(cat $REDKILN_KEY_FILE)"'
    lines = [
        "",
        f"Redkiln is up.    In the browser: {stack.url}    API: {stack.url}/docs",
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
