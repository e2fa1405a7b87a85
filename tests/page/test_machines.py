"""What is known about machines: self-tests, the roofline of a benchmark, and fixes to copy."""

import json
import re

from playwright.sync_api import expect

from redkiln.version import __version__
from tests.page.made import FIX, client_of, doctor, end, greet, publish
from tests.service.workers.test_benchmark import RESULT


def test_self_tests_roofline_and_fixes_are_shown(site, open_page, gpu_worker):
    greet(gpu_worker)
    with client_of(site) as client:
        order = {"task": "benchmark", "name": "rates", "resources": {"device": "gpu"}}
        client.post("/v1/jobs", json=order).raise_for_status()
        attempt = gpu_worker.claim()
        content = json.dumps(RESULT).encode()
        end(attempt, [publish(attempt, "benchmark.json", "file", "application/json", content)])
        body = {"worker_id": gpu_worker.id, "boot_id": gpu_worker.boot_id, "seq": 90,
                "gpus": [], "doctor": doctor()}  # fmt: skip
        told = client.post("/v1/workers/status", json=body, headers=gpu_worker.headers)
        assert told.status_code == 200, told.text

    page = open_page("/machines")
    workers = page.get_by_role("region", name="Workers")
    expect(workers).to_contain_text("RX 580, with tinygrad (CL:1, slot 1)")
    tests = page.get_by_role("region", name="Self-tests")
    expect(tests).to_contain_text("failed: 1 of 2 tests")
    expect(tests.get_by_role("cell", name="not finite")).to_be_visible()
    rates = page.get_by_role("region", name="Benchmark")
    roofline = rates.get_by_role("img", name="Roofline of RX 7900 XTX: 1 measured rates")
    expect(roofline.locator("circle title")).to_have_text(
        "matrix product 4096, fp16: 81.2 TFLOP/s at 1,365 FLOP/byte"
    )
    expect(rates.get_by_text("fp16, at most 122.8 TFLOP/s")).to_be_visible()
    rates.get_by_text("All 2 measurements").click()
    share = rates.get_by_role("progressbar", name="Share of the peak of matrix product")
    expect(share).to_have_attribute("aria-valuenow", "66")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the fix").first.click()
    assert page.evaluate("navigator.clipboard.readText()") == FIX

    page.goto("/")
    trouble = page.get_by_role("region", name="Doctor")
    expect(trouble).to_contain_text(FIX)
    trouble.get_by_role("link", name="All checks").click()
    expect(page).to_have_url(re.compile("/machines$"))

    page.goto("/settings")
    versions = page.get_by_role("group", name="Versions")
    expect(versions.get_by_role("row", name="Worker bench")).to_contain_text(__version__)
    page.get_by_text("Packages in this page and their licences").click()
    runtime = (
        page.get_by_role("list", name="Licences")
        .get_by_role("group")
        .filter(has_text="onnxruntime-web")
    )
    runtime.locator("summary").click()
    expect(runtime).to_contain_text("granted, free of charge")
    page.goto("/machines")

    plain = page.context.new_page()  # as over plain HTTP, where browsers have no clipboard
    plain.add_init_script("delete Navigator.prototype.clipboard")
    plain.goto(page.url)
    plain.evaluate("addEventListener('copy', () => (window.copied = getSelection().toString()))")
    plain.get_by_role("button", name="Copy the fix").first.click()
    assert plain.evaluate("window.copied") == FIX
