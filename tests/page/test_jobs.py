"""What runs, waits and has ended, and one job, live."""

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.page.made import greet, hide

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
SLOW = {"step_seconds": "0.05"}
CPU = {"device": "cpu"}


def card_of(page, name):
    return page.get_by_role("article").filter(has_text=name)


def test_a_job_is_paused_and_resumed_and_the_page_follows(site, open_page):
    job_id = site.submit(name="oak", epochs=60, metadata=SLOW)
    page = open_page("/")
    card = card_of(page, "oak")
    expect(card.get_by_text("running, training")).to_be_visible()
    card.get_by_role("button", name="Pause oak").click()
    queue = page.get_by_role("listitem").filter(has_text="oak")
    expect(queue.get_by_text("paused", exact=True)).to_be_visible()
    queue.get_by_role("button", name="Resume oak").click()
    expect(card.get_by_text("running, training")).to_be_visible()
    page.get_by_role("link", name="oak").click()
    expect(page).to_have_url(re.compile(f"/jobs/{job_id}$"))
    expect(page.get_by_role("img", name=re.compile("^Phases: .*paused"))).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(page.get_by_text("cancelled", exact=True).first).to_be_visible()


def test_a_log_that_is_followed_begins_again_with_a_new_attempt(site, open_page):
    job_id = site.submit(name="birch", epochs=60, metadata=SLOW)
    page = open_page("/")
    answers = iter([("a", "the first attempt \u00e9"), ("b", ""), ("b", "the second attempt")])
    asked = []

    def answer(route):
        attempt, text = next(answers, ("b", ""))
        asked.append(parse_qs(urlsplit(route.request.url).query))
        headers = {"Redkiln-Attempt": attempt, "Redkiln-Log-Size": str(len(text.encode()))}
        route.fulfill(body=text, headers=headers)

    page.route(f"**/v1/jobs/{job_id}/logs?*", answer)
    page.goto(f"/jobs/{job_id}?tab=logs")
    log = page.get_by_label("Log", exact=True)
    expect(log).to_have_text("the second attempt")
    assert [query.get("offset") for query in asked[:3]] == [None, ["20"], ["0"]]
    site.client.cancel(job_id)


def list_shown(site, job_id):
    """The events that the page lists: without those of checkpoints if these are many."""
    events = list(site.client.events(job_id))
    others = [event for event in events if event.kind not in ("checkpoint", "committed")]
    return others if len(events) - len(others) > 10 else events


def test_the_page_says_that_the_service_is_away_and_catches_up(site, open_page):
    job_id = site.submit(name="ash", epochs=80, metadata=SLOW)
    page = open_page(f"/jobs/{job_id}")
    expect(page.get_by_text("running, training")).to_be_visible()
    site.wait_for_training(job_id)
    site.stack.service.kill()
    notice = page.get_by_text("The service does not answer.")
    expect(notice).to_be_visible()
    site.stack.service.restart()
    site.stack.wait_for_service()
    expect(notice).not_to_be_visible()
    site.client.finish(job_id)
    expect(page.get_by_text("succeeded", exact=True).first).to_be_visible()
    page.get_by_role("tab", name="Events").click()
    seen = page.locator("tbody tr")
    num_events = len(list_shown(site, job_id))
    expect(seen).to_have_count(num_events)
    # Opened while the service is away, the stream and the list both deliver all events.
    blocked = re.compile(f"/v1/jobs/{job_id}")
    page.route(blocked, lambda route: route.abort())
    page.reload()
    expect(notice.first).to_be_visible()
    page.unroute(blocked)
    expect(seen).to_have_count(num_events)


@pytest.mark.parametrize("kind", ["css", "js"])
def test_a_part_of_the_page_that_could_not_be_loaded_is_loaded_again(open_page, kind):
    page = open_page("/")
    refused = []

    def refuse_once(route):
        refused.append(route.request.url)
        route.abort() if len(refused) == 1 else route.continue_()

    page.route(re.compile(rf"/assets/Settings-[^/]*\.{kind}$"), refuse_once)
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    assert len(refused) == 2


