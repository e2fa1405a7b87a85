"""A service with 100,000 jobs, and 50 that follow it at once."""

import re
import threading
from contextlib import ExitStack

import httpx
import pytest
import sqlalchemy as sa
import uvicorn
from playwright.sync_api import expect

from redkiln.tls import tls_for
from service.app import create_app
from service.jobs.models import JOB
from service.settings import Settings
from tests.waiting import wait_for

NUM_JOBS = 100_000
NUM_FOLLOWERS = 50
NUM_BROWSERS = 2
TABS_OF_BROWSER = 5
"""A browser opens six connections to a host."""
MOST_ROWS = 300
"""Rows that exist at once: those that are seen, and a margin."""


@pytest.fixture(scope="module")
def crowded(built_page, tmp_path_factory):
    """The address of a service with one cancelled job and 99,999 copies of it."""
    app = create_app(Settings(state_dir=tmp_path_factory.mktemp("crowded"), min_free_bytes=0))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    with httpx.Client(base_url=url, timeout=60, verify=tls_for(url)) as client:
        spec = {"name": "first", "dataset": "builtin:digits"}
        job_id = client.post("/v1/jobs", json=spec).raise_for_status().json()["id"]
        client.post(f"/v1/jobs/{job_id}/cancel").raise_for_status()
    app.state.services.database.write(lambda session: copy_job(session))
    yield url
    app.state.changes.close()
    server.should_exit = True
    thread.join(timeout=60)


def copy_job(session):
    """Copy the only job, each copy a second older than the one before."""
    numbers = sa.select(sa.literal(1).label("n")).cte("numbers", recursive=True)
    numbers = numbers.union_all(sa.select(numbers.c.n + 1).where(numbers.c.n < NUM_JOBS - 1))
    name = sa.func.printf("copy-%06d", numbers.c.n)
    changed = {
        "id": sa.func.printf("job_0%021d", numbers.c.n),
        "name": name,
        "search_text": name,
        "finished_at": sa.type_coerce(JOB.c.finished_at, sa.Double) - numbers.c.n,
    }
    columns = [changed.get(column.name, column) for column in JOB.c]
    copies = sa.select(*columns).select_from(JOB.join(numbers, sa.true()))
    session.execute(JOB.insert().from_select([c.name for c in JOB.c], copies))


def test_a_hundred_thousand_jobs_are_counted_scrolled_and_searched(crowded, browser):
    context = browser.new_context(base_url=crowded, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto("/")
    heading = page.get_by_role("heading", name=re.compile("^Ended"))
    expect(heading).to_contain_text(f"{NUM_JOBS:,}")
    rows = page.locator("tr.job")
    expect(rows.first).to_be_visible()
    page.mouse.move(600, 400)
    for _ in range(4):
        last = rows.last.inner_text()
        page.mouse.wheel(0, 100_000)
        expect(rows.last).not_to_have_text(last, use_inner_text=True)
        assert rows.count() <= MOST_ROWS
    assert page.evaluate("scrollY") > 12_000, "rows beyond the first 200 were loaded"
    page.get_by_role("button", name="Ended", exact=True).click()
    expect(rows.first).to_contain_text(f"copy-{NUM_JOBS - 1:06}")
    expect(page).to_have_url(re.compile(r"\?sort=ended$"))
    page.get_by_role("button", name="Name", exact=True).click()
    expect(rows.first).to_contain_text("copy-000001")
    page.get_by_role("button", name="Name", exact=True).click()
    expect(rows.first).not_to_contain_text("copy-000001")
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute(
        "aria-sort", "descending"
    )
    page.get_by_label("Search jobs").fill("copy-012345")
    expect(rows).to_have_count(1)
    context.close()


def test_what_a_newer_job_pushes_out_of_the_newest_stays_in_the_list(crowded, browser):
    context = browser.new_context(base_url=crowded, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto("/")
    names = page.locator("tr.job td.name")
    page.get_by_role("button", name="Show more").click()
    expect(names.nth(30)).to_be_attached()
    before = names.all_inner_texts()[:30]
    with httpx.Client(base_url=crowded, timeout=60, verify=tls_for(crowded)) as client:
        spec = {"name": "newer", "dataset": "builtin:digits"}
        job_id = client.post("/v1/jobs", json=spec).raise_for_status().json()["id"]
        client.post(f"/v1/jobs/{job_id}/cancel").raise_for_status()
    expect(names.first).to_have_text("newer")
    assert names.all_inner_texts()[:31] == ["newer", *before]
    context.close()


def test_fifty_visible_tabs_follow_one_service(crowded, browser):
    """Ten tabs, and what forty more ask for: a tab takes 0.7 s of CPU time."""
    contexts = [browser.new_context(base_url=crowded) for _ in range(NUM_BROWSERS)]
    tabs = [context.new_page() for context in contexts for _ in range(TABS_OF_BROWSER)]
    for tab in tabs:
        tab.goto("/")
        expect(tab.get_by_role("cell", name="first")).to_be_visible()
    with (
        httpx.Client(base_url=crowded, timeout=60, verify=tls_for(crowded)) as client,
        ExitStack() as open_streams,
    ):
        streams = []
        for _ in range(NUM_FOLLOWERS - len(tabs)):
            stream = client.stream("GET", "/v1/overview/events")
            streams.append(open_streams.enter_context(stream).iter_lines())
            assert shows(streams[-1], "first")
        spec = {"name": "seen", "dataset": "builtin:digits"}
        client.post("/v1/jobs", json=spec).raise_for_status()
        for tab in tabs:
            expect(tab.get_by_role("link", name="seen")).to_be_visible()
        assert all(shows(stream, "seen") for stream in streams)
    for context in contexts:
        context.close()


def shows(stream, name):
    """Read the lines of a stream until one names the job."""
    return any(f'"{name}"' in line for line in stream)
