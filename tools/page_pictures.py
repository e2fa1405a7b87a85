"""Takes pictures of the web page while real jobs train: `make screenshots`.

It builds the page if it is old, starts the stack in a temporary folder, and trains small models on
handwritten digits. Every view in both themes, on a desktop and on a phone, goes to
`build/screenshots/`; some of them go to `docs/pictures/page-*.png`. It needs chromium.
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright
from sklearn.datasets import load_digits

from native.page import ensure_page
from native.stack import Stack
from redkiln.client import Client
from tools.pictures import FOLDER

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, HEIGHT = 1280, 800
SIZES = {"desktop": (WIDTH, HEIGHT), "phone": (390, 844)}
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
PATIENCE_MS = 300_000
"""Training on a busy machine takes most of it."""
SETTLE_MS = 1_500
"""Time for charts to be drawn after their last data have come."""
IN_DOCS: dict[str, Theme] = {"home": "light", "job": "dark", "results": "light", "compare": "light"}
"""Views whose desktop picture is in the documentation, with its theme."""
NAMES = tuple(IN_DOCS)
ALL = Path(__file__).parents[1] / "build" / "screenshots"
HOST = "workstation"
"""Name of the machine in the pictures."""
DATA = "digits"
NOISE = 3.5
"""Standard deviation of the noise; the pixels are from 0 to 16."""
SHOWN_BY_TAB = {
    "results": "table", "samples": "main img", "logs": "pre", "events": "tbody tr",
    "spec": "table", "files": "tbody tr",
}  # fmt: skip


@dataclass(frozen=True)
class View:
    """A view of the page.

    Attributes:
        path: Its address below the service's.
        shows: CSS selector of an element that is there once the view is complete.
        tries: Pictures to drop on it.
    """

    path: str
    shows: str
    tries: tuple[Path, ...] = ()


def main() -> int:
    """Write the pictures; the exit status."""
    argparse.ArgumentParser(
        prog="python -m tools.page_pictures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    if socket.gethostname() != HOST:
        return run_as_host()
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        print("The pictures need chromium: apt-get install chromium", file=sys.stderr)
        return 1
    if (reason := ensure_page()) is not None:
        print(reason, file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Path(folder) / "state", environment={"REDKILN_AUTH": "keys"}) as stack,
        Client(stack.url, stack.admin_key) as client,
        sync_playwright() as playwright,
    ):
        views = prepare(client, Path(folder) / DATA)
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = playwright.chromium.launch(executable_path=browser, args=options)
        for kind in SIZES:
            for theme in THEMES:
                take_pictures(chromium, stack, views, kind, theme)
        chromium.close()
    print(f"All pictures are in {ALL}")
    return 0


def run_as_host() -> int:
    """Run this program where the machine has the name of the pictures, in a namespace."""
    rename = f'echo {HOST} > /proc/sys/kernel/hostname && exec "$@"'
    own = [sys.executable, "-m", "tools.page_pictures"]
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return subprocess.call(
        ["unshare", "--uts", *user, "sh", "-c", rename, "sh", *own]  # noqa: S607
    )


def prepare(client: Client, folder: Path) -> dict[str, View]:
    """Train models, leave others running and waiting, and return the views that show them."""
    dataset = client.push_dataset(write_digits(folder), name=DATA)
    first, second = (
        submit(client, name, DATA, "mnist-cnn", epochs=epochs)
        for name, epochs in (("digits", 12), ("digits-short", 3))
    )
    irises = submit(client, "irises", "builtin:iris", "mlp", epochs=10)
    for job_id in (first, second, irises):
        client.wait(job_id)
    client.register_model("digits", job_id=first, aliases=("production",))
    submit(client, "digits-long", DATA, "mnist-cnn", epochs=600)
    submit(client, "digits-wide", DATA, "amdnet", epochs=20)
    submit(client, "irises-again", "builtin:iris", "mlp", epochs=40)
    return dict(views_of(first, second, dataset.id, sorted(folder.glob("*/9*.png"))[::20]))


def views_of(job: str, other: str, dataset: str, photos: list[Path]) -> Iterator[tuple[str, View]]:
    """Return every view by its name in the names of the files."""
    yield "new", View(f"/new?dataset={DATA}", "main [role=img]")
    yield "new-empty", View("/new", "h2")
    yield "job", View(f"/jobs/{job}?tab=curves", "canvas")
    for tab, shows in SHOWN_BY_TAB.items():
        yield tab, View(f"/jobs/{job}?tab={tab}", shows)
    yield "try", View(f"/try/{job}", "main [role=progressbar]", tuple(photos[:3]))
    yield "data", View("/data", "main a")
    yield "dataset", View(f"/data/{dataset}", "main [role=img]")
    yield "models", View("/models/digits", "table")
    yield "compare", View(f"/compare?job={job}&job={other}", "canvas")
    yield "machines", View("/machines", "main table")
    yield "settings", View("/settings", "main table")
    # Last, because the job that runs takes its time until it has a curve.
    yield "home", View("/", "article svg[aria-label*=', now']")


def write_digits(folder: Path) -> Path:
    """Write 1,797 handwritten digits as pictures in one folder for each; returns the folder.

    Noise makes them hard enough that the results show some mistakes.
    """
    digits = load_digits()
    noise = np.random.default_rng(0).normal(0, NOISE, digits.images.shape)
    for i, (pixels, label) in enumerate(zip(digits.images + noise, digits.target, strict=True)):
        path = folder / str(label) / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels.clip(0, 16) * 15).astype(np.uint8)).resize((28, 28)).save(path)
    return folder


def submit(client: Client, name: str, dataset: str, model: str, *, epochs: int) -> str:
    """Submit a job; its id."""
    spec = {"name": name, "dataset": dataset, "model": model, "training": {"epochs": epochs}}
    return client.submit(spec).id


def take_pictures(
    browser: Browser, stack: Stack, views: dict[str, View], kind: str, theme: Theme
) -> None:
    """Write what every view looks like in a theme and at a size, the login first."""
    width, height = SIZES[kind]
    page = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme=theme,
        reduced_motion="reduce",
    )
    ALL.mkdir(parents=True, exist_ok=True)
    log_in(page, stack, ALL / f"login-{kind}-{theme}.png")
    for name, view in views.items():
        path = ALL / f"{name}-{kind}-{theme}.png"
        shoot(page, stack.url, view, path, is_whole=kind == "phone")
        if kind == "desktop" and IN_DOCS.get(name) == theme:
            shutil.copyfile(path, picture_path(name))
            print(f"{picture_path(name).name}: {path.stat().st_size / 1000:.0f} kB")
    page.close()


def log_in(page: Page, stack: Stack, path: Path) -> None:
    """Write a picture of the login, and exchange the key for a session."""
    page.goto(stack.url)
    key = page.get_by_label("Key", exact=True)
    expect(key).to_be_visible(timeout=PATIENCE_MS)
    page.screenshot(path=path)
    key.fill(stack.admin_key)
    page.get_by_role("button", name="Log in").click()
    expect(key).to_be_hidden(timeout=PATIENCE_MS)


def shoot(page: Page, url: str, view: View, path: Path, *, is_whole: bool) -> None:
    """Write a picture of a view once it is complete: the window, or all of it."""
    page.goto(f"{url}{view.path}")
    if view.tries:
        page.get_by_label("Pictures").set_input_files(view.tries)
    expect(page.locator(view.shows).first).to_be_visible(timeout=PATIENCE_MS)
    size = page.viewport_size
    assert size is not None, "every page is opened with a size"
    if is_whole:  # a high window, because the bar at its bottom would hide a part of a long picture
        height = page.evaluate("document.documentElement.scrollHeight")
        page.set_viewport_size({"width": size["width"], "height": height})
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=path)
    page.set_viewport_size(size)


def picture_path(name: str) -> Path:
    """Return where the picture of a view is in the documentation."""
    return FOLDER / f"page-{name}.png"


if __name__ == "__main__":
    sys.exit(main())
