"""Every view is accessible in both themes, fits a phone, and shows hostile names as text."""

import io
import json
import re
import zipfile
from urllib.parse import quote

import pytest
from PIL import Image
from playwright.sync_api import expect

from service.page.endpoints import VIEWS
from tests.page.axe import find_violations
from tests.page.made import HOSTILE, client_of, doctor, greet, make_model
from tests.redkiln.predict.models import COLOURS, save_colours
from tests.service.conftest import Worker

TABS = ("curves", "results", "samples", "logs", "events", "spec", "files")
NOWHERE = quote(HOSTILE, safe="")


@pytest.fixture(scope="module")
def paths(site, made_job):
    """Addresses of all views, with jobs that run, wait, succeeded and failed behind them."""
    done = made_job
    failed = site.submit(name="bad", epochs=1, metadata={"die_at": "2", "how": '"say:no"'},
                         retry={"failures": 0})  # fmt: skip
    site.wait_for_end(failed)
    site.submit(name="running", epochs=500, metadata={"step_seconds": "0.05"})
    site.submit(name="waiting", epochs=1)
    dataset = next(one.id for one in site.client.datasets() if one.name == "builtin:iris")
    site.client.register_model("made", done, aliases=("production",))
    known = {"job_id": done, "dataset_id": dataset, "name": "made"}
    views = [path.format(**known) for path in VIEWS if path != "/login"]
    tabs = [f"/jobs/{done}?tab={tab}" for tab in TABS]
    digits = site.client.job(done).dataset_id
    more = [f"/jobs/{failed}", "/new?dataset=builtin%3Airis", f"/data/{digits}?job={done}"]
    unknown = [path.format(job_id=NOWHERE, dataset_id=NOWHERE, name=NOWHERE)
               for path in VIEWS if "{" in path]  # fmt: skip
    yield [*views, *tabs, *more, *unknown, f"/?q={NOWHERE}", f"/compare?job={NOWHERE}"]
    site.cancel_all()


@pytest.fixture(scope="module")
def hostile_machine(site, gpu_worker):
    """A worker whose name and doctor are hostile, on a machine like that of another worker."""
    key = (site.stack.state_dir / "keys" / "worker.key").read_text().strip()
    texts = dict.fromkeys(("title", "cause", "fix"), HOSTILE)
    with client_of(site) as client:
        worker = Worker(client, key, id="wrk_0000000b")
        worker.hello(hostname=f"ill {HOSTILE}").raise_for_status()
        greet(gpu_worker)
        report_doctor(gpu_worker, 1, doctor())
        report_doctor(worker, 1, doctor(**texts))
        yield
        report_doctor(worker, 2, {**doctor(), "checks": [], "self_tests": []})


def report_doctor(worker, seq, report):
    body = {"worker_id": worker.id, "boot_id": worker.boot_id, "seq": seq, "gpus": [],
            "doctor": report}  # fmt: skip
    told = worker.client.post("/v1/workers/status", json=body, headers=worker.headers)
    told.raise_for_status()


@pytest.fixture(scope="module")
def hostile_data(site):
    """The ids of sets, the first with an error: files, classes and columns are hostile."""
    picture = io.BytesIO()
    Image.new("RGB", (8, 8), (90, 90, 90)).save(picture, "PNG")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for number in range(12):
            name = f"{('cat', 'dog')[number % 2]} {HOSTILE}/{number} {HOSTILE}.png"
            archive.writestr(name, picture.getvalue())
        archive.writestr(f"cat {HOSTILE}/{HOSTILE}.txt", "no picture")
    column, kind = (f'"{text} {HOSTILE.replace(chr(34), chr(34) * 2)}"' for text in ("size", "ham"))
    rows = "\n".join(f"{number},{('spam', kind)[number % 2]}" for number in range(40))
    table, pictures = f"{column},label\n{rows}\n", content.getvalue()
    return [upload(site, pictures, name="broken"),
            upload(site, pictures, name="images", skip_bad=1),
            upload(site, table.encode(), name="rows", target="label")]  # fmt: skip


def upload(site, content, **options):
    with client_of(site) as client:
        made = client.post("/v1/datasets", params=options, content=content,
                           headers={"Content-Type": "application/octet-stream"})  # fmt: skip
        path = f"/v1/datasets/{made.raise_for_status().json()['id']}"
        site.wait_for(lambda: client.get(path).json()["status"] != "validating")
    return path.rpartition("/")[2]


@pytest.fixture(scope="module")
def hostile_model(site, gpu_worker, tmp_path_factory):
    """The id of a job with a model of pictures whose classes are hostile."""
    folder = tmp_path_factory.mktemp("model")
    facts = {"input": "images", "output": "logits", "channel_order": "RGB", "size": 4,
             "resize": "stretch"}  # fmt: skip
    manifest = {"task": "image-classification", "preprocessing": facts, "model": {},
                "classes": [f"{colour} {HOSTILE}" for colour in COLOURS]}  # fmt: skip
    files = [("model.onnx", "model", save_colours(folder).read_bytes()),
             ("manifest.json", "manifest", json.dumps(manifest).encode())]  # fmt: skip
    return make_model(site, gpu_worker, files)