def test_a_network_that_drops_is_noticed_and_nothing_is_missed(site, open_page):
    job_id = site.submit(name="rowan", epochs=200, metadata=SLOW)
    page = open_page(f"/jobs/{job_id}")
    expect(page.get_by_text("running, training")).to_be_visible()
    site.wait_for_training(job_id)
    page.context.set_offline(True)
    notice = page.get_by_text("The service does not answer.")
    expect(notice).to_be_visible()
    site.client.finish(job_id)
    site.wait_for_end(job_id)
    page.context.set_offline(False)
    expect(notice).not_to_be_visible()
    expect(page.get_by_text("succeeded", exact=True).first).to_be_visible()
    page.get_by_role("tab", name="Events").click()
    expect(page.locator("tbody tr")).to_have_count(len(list_shown(site, job_id)))


def test_many_checkpoints_do_not_hide_other_events(site, open_page):
    job_id = site.submit(epochs=20)
    site.wait_for_success(job_id)
    page = open_page(f"/jobs/{job_id}?tab=events")
    rows, shown = page.locator("tbody tr"), list_shown(site, job_id)
    expect(rows).to_have_count(len(shown))
    assert "checkpoint" not in {event.kind for event in shown}
    page.get_by_label("events of checkpoints").check()
    expect(rows).to_have_count(len(list(site.client.events(job_id))))


def test_a_restart_is_marked_and_patches_and_differences_are_explained(site, open_page, gpu_worker):
    greet(gpu_worker)
    job_id = site.submit(name="hazel", resources={"device": "gpu"}, training={"epochs": 4})
    gpu_worker.claim().fail()
    again = gpu_worker.claim()
    patch = {"name": "no-flash-attention", "outcome": "applied", "why": "it returns wrong numbers"}
    spec = {**site.client.job(job_id).spec, "model": {"name": "mnist-cnn"}}
    environment = {"patches": [patch], "torch": "9.9"}
    answer = again.report(("phase", {"phase": "training"}),
                          ("resolved", {"spec": spec, "environment": environment}))  # fmt: skip
    assert answer.status_code == 200, answer.text
    page = open_page(f"/jobs/{job_id}?tab=spec")
    phases = page.get_by_role("img", name=re.compile("^Phases: .*attempt 2"))
    expect(phases.locator(".restart")).to_have_count(1)
    expect(page.get_by_role("row", name=" ".join(patch.values()))).to_be_visible()
    expect(page.get_by_role("row", name="/training/epochs 4 10")).to_be_visible()
    chosen = page.get_by_role("row", name=re.compile("name mnist-cnn chosen by the worker"))
    expect(chosen).to_be_visible()
    expect(page.get_by_role("row", name="torch 9.9")).to_be_visible()
    digest = {"sha256": "a" * 64, "size_bytes": 1_500_000}
    again.report(("checkpoint", {"step": 1200, "epoch": 2, "is_best": True, **digest}))
    page.get_by_role("tab", name="Events").click()
    details = page.get_by_role("cell", name="step 1,200, epoch 2, 1.50 MB, the best so far")
    expect(details).to_be_visible()
    again.finish("released")
    site.client.cancel(job_id)


"""The middle of the coloured pixels: 0 at the lower edge, 1 at the upper."""


def test_files_are_downloaded(made_job, open_page):
    page = open_page(f"/jobs/{made_job}?tab=files")
    with page.expect_download() as download:
        page.get_by_role("link", name="checkpoint.safetensors").click()
    assert download.value.suggested_filename == "checkpoint.safetensors"
    assert download.value.path().read_bytes() == b"weights"
    names = page.locator("main tbody a").all_inner_texts()
    assert [name.strip() for name in names[:2]] == ["model.onnx", "mistakes.png"]


