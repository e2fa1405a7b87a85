"""The queue in another order, a GPU for its owner, and the jobs that have ended."""

import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.page.axe import PHONE
from tests.page.made import HOSTILE, end, greet, make_model, publish, tell

SLOW = {"step_seconds": "0.05"}
CPU = {"device": "cpu"}
KEPT = {"code": "kept_free", "message": "its owner wants it"}


@pytest.fixture
def clean(site):
    yield
    site.cancel_all()


def test_the_queue_is_reordered_with_buttons_by_dragging_and_by_priority(site, open_page, clean):
    site.submit(name="in-front", epochs=500, metadata=SLOW)
    ids = [site.submit(name=name, epochs=1) for name in ("elm", "fir", "yew")]
    page = open_page("/")
    rows = page.get_by_role("region", name="Waiting").get_by_role("listitem")
    expect(rows).to_have_count(3)

    page.get_by_role("button", name="Move yew up").focus()
    page.keyboard.press("Enter")
    expect(rows.nth(1)).to_contain_text("yew")
    expect(page.get_by_role("button", name="Move yew up")).to_be_focused()
    rows.nth(2).drag_to(rows.nth(0))
    expect(rows.nth(0)).to_contain_text("fir")

    page.get_by_label("Priority of yew").fill("5")
    page.keyboard.press("Tab")
    expect(rows.nth(0)).to_contain_text("yew")

    page.set_viewport_size(PHONE)
    page.get_by_label("Priority of elm").fill("9")
    page.keyboard.press("Tab")
    expect(rows.nth(0)).to_contain_text("elm")
    page.get_by_role("button", name="Move elm down").click()
    expect(rows.nth(1)).to_contain_text("elm")

    elm, fir, yew = ids
    site.wait_for(lambda: queue_of(site) == [yew, elm, fir])


def queue_of(site):
    answer = httpx.get(f"{site.stack.url}/v1/jobs", params={"sort": "queue"})
    return [job["id"] for job in answer.json()["data"]]


def test_a_phone_shows_the_whole_name_of_a_job_that_has_ended(site, open_page):
    name = "museum-things-9x4kqz"
    site.wait_for_success(site.submit(name=name, epochs=1))
    page = open_page(f"/?q={name}")
    page.set_viewport_size(PHONE)
    cell = page.get_by_role("cell", name=name)
    expect(cell).to_contain_text("succeeded")
    assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth")


def test_a_model_that_failed_its_check_is_marked_in_the_list(site, open_page, gpu_worker):
    greet(gpu_worker)
    job_id = site.submit(name="fails-its-check", resources={"device": "gpu"})
    attempt = gpu_worker.claim()
    assert attempt.job_id == job_id
    model = publish(attempt, "model.onnx", "model", "application/octet-stream", b"a model")
    end(attempt, [{**model, "verified": False}])
    page = open_page("/?q=fails-its-check")
    row = page.get_by_role("row", name="fails-its-check")
    expect(row).to_contain_text("succeeded")
    expect(row).to_contain_text("UNVERIFIED")


def test_a_gpu_is_freed_for_its_owner_and_given_back(site, open_page, gpu_worker, clean):
    page = open_page("/")  # before the worker speaks: it counts as lost if it is silent for long
    greet(gpu_worker)
    job_id = site.submit(name="on-gpu", resources={"device": "gpu"})
    attempt = gpu_worker.claim()
    assert attempt.job_id == job_id
    tell(gpu_worker, 1, attempt_id=attempt.id)
    running = page.get_by_role("region", name="Running").get_by_role("article")
    expect(running.filter(has_text="on-gpu")).to_contain_text(f"RX 7900 XTX {HOSTILE} on bench")
    card = page.get_by_role("region", name="GPUs").get_by_role("article")
    expect(card.get_by_role("link", name="on-gpu")).to_be_visible()
    card.get_by_role("button", name="Give me my GPU").click()
    expect(card.get_by_role("status")).to_contain_text("Free in about")
    attempt.finish("paused")
    tell(gpu_worker, 2, excluded=KEPT)
    expect(card.get_by_text("This GPU is yours")).to_be_visible()
    card.get_by_role("button", name="Give it back").click()
    tell(gpu_worker, 3)
    expect(card.get_by_role("button", name="Give me my GPU")).to_be_visible()
    assert site.client.job(job_id).status == "queued"
    page.goto("/machines")
    page.get_by_text("Facts and their sources").click()
    facts = page.get_by_role("group", name="Facts of the GPUs")
    expect(facts.get_by_role("row", name="Target gfx1100 driver: KFD topology")).to_be_visible()
    expect(page.get_by_text("No benchmark has been run.")).to_be_visible()


def test_a_running_job_that_is_asked_to_finish_does_not_wait_before_it_is_queued(
    site, open_page, gpu_worker, clean
):
    greet(gpu_worker)
    job_id = site.submit(name="rowan", resources={"device": "gpu"})
    attempt = gpu_worker.claim()
    assert attempt.job_id == job_id
    attempt.report(("phase", {"phase": "training"}))
    attempt.checkpoint(5)
    httpx.post(f"{site.stack.url}/v1/jobs/{job_id}/finish").raise_for_status()
    page = open_page(f"/jobs/{job_id}")
    phases = page.get_by_role("img", name=re.compile("^Phases: "))
    # The event is there, and the attempt still saves its state.
    expect(page.get_by_text("stops training and exports the best so far")).to_be_visible()
    expect(phases.locator("span").last).to_have_class(re.compile("training"))
    attempt.finish("paused")
    expect(phases.locator("span").last).to_have_class(re.compile("waiting"))
    site.client.cancel(job_id)


def test_home_shows_a_metric_of_a_script(site, open_page):
    words = "import redkiln; redkiln.log(step=1, **{'loss': 2.5, 'val/f1': 0.91})"
    job_id = site.run_script("python", "-c", words, name="tamarisk", resources=CPU)
    site.wait_for_success(job_id)
    row = open_page("/?q=tamarisk").get_by_role("row").filter(has_text="tamarisk")
    expect(row).to_contain_text("validation F1 91.0 %")


def test_a_result_is_listed_with_the_name_of_its_metric(site, open_page, gpu_worker):
    files = [("model.onnx", "model", b"model")]
    job_id = make_model(site, gpu_worker, files, name="walnut", metric="test/map_onnx")
    page = open_page("/?q=walnut")
    expect(page.get_by_role("row", name=re.compile("^walnut"))).to_contain_text("mAP 100.0 %")
    page.goto(f"/compare?q=walnut&jobs={job_id}")
    expect(page.get_by_text("succeeded, mAP 100.0 %")).to_be_visible()
    page.goto("/try")
    card = page.get_by_role("link", name=re.compile("^walnut"))
    expect(card).to_contain_text("mAP 100.0 %")
    option = page.get_by_role("option", name="walnut, mAP 100.0 %")
    expect(option).to_be_attached()


def test_jobs_are_found_by_their_names(site, open_page):
    for name in ("larch", "willow"):
        site.wait_for_end(site.submit(name=name, epochs=1))
    page = open_page("/")
    page.get_by_label("Search jobs").fill("will")
    expect(page.get_by_role("heading", name="Found")).to_be_visible()
    expect(page.get_by_role("cell", name="willow")).to_be_visible()
    expect(page.get_by_role("cell", name="larch")).not_to_be_visible()
    expect(page).to_have_url(re.compile(r"\?q=will$"))
