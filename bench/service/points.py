"""Seconds from the trainer's write of a point to its place on the screen, in a browser.

The service and the worker's reporter are real; this program plays the trainer, which appends to
`events.jsonl`, and watches the text that a chart shows to screen readers. The browser and this
program use the same clock.
"""

import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from bench.result import Result, at_most, percentile, spread
from bench.service.process import run_service, settings_for
from native.page import ensure_page
from redkiln.client import Client
from redkiln.events import EventKind, EventWriter
from redkiln.protocol import PROTOCOL_VERSION, ClaimRequest, HelloRequest
from redkiln.version import __version__
from redkiln.views.job import Progress
from worker.agent.attempt.reporter import Reporter
from worker.agent.client import ServiceClient
from worker.agent.stopping import StopSignal
from worker.jobdir import JobDir

NUM_POINTS = 60
MOST_SECONDS = 1.5
PAUSE_SECONDS = (0.3, 1.2)
"""Shortest and longest time between two points; reports must not fall into step with them."""
WORKER = {"worker_id": "wrk_00000001", "boot_id": "bench"}
WATCH = """() => {
  window.seen = {}
  const look = () => {
    for (const image of document.querySelectorAll('figure [role=img]')) {
      const step = /train.loss (\\d+)$/.exec(image.getAttribute('aria-label'))?.[1]
      if (step) window.seen[step] ??= Date.now() / 1000
    }
    requestAnimationFrame(look)
  }
  look()
}"""


def run() -> list[Result]:
    """Write points one by one while a browser shows the job's curves."""
    if (reason := ensure_page()) is not None:
        raise RuntimeError(reason)
    chromium = shutil.which("chromium")
    if chromium is None:
        raise RuntimeError("this measurement needs chromium: apt-get install chromium")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        settings = settings_for(Path(name))
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        key_file = Path(name, "keys", "worker.key")
        with run_service(settings) as url, reported(url, key_file, Path(name)) as (job_id, writer):
            page = browser.new_page()
            page.goto(f"{url}/jobs/{job_id}")
            page.get_by_role("heading", level=1).wait_for()
            delays = _write_points(writer, page)
            page.close()  # the service waits for its stream
        browser.close()
    how = f"from the trainer's write to the drawn frame; {spread(delays)}"
    return [
        at_most("points/median", statistics.median(delays), "s", MOST_SECONDS, how),
        at_most("points/worst", percentile(delays, 1.0), "s", MOST_SECONDS, how),
    ]


@contextmanager
def reported(url: str, key_file: Path, folder: Path) -> Iterator[tuple[str, EventWriter]]:
    """Submit a job, claim it, and report what is written to its events until the block ends."""
    with Client(url) as client:
        job_id = client.submit({"dataset": "builtin:digits", "resources": {"device": "cpu"}}).id
    service = ServiceClient(url, load_key=lambda: key_file.read_text().strip())
    service.hello(
        HelloRequest(
            protocol=PROTOCOL_VERSION, version=__version__, hostname="bench", slots=1, **WORKER
        )
    )
    claim = service.claim(ClaimRequest(claim_id="bench", devices=["cpu"], **WORKER))
    if claim is None:
        raise RuntimeError("the service has no work, although a job was just submitted")
    jobdir = JobDir(folder / "job")
    jobdir.root.mkdir()
    reporter = Reporter(
        service.attempt(claim), jobdir, StopSignal(), report_seconds=claim.report_seconds
    )
    with EventWriter(jobdir.events_path) as writer:
        reporter.start()
        try:
            yield job_id, writer
        finally:
            reporter.halt()
            service.close()


def _write_points(writer: EventWriter, page: Page) -> list[float]:
    """Write points whose value is their step, and return how long each took to be seen.

    A point that the next one overtook was on the screen with it.
    """
    writer.write(EventKind.PHASE, phase="training")
    page.evaluate(WATCH)
    order = random.Random(0)
    written: dict[int, float] = {}
    for step in range(1, NUM_POINTS + 1):
        writer.write(EventKind.METRICS, points={"train/loss": [[step, step]]})
        progress = Progress(step=step, steps=NUM_POINTS, epoch=1, epochs=1, fraction=0.5)
        writer.write(EventKind.PROGRESS, **progress.model_dump())
        written[step] = time.time()
        time.sleep(order.uniform(*PAUSE_SECONDS))
    page.wait_for_function(f"window.seen[{NUM_POINTS}]", timeout=20_000)
    seen = {int(step): at for step, at in page.evaluate("window.seen").items()}
    return [
        min(at for later, at in seen.items() if later >= step) - at_write
        for step, at_write in written.items()
    ]
