"""The pages for browsers need nothing but this service."""

import re
from urllib.parse import urljoin

import pytest

from service.app import create_app
from service.settings import Settings

LOADED = re.compile(r"""(?:src|href|spec-url)="([^"]+)"|url: '([^']+)'""")


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_a_page_loads_everything_from_this_service(client, path):
    page = client.get(path)
    assert page.headers["content-type"].startswith("text/html")
    assert "//" not in re.sub(r"<!--.*?-->", "", page.text, flags=re.DOTALL)
    loaded = ["".join(match) for match in LOADED.findall(page.text)]
    assert len(loaded) >= 3, page.text
    for url in loaded:
        answer = client.get(urljoin(path, url))
        assert answer.status_code == 200, url
        assert len(answer.content) > 1000, url


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_a_browser_may_not_load_anything_from_elsewhere(client, path):
    policy = client.get(path).headers["content-security-policy"]
    assert policy.startswith("default-src 'self'")
    assert "http" not in policy


def test_the_pages_are_not_part_of_the_api():
    paths = create_app(Settings()).openapi()["paths"]
    assert not [path for path in paths if path.startswith(("/docs", "/redoc"))]
