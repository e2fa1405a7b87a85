"""How much the page's first view loads, and how soon it can be used, in a browser's empty cache."""

import os
import shutil
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from bench.result import Result, at_most, spread
from bench.service.process import run_service, settings_for
from native.page import ensure_page

REPEATS = 7
MOST_KB = 150.0
MOST_MS = 300.0
TRANSFERRED = (
    "performance.getEntries().reduce((sum, e) => sum + (e.encodedBodySize || 0), 0) / 1000"
)


def run() -> list[Result]:
    """Open the page in new browser contexts and measure bytes and time."""
    if (reason := ensure_page()) is not None:
        raise RuntimeError(reason)
    path = shutil.which("chromium")
    if path is None:
        raise RuntimeError("this measurement needs chromium: apt-get install chromium")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        tempfile.TemporaryDirectory() as folder,
        run_service(settings_for(Path(folder))) as url,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=path, args=options)
        seen = [_open(browser, url) for _ in range(REPEATS)]
        browser.close()
    sizes, times = [size for size, _ in seen], [ms for _, ms in seen]
    return [
        at_most("first view, compressed", max(sizes), "kB", MOST_KB, "everything that it loads"),
        at_most("first view, interactive", statistics.median(times), "ms", MOST_MS, spread(times)),
    ]


def _open(browser: Browser, url: str) -> tuple[float, float]:
    """Return the kB that were loaded, and the ms until the view was drawn with its content."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(url)
    page.get_by_role("heading", level=1).wait_for()
    ms = page.evaluate(
        "performance.getEntriesByType('paint').at(-1)?.startTime ?? performance.now()"
    )
    size = page.evaluate(TRANSFERRED)
    context.close()
    return float(size), float(ms)
