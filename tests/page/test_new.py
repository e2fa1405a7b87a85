"""Writing a spec: presets, completion, and errors at their lines."""

import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.page.made import make_model


def open_editor(open_page):
    page = open_page("/new?dataset=builtin%3Adigits")
    editor = page.get_by_label("Spec as YAML")
    expect(editor).to_contain_text("builtin:digits")
    return page, editor


def test_presets_write_settings_and_own_ones_are_kept_in_the_browser(open_page):
    page, editor = open_editor(open_page)
    presets = page.get_by_role("group", name="Presets")
    presets.get_by_role("button", name="Try out").click()
    expect(page.get_by_label("epochs", exact=True)).to_have_value("1")
    presets.get_by_role("button", name="Small files").click()
    both = re.compile("quality: fast.*variants:.*- int8-dynamic", re.DOTALL)
    expect(editor).to_contain_text(both)
    presets.get_by_role("button", name="Save as preset").click()
    page.get_by_label("Name", exact=True).fill("my own")
    page.get_by_role("button", name="Save", exact=True).click()

    page.goto("/new?dataset=builtin%3Airis")
    page.get_by_role("button", name="my own", exact=True).click()
    expect(editor).to_contain_text(re.compile("builtin:iris.*epochs: 1", re.DOTALL))
    page.get_by_role("button", name="Remove the preset my own").click()
    page.reload()
    expect(presets.get_by_role("button", name="Fast")).to_be_visible()
    expect(page.get_by_role("button", name="my own", exact=True)).not_to_be_attached()


def test_an_empty_field_shows_what_the_service_would_fill_in(site, open_page):
    page, _ = open_editor(open_page)
    epochs = page.get_by_label("epochs", exact=True)
    for quality in ("fast", "best"):
        spec = {"dataset": "builtin:digits", "quality": quality}
        dry = httpx.post(f"{site.stack.url}/v1/jobs", json=spec, params={"dry_run": True})
        page.get_by_label("quality").select_option(quality)
        expected = str(dry.json()["spec"]["training"]["epochs"])
        expect(epochs).to_have_attribute("placeholder", expected)


def test_what_was_typed_survives_a_reload_until_the_job_is_sent(site, open_page):
    page, editor = open_editor(open_page)
    again = page.get_by_role("button", name="Start over")
    type_settings(page, editor)
    page.reload()
    expect(page.get_by_label("epochs", exact=True)).to_have_value("7")
    expect(editor).to_contain_text("priority: 5 # soon")
    again.click()
    expect(editor).not_to_contain_text("epochs")
    type_settings(page, editor)
    page.get_by_role("button", name="Start the job").click()
    expect(page).to_have_url(re.compile("/jobs/job_"))
    # It may use a GPU, so it would wait for the played one.
    site.client.cancel(page.url.rpartition("/")[2])
    page.goto("/new?dataset=builtin%3Adigits")
    expect(editor).to_contain_text("builtin:digits")
    expect(editor).not_to_contain_text("epochs")
    expect(again).not_to_be_attached()


def test_the_settings_are_in_the_address(open_page):
    page, editor = open_editor(open_page)
    type_settings(page, editor)
    expect(page).to_have_url(
        re.compile(r"/new\?dataset=builtin%3Adigits#spec=.*epochs%3A\+7.*soon")
    )
    other = page.context.new_page()
    other.goto(page.url)
    expect(other.get_by_label("epochs", exact=True)).to_have_value("7")
    expect(other.get_by_label("Spec as YAML")).to_contain_text("priority: 5 # soon")
    other.get_by_role("button", name="Start over").click()
    expect(other).to_have_url(re.compile(r"/new\?dataset=builtin%3Adigits$"))
    # A link that is pasted into the same tab is newer than what was typed in it.
    linked = page.url.replace("epochs%3A+7", "epochs%3A+8")
    page.evaluate("(address) => location.assign(address)", linked)
    expect(page.get_by_label("epochs", exact=True)).to_have_value("8")
    page.goto("/new?dataset=builtin%3Adigits")
    expect(page.get_by_label("epochs", exact=True)).to_have_value("8")


def type_settings(page, editor):
    """Type a setting into the form, and another one with a comment into the YAML."""
    page.get_by_label("epochs", exact=True).fill("7")
    page.keyboard.press("Tab")
    expect(editor).to_contain_text("epochs: 7")
    editor.press("Control+End")
    page.keyboard.type("priority: 5 # soon")
    expect(editor).to_contain_text("priority: 5 # soon")


