"""Takes the pictures of docs/page.md: three views of the web page while real jobs train.

`python -m tools.page_pictures` builds the page if it is old, starts the stack in a temporary
folder, trains small models, and writes `docs/pictures/page-*.png`. It needs chromium.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

from native.page import ensure_page
from native.stack import Stack
from redkiln.client import Client
from tools.pictures import FOLDER

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1280, 800
PATIENCE_MS = 180_000
"""Training on a busy machine takes most of it."""
SETTLE_MS = 1_500
"""Time for charts to be drawn after their last data have come."""
NAMES = ("home", "job", "results")


def main() -> int:
    """Write the pictures; the exit status."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        print("The pictures need chromium: apt-get install chromium", file=sys.stderr)
        return 1
    if (reason := ensure_page()) is not None:
        print(reason, file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Path(folder) / "state") as stack,
        Client(stack.url, stack.admin_key) as client,
        sync_playwright() as playwright,
    ):
        done = train_models(client)
        submit_rest(client)
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = playwright.chromium.launch(executable_path=browser, args=options)
        take_pictures(chromium, stack.url, done)
        chromium.close()
    return 0


def train_models(client: Client) -> str:
    """Train two models to their end; the id of the first one's job."""
    jobs = [
        submit(client, "digits", "builtin:digits", "mnist-cnn", epochs=12),
        submit(client, "irises", "builtin:iris", "mlp", epochs=10),
    ]
    for job_id in jobs:
        client.wait(job_id)
    return jobs[0]


def submit_rest(client: Client) -> None:
    """Submit one job that runs for minutes and two that wait for it."""
    submit(client, "digits-long", "builtin:digits", "mnist-cnn", epochs=400)
    submit(client, "digits-wide", "builtin:digits", "amdnet", epochs=20)
    submit(client, "irises-again", "builtin:iris", "mlp", epochs=40)


def submit(client: Client, name: str, dataset: str, model: str, *, epochs: int) -> str:
    """Submit a job; its id."""
    spec = {"name": name, "dataset": dataset, "model": model, "training": {"epochs": epochs}}
    return client.submit(spec).id


def take_pictures(browser: Browser, url: str, done: str) -> None:
    """Write the three pictures; those of one job show the one with this id."""
    home, job, results = (picture_path(name) for name in NAMES)
    shoot(browser, f"{url}/jobs/{done}?tab=curves", job, theme="dark", shows="canvas")
    shoot(browser, f"{url}/jobs/{done}?tab=results", results, shows="table")
    # The sparkline comes with the first curve of the job that runs.
    shoot(browser, f"{url}/", home, shows="article svg[aria-label*=', now']")


def shoot(browser: Browser, url: str, path: Path, *, shows: str, theme: str = "light") -> None:
    """Write what a view looks like once it shows an element.

    Args:
        browser: A running browser.
        url: Address of the view.
        path: Where the PNG goes.
        shows: CSS selector of the element to wait for.
        theme: `light` or `dark`.
    """
    page = browser.new_page(
        viewport={"width": WIDTH, "height": HEIGHT},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    page.goto(url)
    expect(page.locator(shows).first).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_timeout(SETTLE_MS)
    path.parent.mkdir(exist_ok=True)
    page.screenshot(path=path)
    page.close()
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def picture_path(name: str) -> Path:
    """Return where the picture of a view is."""
    return FOLDER / f"page-{name}.png"


if __name__ == "__main__":
    sys.exit(main())