def test_a_model_without_a_manifest_is_offered_for_download_only(made_job, open_page):
    page = open_page(f"/jobs/{made_job}")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the model").click()
    assert download.value.suggested_filename == "model.onnx"
    assert page.get_by_role("link", name="Try the model").count() == 0


def test_a_job_that_failed_runs_again(site, open_page):
    metadata = {"die_at": "2", "how": '"say:no"', "step_seconds": "0.05"}
    job_id = site.submit(name="aspen", epochs=1, metadata=metadata, retry={"failures": 0})
    page = open_page(f"/jobs/{job_id}")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("img", name=re.compile("^Phases: .*attempt 2"))).to_be_visible()
    page.get_by_role("button", name="From the start").click()
    expect(page.get_by_role("img", name=re.compile("^Phases: .*attempt 3"))).to_be_visible()
    site.wait_for_end(job_id)
    # The time between a failure and a retry belongs to no phase.
    expect(page.get_by_role("img", name=re.compile("ended, .*attempt 2.*ended, "))).to_be_visible()


def test_a_failed_script_says_how_to_continue_with_corrected_code(site, open_page):
    command = "open('{checkpoints}/a b', 'w').close(); raise SystemExit(3)"
    job_id = site.run_script("python", "-c", command, resources=CPU)
    site.wait_for_end(job_id)
    page = open_page(f"/jobs/{job_id}")
    advice = page.get_by_text("continue from them with corrected code")
    expect(advice).to_contain_text(f"redkiln run --from {job_id} -- python -c 'open('\"'\"'")


def test_previews_of_tables_are_shown_without_the_signs_of_markdown(made_job, open_page):
    page = open_page(f"/jobs/{made_job}")
    table = r"""| sample | true | right |
|---|---|---|
| weight\_kg=4.65 \| C:\\x | a\*b | **no** |
"""
    listed = {"data": [{"step": 1, "media_type": "text/markdown", "url": "/v1/table"}]}
    page.route(f"**/v1/jobs/{made_job}/previews", lambda route: route.fulfill(json=listed))
    page.route("**/v1/table", lambda route: route.fulfill(body=table))
    page.goto(f"/jobs/{made_job}?tab=samples")
    cells = page.locator("main tbody td")
    expect(cells).to_have_text([r"weight_kg=4.65 | C:\x", "a*b", "no"])


def test_what_users_wrote_is_shown_as_text(site, open_page):
    metadata = {"die_at": "3", "how": json.dumps(f"say:{HOSTILE}")}
    job_id = site.submit(epochs=1, metadata=metadata, retry={"failures": 0})
    site.wait_for_end(job_id)
    page = open_page(f"/jobs/{job_id}?tab=logs")
    expect(page.get_by_label("Log", exact=True)).to_contain_text(HOSTILE)
    page.get_by_role("tab", name="Spec").click()
    expect(page.get_by_text(HOSTILE).last).to_be_visible()
    for tab in ("Results", "Samples", "Events", "Files"):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tab", name=tab, selected=True)).to_be_visible()
    assert page.locator("main img[src=x]").count() == 0
    assert "owned" not in page.title()


def test_earlier_samples_and_mistakes_are_shown_and_training_can_continue(made_job, open_page):
    page = open_page(f"/jobs/{made_job}?tab=samples")
    expect(page.get_by_text(re.compile(r"Step 60\b.*, the newest"))).to_be_visible()
    page.get_by_label("Sample predictions over time").press("ArrowLeft")
    expect(page.get_by_role("img", name=re.compile("at step 30:"))).to_be_visible()
    expect(page).to_have_url(re.compile("at=30"))
    page.get_by_role("tab", name="Results").click()
    page.get_by_role("button", name=re.compile("^1 of cat.* predicted as dog")).click()
    expect(page.get_by_role("img", name="sample 0")).to_be_visible()
    expect(page.get_by_role("img", name="sample 1")).not_to_be_attached()
    page.get_by_role("link", name="Train longer").click()
    editor = page.get_by_label("Spec as YAML")
    expect(editor).to_contain_text(re.compile(f"pretrained: job:{made_job}"))


