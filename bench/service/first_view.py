"""How much the page's first view loads, and how soon it can be used, in a browser's empty cache.

`python -m bench.service.first_view NAME URL TEXT ...` compares it with pages of other programs that
run already: for each its name, its address, and a text that is visible once the view has its data.
"""

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Browser, sync_playwright

from bench.result import Result, at_most, info, spread
from bench.service.process import run_service, settings_for
from native.page import ensure_page

REPEATS = 7
MOST_KB = 150.0
MOST_MS = 300.0
JOB = "first-job"
LONGEST_MS = 120_000
SETTLE_MS = 1_000
TRANSFERRED = (
    "performance.getEntries().reduce((sum, e) => sum + (e.encodedBodySize || 0), 0) / 1000"
)


def run() -> list[Result]:
    """Open the page in new browser contexts and measure bytes and time."""
    with _run_page() as url, _run_browser() as browser:
        seen = [_open(browser, url) for _ in range(REPEATS)]
    sizes, times = [size for size, _ in seen], [ms for _, ms in seen]
    return [
        at_most("first view, compressed", max(sizes), "kB", MOST_KB, "everything that it loads"),
        at_most("first view, interactive", statistics.median(times), "ms", MOST_MS, spread(times)),
    ]


def compare(others: list[tuple[str, str, str]]) -> list[Result]:
    """Measure the page with one job, and other pages, alternately.

    Args:
        others: Name, address, and a text that is visible once the view has its data.
    """
    with _run_page() as url, _run_browser() as browser:
        job = {"name": JOB, "dataset": "builtin:digits"}
        httpx.post(f"{url}/v1/jobs", json=job).raise_for_status()
        pages = [("redkiln", url, JOB), *others]
        rounds = [[_look(browser, *one[1:]) for one in pages] for _ in range(REPEATS)]
    results = []
    for (name, *_), seen in zip(pages, zip(*rounds, strict=True), strict=True):
        sizes, times, hosts = zip(*seen, strict=True)
        foreign = ", ".join(sorted(set().union(*hosts))) or "none"
        results += [
            info(f"{name}, loaded", max(sizes), "kB", f"other hosts that it asks: {foreign}"),
            info(f"{name}, data visible", statistics.median(times), "ms", spread(times)),
        ]
    return results


@contextmanager
def _run_page() -> Iterator[str]:
    """Run a service with the built page."""
    if (reason := ensure_page()) is not None:
        raise RuntimeError(reason)
    with tempfile.TemporaryDirectory() as folder, run_service(settings_for(Path(folder))) as url:
        yield url


@contextmanager
def _run_browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        raise RuntimeError("this measurement needs chromium: apt-get install chromium")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


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


def _look(browser: Browser, url: str, text: str) -> tuple[float, float, set[str]]:
    """Return the kB that were received until a text was visible, the ms, and other hosts."""
    context = browser.new_context()
    page = context.new_page()
    session = context.new_cdp_session(page)
    sizes: list[float] = []
    hosts: set[str] = set()
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    own = urlsplit(url).netloc
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.goto(url, wait_until="commit")
    page.get_by_text(text).first.wait_for(timeout=LONGEST_MS)
    ms = float(page.evaluate("performance.now()"))
    page.wait_for_timeout(SETTLE_MS)  # what is loaded behind the data
    context.close()
    return sum(sizes) / 1000, ms, hosts - {own, ""}


if __name__ == "__main__":
    words = iter(sys.argv[1:])
    for result in compare(list(zip(words, words, words, strict=True))):
        print(f"{result.name}: {result.value:,.0f} {result.unit}; {result.detail}")
