"""The browser says that a job has ended, also while the tab is hidden."""

from tests.page.made import hide

RECORD = """
  window.notes = []
  window.Notification = class extends Notification {
    constructor(title, options) { super(title, options); window.notes.push(title) }
  }
"""


def test_a_hidden_tab_notifies_once_when_a_job_ends(site, browser):
    site.wait_for_end(site.submit(name="before", epochs=1))
    context = browser.new_context(base_url=site.stack.url, permissions=["notifications"])
    first, second = context.new_page(), context.new_page()
    for page in (first, second):
        page.add_init_script(RECORD)
    with first.expect_response("**/v1/jobs?status=*"):
        first.goto("/settings")
    second.goto("/settings")
    for page in (first, second):
        hide(page)
    assert first.evaluate("Notification.permission") == "granted"
    site.wait_for_end(site.submit(name="cedar", epochs=1))
    site.wait_for(lambda: first.evaluate("notes"))
    assert (first.evaluate("notes"), second.evaluate("notes")) == (["cedar succeeded"], [])
    context.close()


def ended(name, second):
    moment = f"2026-01-01T00:00:0{second}Z"
    return {"id": name, "name": name, "status": "succeeded", "finished_at": moment}


def test_a_second_end_is_news_and_an_older_job_in_the_list_is_not(site, browser):
    looks = [[ended("oak", 2)], [ended("oak", 3), ended("ash", 1)]]
    context = browser.new_context(base_url=site.stack.url, permissions=["notifications"])
    page = context.new_page()
    page.add_init_script(RECORD)
    page.route(
        "**/v1/jobs?status=*",
        lambda route: route.fulfill(json={"data": looks.pop(0) if looks[1:] else looks[0]}),
    )
    page.clock.install()
    with page.expect_response("**/v1/jobs?status=*"):
        page.goto("/settings")
    page.clock.run_for(6000)
    site.wait_for(lambda: page.evaluate("notes"))
    assert page.evaluate("notes") == ["oak succeeded"]
    context.close()
