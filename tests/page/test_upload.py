"""A large file is sent in parts: a broken upload continues, and stored content is not sent."""

import re

from playwright.sync_api import expect

ROWS = 100
TABLE = "text,label\n" + "\n".join(f"{'ab'[i % 2] * 1000},{'xy'[i % 2]}" for i in range(ROWS))


def drop(page):
    file = {"name": "long.csv", "mimeType": "text/csv", "buffer": TABLE.encode()}
    page.get_by_label("Archive or table").set_input_files(file)
    page.get_by_label("Column to predict").select_option("label")
    page.get_by_role("button", name="Upload", exact=True).click()


def test_a_broken_upload_continues_and_stored_content_is_not_sent(open_page):
    page = open_page("/new")
    sent = []
    page.on("request", lambda one: sent.append((one.method, one.url.rpartition("/v1")[2])))
    page.route("**/parts/1", lambda route: route.abort(), times=1)
    slow = []
    page.route("**/parts/0", lambda route: slow.append(route))
    page.clock.install()
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/parts/1")):
        drop(page)
    page.clock.run_for(3000)  # the next try waits for the slow part
    page.wait_for_timeout(200)
    for route in slow:
        route.continue_()
    expect(page.get_by_text("It continues when the service is back")).to_be_visible()
    expect(page.get_by_label("Or use a data set")).to_have_value("long")
    puts = [path for method, path in sent if method == "PUT"]
    assert [path[-1] for path in puts] in (["0", "1", "1"], ["1", "0", "1"])

    page.goto("/new")
    sent.clear()
    with page.expect_response("**/v1/uploads"):
        drop(page)
    expect(page.get_by_text("long.csv")).not_to_be_visible()
    begun = [(method, path) for method, path in sent if re.match("/(uploads|datasets$)", path)]
    assert ("POST", "/uploads") in begun
    assert not [one for one in begun if one[0] == "PUT" or one[1].endswith("finish")]


def test_options_that_a_message_names_can_be_given(open_page):
    page = open_page("/new")
    rows = [f"{'-' if i % 9 == 0 else i * 0.7},{i % 11},{'xy'[i % 2]}" for i in range(ROWS)]
    content = "\n".join(["width,size,label", *rows]).encode()

    def send(options):
        file = {"name": "widths.csv", "mimeType": "text/csv", "buffer": content}
        page.get_by_label("Archive or table").set_input_files(file)
        page.get_by_label("Options").fill(options)
        page.get_by_role("button", name="Upload", exact=True).click()

    send("")
    expect(page.get_by_text("missing=-").first).to_be_visible()
    send("missing")
    expect(page.get_by_text("Write the option missing as NAME=VALUE.")).to_be_visible()
    page.get_by_role("button", name="Cancel", exact=True).click()
    send("missing=- column='size'=categorical")
    expect(page.get_by_label("Or use a data set")).to_have_value("widths")
    (view,) = [one for one in page.request.get("/v1/datasets").json()["data"]
               if one["name"] == "widths" and one["status"] == "ready"]  # fmt: skip
    assert view["options"] == {"missing": ["-"], "columns": {"size": "categorical"}}


def test_an_upload_that_waits_for_the_service_can_be_cancelled(open_page):
    page = open_page("/new")
    for pattern in ("**/v1/uploads", "**/healthz"):
        page.route(pattern, lambda route: route.abort())
    drop(page)
    waits = page.get_by_text("It continues when the service is back")
    expect(waits).to_be_visible()
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(waits).not_to_be_visible()
    expect(page.get_by_label("Archive or table")).to_be_attached()


def test_a_refused_upload_clears_the_data_set_chosen_before(open_page):
    page = open_page("/new")
    drop(page)
    choice = page.get_by_label("Or use a data set")
    expect(choice).to_have_value("long")
    start = page.get_by_role("button", name="Start the job")
    expect(start).to_be_enabled()
    page.get_by_label("epochs", exact=True).fill("7")
    page.keyboard.press("Tab")
    file = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"buy milk"}
    page.get_by_label("Archive or table").set_input_files(file)
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_role("heading", name="notes cannot be used")).to_be_visible()
    expect(choice).to_have_value("")
    expect(page.get_by_role("region", name="Samples")).not_to_be_attached()
    expect(start).to_be_disabled()
    choice.select_option("long")
    expect(start).to_be_enabled()
    expect(page.get_by_role("heading", name="notes cannot be used")).not_to_be_attached()
