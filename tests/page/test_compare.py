"""Jobs next to each other: what differs, and curves that grow and keep their choices."""

import re

import pytest
from playwright.sync_api import expect

SLOW = {"step_seconds": "0.05"}


@pytest.fixture(scope="module")
def pair(site):
    """The ids of two jobs that differ in one field and in no result."""
    pair = [site.submit(name=f"rowan-{epochs}", epochs=epochs) for epochs in (2, 3)]
    for job_id in pair:
        site.wait_for_success(job_id)
    return pair


def test_only_what_differs_is_listed_unless_all_is_asked_for(pair, open_page):
    page = open_page("/compare")
    page.get_by_label("Search jobs to compare").fill("rowan")
    for epochs in (2, 3):
        page.get_by_role("checkbox", name=re.compile(f"rowan-{epochs}")).check()
    table = page.get_by_role("group", name="Table of results and fields")
    expect(table.get_by_role("row", name="/training/epochs 2 3")).to_be_visible()
    expect(table.get_by_role("row", name="test/accuracy")).not_to_be_attached()
    page.get_by_label("Also what is equal").check()
    expect(table.get_by_role("row", name="test/accuracy 50.0 % 50.0 %")).to_be_visible()
    expect(page).to_have_url(re.compile(f"job={pair[0]}&job={pair[1]}&all=1"))
    page.get_by_label("Across").select_option("/training/epochs")
    page.get_by_label("Up").select_option("test/accuracy")
    shown = "test/accuracy against /training/epochs: rowan-2 2, 50.0 %; rowan-3 3, 50.0 %"
    dots = page.get_by_role("img", name=shown)
    expect(dots.locator("circle")).to_have_count(2)
    places = [dot.get_attribute("cx") for dot in dots.locator("circle").all()]
    assert float(places[0]) < float(places[1])
    expect(page).to_have_url(re.compile("sx=%2Ftraining%2Fepochs&sy=test%2Faccuracy"))
    page.get_by_role("button", name="Remove rowan-3").click()
    expect(page.get_by_role("button", name="Remove rowan-3")).not_to_be_attached()


def test_compared_curves_grow_and_the_address_keeps_zoom_and_hidden_jobs(site, pair, open_page):
    job_id = site.submit(name="sorb", epochs=500, metadata=SLOW)
    page = open_page(f"/compare?job={pair[0]}&job={job_id}&x=epoch")
    chart = page.get_by_role("figure").filter(has_text="train/loss")
    image = chart.get_by_role("img", name=re.compile(r"sorb 0\.\d"))
    expect(image).to_be_visible()
    early = image.get_attribute("aria-label")
    expect(chart.get_by_role("img", name=early, exact=True)).not_to_be_attached()
    chart.get_by_role("button", name="rowan").click()
    expect(page).to_have_url(re.compile("hide=rowan-2"))
    page.goto(f"{page.url}&zoom=0.5~1.5")
    expect(chart.get_by_role("button", name="Show all")).to_be_visible()
    expect(chart.get_by_role("button", name="rowan")).to_have_attribute("aria-pressed", "false")
    site.client.cancel(job_id)


def test_results_on_different_data_are_not_ranked(pair, open_page):
    page = open_page("/")
    changes = {"result": {"metrics": {"test/accuracy": 0.9}}}

    def answer(route):
        job = route.fetch().json()
        route.fulfill(json={**job, **changes, "result": {**job["result"], **changes["result"]}})

    page.route(f"**/v1/jobs/{pair[0]}", answer)
    page.goto(f"/compare?job={pair[0]}&job={pair[1]}")
    best = page.get_by_title("the best")
    expect(best).to_have_text("90.0 %")
    changes["dataset_id"] = "builtin:iris"
    page.reload()
    notice = page.get_by_text("The jobs were tested on different data")
    expect(notice).to_contain_text(
        "(builtin:iris, builtin:digits), so their results are not ranked."
    )
    expect(page.get_by_role("row", name="test/accuracy 90.0 % 50.0 %")).to_be_visible()
    expect(best).not_to_be_attached()