def test_keys_and_values_of_a_spec_are_completed_from_its_schema(open_page):
    page, editor = open_editor(open_page)
    expect(page.get_by_role("group", name="Presets")).to_be_visible()
    editor.press("Control+End")
    page.keyboard.type("train")
    accept(page, "training")
    page.keyboard.type("optim")
    accept(page, "optimizer")
    page.keyboard.type("name: mu")
    accept(page, "muon")
    expect(editor).to_contain_text(re.compile(r"training:\s+optimizer:\s+name: muon"))


def accept(page, option):
    """Take a suggestion as a person would, who sees it first.

    The editor takes Enter as a line break for 75 ms after its list has changed.
    """
    expect(page.get_by_role("option", name=option)).to_be_visible()
    page.wait_for_timeout(300)
    page.keyboard.press("Enter")
    expect(page.get_by_role("option", name=option)).not_to_be_attached()


def test_an_error_is_marked_at_its_line(open_page):
    page, editor = open_editor(open_page)
    editor.press("Control+End")
    page.keyboard.type("name: x\ntraining: {epochs: -1}")
    expect(page.get_by_text(re.compile(r"^Line 3: "))).to_be_visible()
    marked = page.locator(".cm-lintRange-error")
    expect(marked).to_have_count(1)
    expect(marked).to_contain_text("epochs: -1")
    expect(page.get_by_text(re.compile(r"^training\.epochs: must "))).to_be_visible()


@pytest.fixture(scope="module")
def other_jobs(site, gpu_worker):
    """The id of a job by each task that trains nothing, and a part of its spec."""
    files = ("checkpoint.safetensors", "manifest.json")
    source = make_model(site, gpu_worker, [(name, "file", b"{}") for name in files])
    cpu = {"resources": {"device": "cpu"}, "metadata": {"note": "c"}}
    specs = {
        "script": {"script": {"command": ["true", "a b"]}},
        "benchmark": {"measure": {"tests": ["memory"], "seconds": 1}},
        "export": {"source": source},
    }
    made = {task: site.client.submit({"task": task, **spec, **cpu}).id
            for task, spec in specs.items()}  # fmt: skip
    yield made, {"script": "a b", "benchmark": "- memory", "export": source}
    site.cancel_all()


def test_jobs_that_train_nothing_are_cloned_and_started(site, other_jobs, open_page):
    jobs, parts = other_jobs
    page = open_page("/new")
    for task, job_id in jobs.items():
        page.goto(f"/jobs/{job_id}")
        page.get_by_role("link", name="Clone").click()
        editor = page.get_by_label("Spec as YAML")
        expect(editor).to_contain_text(re.compile(f"task: {task}.*note: c", re.DOTALL))
        expect(editor).to_contain_text(parts[task])
        page.get_by_role("button", name="Start the job").click()
        expect(page).to_have_url(re.compile("/jobs/job_"))
        started = site.client.job(page.url.rpartition("/")[2])
        assert started.id != job_id
        assert {**started.spec, "name": None} == {**site.client.job(job_id).spec, "name": None}


def test_a_training_job_is_cloned_with_an_estimate_of_its_time(site, made_job, open_page):
    page = open_page(f"/jobs/{made_job}")
    page.get_by_role("link", name="Clone").click()
    expect(page.get_by_label("epochs", exact=True)).to_have_value("3")
    expect(page.get_by_text(re.compile(r"^About \S+ s? ?on <img"))).to_be_visible()
    page.get_by_role("button", name="Start the job").click()
    expect(page).to_have_url(re.compile("/jobs/job_"))
    started = site.client.job(page.url.rpartition("/")[2])
    assert started.id != made_job
    assert {**started.spec, "name": None} == {**site.client.job(made_job).spec, "name": None}
    site.client.cancel(started.id)


def test_a_job_without_data_is_written_as_yaml(open_page):
    page = open_page("/new")
    page.get_by_role("button", name="Script", exact=True).click()
    expect(page.get_by_label("Spec as YAML")).to_contain_text("command: [python, -c,")
    expect(page.get_by_role("button", name="Start the job")).to_be_enabled()
    page.get_by_label("command", exact=True).fill('["true"]')
    page.get_by_label("command", exact=True).press("Enter")
    expect(page.get_by_label("Spec as YAML")).to_contain_text("true")
    expect(page.get_by_role("heading", name="Data", exact=True)).to_be_visible()
