"""Runs one of the limited processes that read users' data, and waits for it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import structlog
from pydantic import BaseModel

from service.errors import Unavailable

_WALL_SECONDS = 120
_SOURCE_DIR = Path(__file__).parents[2]

log = structlog.get_logger(__name__)


def run_child(module: str, order: BaseModel, *, work_dir: Path, what: str) -> None:
    """Run a module with an order; it writes next to the order.

    Args:
        module: Full name of the module.
        order: Work of the module, written as JSON.
        work_dir: Folder for the order and the results.
        what: Words for the message, such as `the images could not be drawn`.

    Raises:
        Unavailable: The process failed or took too long.
    """
    order_path = (work_dir / "order.json").absolute()
    order_path.write_text(order.model_dump_json())
    environment = {"PATH": os.defpath, "PYTHONPATH": str(_SOURCE_DIR), "LANG": "C.UTF-8"}
    child = subprocess.Popen(
        [sys.executable, "-m", module, str(order_path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=work_dir,
        start_new_session=True,
    )
    try:
        _, stderr = child.communicate(timeout=_WALL_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        _, stderr = child.communicate()
    if child.returncode != 0:
        log.warning(
            "child_failed", module=module, returncode=child.returncode, stderr=stderr[-2000:]
        )
        raise Unavailable(f"{what}; try again with fewer of them")
