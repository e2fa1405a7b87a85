"""`redkiln open` prints the address of the page, and opens it where there is a screen."""

import webbrowser

import pytest

from redkiln.cli.browser.open_page import has_screen


@pytest.fixture
def opened(monkeypatch):
    urls = []
    monkeypatch.setattr(webbrowser, "open", lambda url: urls.append(url) or True)
    return urls


def test_the_page_is_opened_and_its_address_printed(redkiln, fake, opened, monkeypatch):
    monkeypatch.setenv("BROWSER", "firefox")
    done = redkiln("open")
    assert done.code == 0
    assert opened == [done.out.strip()]
    assert done.out.endswith("/\n")


def test_without_a_screen_only_the_address_is_printed(redkiln, fake, opened, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    done = redkiln("open", "--json")
    assert done.json["is_opened"] is False
    assert not opened


def test_a_job_has_an_address_of_its_own(redkiln, fake, opened, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    done = redkiln("open", "flowers")
    assert done.code == 0, done.err
    assert "/jobs/job_" in done.out


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("darwin", {}, True),
        ("linux", {}, False),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("linux", {"DISPLAY": ""}, False),
    ],
)
def test_a_screen_is_recognised(platform, environment, expected):
    assert has_screen(platform, environment) is expected
