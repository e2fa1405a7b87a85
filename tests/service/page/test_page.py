"""The page is served with strict rules, and its absence says how to build it."""

import gzip

import pytest

from service.app import create_app
from service.page.endpoints import VIEWS
from service.page.files import accepted_encodings, find_file
from service.settings import Settings


@pytest.fixture
def built(tmp_path, settings):
    """A built page: one HTML file, a script in two forms, and something outside of its folder."""
    settings.page_dir = tmp_path / "page"
    assets = settings.page_dir / "assets"
    assets.mkdir(parents=True)
    (settings.page_dir / "index.html").write_text("<title>Redkiln</title>")
    (assets / "index-1a.js").write_text("script")
    (assets / "index-1a.js.gz").write_bytes(gzip.compress(b"script"))
    (tmp_path / "secret.txt").write_text("secret")
    return settings


@pytest.mark.parametrize("path", VIEWS)
def test_every_view_is_the_same_file(built, client, path):
    page = client.get(path.format(job_id="job_1", dataset_id="ds_1", name="moods"))
    assert (page.status_code, page.text) == (200, "<title>Redkiln</title>")
    assert page.headers["cache-control"] == "no-cache"


def test_the_policy_allows_nothing_from_elsewhere(built, client):
    policy = client.get("/").headers["content-security-policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self' 'wasm-unsafe-eval'"
    assert rules["connect-src"] == rules["style-src"] == "'self'"
    assert "http" not in policy
    assert "unsafe-inline" not in policy


def test_assets_are_kept_for_a_year_and_sent_compressed(built, client):
    answer = client.get("/assets/index-1a.js", headers={"Accept-Encoding": "gzip"})
    assert answer.text == "script"
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["vary"] == "Accept-Encoding"


def test_a_client_without_compression_gets_the_file_itself(built, client):
    answer = client.get("/assets/index-1a.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in answer.headers
    assert answer.content == b"script"


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_file_that_is_kept_compressed_only_reaches_every_client(built, client, encoding):
    packed = gzip.compress(b"program" * 100_000)
    (built.page_dir / "assets" / "runtime-2b.wasm.gz").write_bytes(packed)
    answer = client.get("/assets/runtime-2b.wasm", headers={"Accept-Encoding": encoding})
    assert answer.content == b"program" * 100_000
    assert answer.headers["content-type"] == "application/wasm"
    assert answer.headers.get("content-encoding", "identity") == encoding


@pytest.mark.parametrize("name", ["missing.js", "..%2F..%2Fsecret.txt", ".hidden"])
def test_only_files_of_the_page_are_served(built, client, name):
    answer = client.get(f"/assets/{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.fixture
def not_built(tmp_path, settings):
    settings.page_dir = tmp_path / "nothing"


def test_without_a_built_page_the_root_says_how_to_build_it(not_built, client):
    answer = client.get("/")
    assert answer.status_code == 404
    assert "make page" in answer.text


@pytest.mark.parametrize("path", ["/v1/nothing", "/nothing"])
def test_an_unknown_path_is_a_problem_as_before(built, client, path):
    answer = client.get(path, headers={"Accept": "text/html"})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_page_is_not_part_of_the_api():
    paths = create_app(Settings()).openapi()["paths"]
    assert not set(VIEWS) & set(paths)


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        ("gzip, br", ["gzip", "br"]),
        ("br;q=0, gzip;q=0.5", ["gzip"]),
        ("", [""]),
    ],
)
def test_encodings_are_read_from_the_header(header, allowed):
    assert accepted_encodings(header) == allowed


def test_brotli_is_preferred(tmp_path):
    for suffix in ("", ".gz", ".br"):
        (tmp_path / f"a.css{suffix}").write_text(suffix)
    found = find_file(tmp_path, "a.css", accepted=["gzip", "br"])
    assert found is not None
    assert (found.path.name, found.encoding, found.media_type) == ("a.css.br", "br", "text/css")