def test_a_result_is_shown_with_its_interval_its_baselines_and_its_threshold(made_job, open_page):
    page = open_page(f"/jobs/{made_job}?tab=results")
    expect(page.get_by_text("Test accuracy", exact=True)).to_be_visible()
    accuracy = page.get_by_role("row", name=re.compile("^test.accuracy "))
    expect(accuracy).to_contain_text("50.0 %")
    expect(accuracy).to_contain_text("15.0 % to 85.0 %")
    metrics = page.locator("section", has=page.get_by_role("heading", name="Metrics", exact=True))
    expect(metrics).to_contain_text("At least 1 of 26 test images is a copy or near copy of a")
    expect(metrics).to_contain_text("12 of 26 test images are copies or near copies of other")
    card = page.locator("section", has=page.get_by_role("heading", name="Next to simple models"))
    expect(card.get_by_role("row", name=re.compile("^this model"))).to_contain_text("50.0 %")
    expect(card.get_by_role("row", name=re.compile("^majority class"))).to_contain_text("25.0 %")
    assert card.get_by_role("row").nth(0).inner_text() == "Model\ttest/accuracy\ttest/auc"
    assert card.get_by_role("row").nth(1).inner_text() == "this model\t50.0 %\t56.3 %"
    linear = card.get_by_role("row", name=re.compile("^linear model"))
    expect(linear).to_contain_text("75.0 %")
    expect(linear).to_contain_text("81.3 %")
    expect(linear).to_contain_text("trained on 2 samples")
    expect(card.get_by_role("row", name=re.compile("^trees"))).to_contain_text("MemoryError")
    expect(card).to_contain_text(
        "The test samples do not show whether the model or the best baseline, linear model, is "
        "better (their answers differ for 3 of 26)."
    )
    page.set_viewport_size({"width": 390, "height": 844})
    assert card.evaluate("it => it.scrollWidth <= it.clientWidth")
    threshold = page.locator("section", has=page.get_by_role("heading", name="Threshold for dog"))
    expect(threshold).to_contain_text("6 test samples of this class do not show which is better.")
    folds = page.locator("section", has=page.get_by_role("heading", name="Folds", exact=True))
    # One fold has no AUC.
    assert folds.get_by_role("table").nth(0).get_by_role("row").all_inner_texts() == [
        "Fold\taccuracy", "1\t50.0 %", "2\t70.0 %", "3\t90.0 %",
        "mean ± standard deviation\t70.0 % ± 20.0 %",
    ]  # fmt: skip
    assert folds.get_by_role("table").nth(1).get_by_role("row").all_inner_texts() == [
        "Model\taccuracy", "models of the folds\t70.0 %", "majority class\t25.0 %",
        "linear model\t65.0 %",
    ]  # fmt: skip
    expect(folds).to_contain_text("is better (their answers differ for 9 of 78).")


def test_a_result_that_the_simplest_models_reach_is_called_too_easy(made_job, open_page):
    def make_perfect(route):
        answer = route.fetch()
        job = answer.json()
        found = job["result"]["comparison"]
        baselines = [found["baselines"][0], {"name": "trees", "metrics": {"test/accuracy": 1.0}}]
        found.update(value=1.0, best="trees", baselines=baselines, both_perfect=True)
        route.fulfill(response=answer, json=job)

    page = open_page(f"/jobs/{made_job}?tab=results")
    hint = page.get_by_text("already contains the answer")
    expect(page.get_by_role("heading", name="Next to simple models")).to_be_visible()
    expect(hint).not_to_be_attached()
    page.route(f"**/v1/jobs/{made_job}", make_perfect)
    page.reload()
    expect(hint).to_be_visible()


