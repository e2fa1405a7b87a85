"""Where keys are required, a key is exchanged for a session."""

import httpx
import pytest
from playwright.sync_api import expect

from tests.integration.conftest import FAKES, start_site
from tests.page.axe import find_violations


@pytest.fixture(scope="module")
def site(built_page, tmp_path_factory):
    yield from start_site(tmp_path_factory, REDKILN_AUTH="keys", **FAKES)


def test_a_key_opens_a_session_that_may_change_things(site, open_page):
    page = open_page("/settings")
    page.get_by_label("Key", exact=True).fill("rk_wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert not find_violations(page, "login with a wrong key")
    page.get_by_label("Key", exact=True).fill(site.stack.admin_key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("cell", name="first admin key", exact=True)).to_be_visible()
    page.reload()
    page.get_by_label("Name of the new key").fill("laptop")
    page.get_by_role("button", name="Create a key").click()
    shown = page.get_by_text("This key is shown only now:").locator("..").locator("code")
    secret = {"Authorization": f"Bearer {shown.inner_text()}"}
    jobs = f"{site.stack.url}/v1/jobs"
    assert httpx.get(jobs, headers=secret).status_code == 200
    page.get_by_role("button", name="Revoke laptop").click()
    laptop = page.get_by_role("row").filter(has=page.get_by_role("cell", name="laptop"))
    expect(laptop).to_contain_text("revoked")
    assert httpx.get(jobs, headers=secret).status_code == 401
    own = page.get_by_role("row").filter(has_text="this browser")
    expect(own.get_by_role("button", name="Log out")).to_be_visible()
    used = page.get_by_role("row").filter(has_text="first admin key").first
    expect(used.get_by_text("just now")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="database")).to_contain_text("kB")
    kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    assert site.stack.admin_key not in kept
    assert "redkiln_session" not in kept
    page.get_by_role("button", name="Log out everywhere").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
