"""A real stack and a real browser. Trainers are fakes, because training is not what is tested."""

import os
import shutil
from contextlib import suppress
from functools import partial

import pytest
from playwright.sync_api import Error, Page, expect, sync_playwright

from native.page import ensure_page
from tests.integration.conftest import FAKES, start_site
from tests.page.made import client_of, join, make_job, make_many

# Generous, because CI tests containers at the same time.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)
OPTIONS = {"REDKILN_UPLOAD_PART_BYTES": "65536", "REDKILN_SCRIPTS": "on"}
PAGES = pytest.StashKey[list[Page]]()
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/page" in str(item.path):
            item.add_marker(pytest.mark.page)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Add what the open pages say to the report of a test that has failed."""
    report = yield
    if call.when == "call" and report.failed:
        for page in item.stash.get(PAGES, []):
            with suppress(Error):  # the browser may have ended
                report.sections.append((page.url, page.locator("body").inner_text(timeout=5000)))
    return report


@pytest.fixture(scope="session")
def built_page():
    """The page in page/dist, from the present sources."""
    reason = ensure_page()
    assert reason is None, reason


@pytest.fixture(scope="session")
def site(built_page, tmp_path_factory):
    for site in start_site(tmp_path_factory, **FAKES, **OPTIONS):
        # While the played worker with a GPU is live, jobs for any device would wait for its GPU.
        site.submit = partial(site.submit, resources={"device": "cpu"})
        yield site


@pytest.fixture(scope="session")
def gpu_worker(site):
    with client_of(site) as client:
        yield join(site, client)


@pytest.fixture(scope="session")
def made_job(site, gpu_worker):
    """The id of a job with hostile names that has everything a classifier leaves."""
    return make_job(site, gpu_worker)


@pytest.fixture(scope="session")
def job_of_many(site, gpu_worker):
    """The id of a job with 30 classes."""
    return make_many(site, gpu_worker)


@pytest.fixture(scope="session")
def browser():
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    assert found, "these tests need chromium: apt-get install chromium"
    options = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    options += ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=options)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, site, request):
    """Open an address; at its end nothing foreign was asked for and no script has failed."""
    contexts, faults = [], []
    pages = request.node.stash[PAGES] = []

    def see_request(request):
        if not request.url.startswith((site.stack.url, "blob:", "data:")):
            faults.append(f"foreign request: {request.url}")

    def see_message(message):
        # A failed request is the page's own business: it shows it.
        if message.type == "error" and "Failed to load resource" not in message.text:
            faults.append(message.text)

    def open_page(path, **options):
        context = browser.new_context(base_url=site.stack.url, **options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        pages.append(page)
        page.on("request", see_request)
        page.on("console", see_message)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(path)
        return page

    yield open_page
    for page in pages:  # an answer that a test changes may still be on its way
        page.unroute_all(behavior="ignoreErrors")
    for context in contexts:
        context.close()
    assert not faults