def test_many_classes_have_a_list_of_confusions_and_a_matrix(job_of_many, open_page):
    page = open_page(f"/jobs/{job_of_many}?tab=results")
    pairs = page.get_by_role("region", name="Most confused classes")
    expect(pairs.get_by_role("row").nth(1)).to_have_text("class 1 class 2 5", use_inner_text=True)
    pairs.get_by_role("button", name="2 of class 4 predicted as class 3").click()
    expect(page).to_have_url(re.compile("true=class\\+4&predicted=class\\+3"))
    page.reload()
    expect(page.get_by_role("heading", name="Mistakes")).to_contain_text("class 4 predicted")
    expect(page.get_by_text("row 1", exact=True)).to_be_visible()
    expect(page.get_by_text("row 0", exact=True)).not_to_be_attached()
    page.get_by_text("Matrix of 30 classes").click()
    page.get_by_role("button", name="5 of class 1 predicted as class 2", exact=True).click()
    expect(page.get_by_text("row 0", exact=True)).to_be_visible()
    efficiency = page.get_by_role("region", name="Efficiency")
    expect(efficiency).to_contain_text("Steps waited for their batches 25% of the time.")
    expect(efficiency).to_contain_text("REDKILN_THREADS more CPU threads")
    waited = efficiency.get_by_role("progressbar", name="Share of steps that waited for data")
    expect(waited).to_have_attribute("aria-valuenow", "20")


def test_eight_tabs_follow_at_once(site, browser):
    """A browser opens six connections to a host: tabs that nobody sees give theirs back."""
    context = browser.new_context(base_url=site.stack.url)
    tabs = [context.new_page() for _ in range(8)]
    for tab in tabs:
        tab.goto("/")
        expect(tab.get_by_role("heading", name="Running")).to_be_visible()
        hide(tab)
    job_id = site.submit(name="seen", epochs=1)
    site.wait_for_end(job_id)
    for tab in tabs:
        hide(tab, is_hidden=False)
        expect(tab.get_by_role("cell", name="seen")).to_be_visible()
        hide(tab)
    context.close()


def test_a_job_names_its_data_set_although_the_spec_has_its_id(site, open_page, tmp_path):
    table = tmp_path / "alders.csv"
    table.write_text("size,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(40)))
    data = site.client.push_dataset(table, wait=True)
    job = site.client.submit({"dataset": data.id, "resources": {"device": "gpu"}})
    page = open_page(f"/jobs/{job.id}")
    expect(page.get_by_role("link", name="alders", exact=True)).to_be_visible()
    expect(page.get_by_text(data.id)).not_to_be_visible()
    site.client.cancel(job.id)


def test_results_name_the_warnings_of_the_data_set(made_job, open_page):
    page = open_page("/")

    def warn(route):
        data = route.fetch().json()
        one = {"code": "copies", "message": "two are equal", "pairs": []}
        route.fulfill(json={**data, "warnings": [one, one]})

    page.route("**/v1/datasets/*", warn)
    page.goto(f"/jobs/{made_job}?tab=results")
    notice = page.get_by_text("The data set has 2 warnings, which may limit what the results say")
    notice.get_by_role("link", name="Data").click()
    expect(page).to_have_url(re.compile("/data/"))


def test_a_job_that_ended_without_samples_says_so(site, open_page):
    page = open_page(f"/jobs/{(made := site.submit())}?tab=samples")
    site.wait_for_end(made)
    page.route("**/previews", lambda route: route.fulfill(json={"data": [], "has_more": False}))
    page.reload()
    expect(page.get_by_text("This job has ended without any.")).to_be_visible()


def test_a_question_about_a_job_goes_when_the_job_has_ended(site, open_page):
    job_id = site.submit(epochs=500, metadata=SLOW)
    page = open_page(f"/jobs/{job_id}")
    page.get_by_role("button", name="Finish now").click()
    question = page.get_by_role("dialog", name="Stop training here?")
    expect(question).to_be_visible()
    site.client.cancel(job_id)
    expect(question).not_to_be_attached()
