"""Registered models: versions, where they come from, and aliases that move."""

from playwright.sync_api import expect


def test_an_alias_moves_to_another_version(site, made_job, open_page):
    for aliases in (("production",), ()):
        site.client.register_model("moving", made_job, aliases=aliases)
    page = open_page("/models")
    page.get_by_role("link", name="moving", exact=True).click()
    rows = page.locator("tbody tr")
    expect(rows.nth(1)).to_contain_text("production")
    expect(rows.nth(0).get_by_role("link", name="made")).to_have_attribute(
        "href", f"/jobs/{made_job}"
    )
    rows.nth(0).get_by_role("button", name="Make it production").click()
    expect(rows.nth(0)).to_contain_text("production")
    expect(rows.nth(1).get_by_role("button", name="Make it production")).to_be_visible()
    assert site.client.model_version("moving", "production").version == 2