def test_every_view_is_accessible_in_both_themes_and_fits_a_phone(
    paths, hostile_machine, open_page
):
    """Class names, logs, messages and names of machines are hostile; they are shown as text."""
    page = open_page("/", color_scheme="light")
    found = []
    for path in paths:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        found += find_violations(page, path)
    assert not found, "\n".join(found)


def test_dialogs_errors_and_opened_parts_are_accessible(made_job, job_of_many, open_page):
    page = open_page("/", color_scheme="light")
    expect(page.get_by_role("heading", name="Home")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    found = find_violations(page, "shortcuts")
    page.goto(f"/jobs/{made_job}")
    page.get_by_role("button", name="Delete the job").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found += find_violations(page, "question")
    page.goto("/new?dataset=builtin%3Airis")
    page.get_by_label("epochs", exact=True).fill(HOSTILE)
    page.keyboard.press("Tab")
    expect(page.get_by_text(re.compile(r"^Line \d: "))).to_be_visible()
    page.get_by_text("All fields").click()
    found += find_violations(page, "errors in New")
    page.get_by_role("button", name="Save as preset").click()
    page.get_by_label("Name", exact=True).fill(HOSTILE)
    found += find_violations(page, "a new preset")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("button", name=HOSTILE, exact=True)).to_be_visible()
    found += find_violations(page, "a saved preset")
    page.goto(f"/jobs/{job_of_many}?tab=results&true=class+1&predicted=class+2")
    page.get_by_text("Matrix of 30 classes").click()
    expect(page.get_by_role("group", name="Confusion matrix")).to_be_visible()
    found += find_violations(page, "matrix")
    assert not found, "\n".join(found)


def test_data_and_machines_with_all_that_they_can_show_are_accessible(
    hostile_data, hostile_machine, open_page
):
    broken, pictures, rows = hostile_data
    page = open_page(f"/data/{broken}", color_scheme="light")
    expect(page.locator(".notice.bad").filter(has_text=HOSTILE)).to_be_visible()
    found = find_violations(page, "data with an error")
    page.goto(f"/data/{pictures}")
    expect(page.get_by_role("region", name="Samples").get_by_role("img")).not_to_have_count(0)
    page.get_by_text("1 skipped").click()
    expect(page.get_by_text(f"{HOSTILE}.txt", exact=False).first).to_be_visible()
    found += find_violations(page, "pictures")
    page.goto(f"/data/{rows}")
    expect(page.get_by_role("group", name="Rows")).to_contain_text(HOSTILE)
    expect(page.get_by_role("group", name="Columns of the table")).to_contain_text(HOSTILE)
    found += find_violations(page, "rows")
    page.goto("/new?dataset=images")
    expect(page.get_by_text("1 skipped")).to_be_visible()
    expect(page.get_by_role("button", name="Start the job")).to_be_enabled()
    found += find_violations(page, "New with pictures")
    page.goto("/machines")
    expect(page.get_by_role("region", name="Self-tests")).to_contain_text(HOSTILE)
    found += find_violations(page, "machines")
    assert not found, "\n".join(found)


def test_a_model_with_answers_and_compared_jobs_are_accessible(
    hostile_model, made_job, job_of_many, open_page
):
    page = open_page(f"/try/{hostile_model}", color_scheme="light")
    content = io.BytesIO()
    Image.new("RGB", (8, 8), (90, 200, 90)).save(content, "PNG")
    photo = {"name": f"{HOSTILE}.png", "mimeType": "image/png", "buffer": content.getvalue()}
    page.get_by_label("Pictures").set_input_files(photo)
    answer = page.get_by_role("list", name="Answers").get_by_role("listitem").first
    expect(answer).to_contain_text(f"green {HOSTILE}")
    found = find_violations(page, "answers")
    page.goto(f"/compare?job={made_job}&job={job_of_many}&job={hostile_model}&all=1")
    expect(page.get_by_role("figure").filter(has_text=HOSTILE)).to_be_visible()
    found += find_violations(page, "compared jobs")
    assert not found, "\n".join(found)


def test_the_settings_with_keys_and_licences_are_accessible(site, open_page):
    with client_of(site) as client:
        key = {"name": HOSTILE, "scope": "user"}
        client.post("/v1/keys", json=key).raise_for_status()
    page = open_page("/settings", color_scheme="light")
    expect(page.get_by_role("cell", name=HOSTILE, exact=True)).to_be_visible()
    page.get_by_text("Packages in this page").click()
    expect(page.get_by_role("list", name="Licences")).to_be_visible()
    found = find_violations(page, "settings")
    page.get_by_role("button", name=f"Revoke {HOSTILE}").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("cell", name=HOSTILE, exact=True))
    expect(row).to_contain_text("revoked")
    found += find_violations(page, "a revoked key")
    assert not found, "\n".join(found)


def test_the_keyboard_reaches_help_search_and_views(site, open_page):
    page = open_page("/machines")
    expect(page.get_by_role("heading", name="Machines")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Search jobs")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    page.keyboard.press("n")
    expect(page.get_by_role("heading", name="New job")).to_be_visible()
