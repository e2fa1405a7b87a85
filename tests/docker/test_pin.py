"""A small local registry answers as the real ones do: with a challenge, a token, and a digest."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from docker.pin import BASE, KINDS, REPOSITORY, TORCH, VISION, load_releases, main, read_pins

DIGEST = "sha256:" + "ab" * 32
ROOT = Path(__file__).parents[2]


class Registry(BaseHTTPRequestHandler):
    """Knows the default release's tag; asks for a token first, like Docker Hub."""

    seen: ClassVar[list] = []

    def do_HEAD(self):
        tag = self.path.rpartition("/")[2]
        if self.headers.get("Authorization") != "Bearer secret":
            host = f"http://127.0.0.1:{self.server.server_port}"
            challenge = f'Bearer realm="{host}/token",service="here",scope="pull"'
            return self._answer(401, {"WWW-Authenticate": challenge})
        self.seen.append((self.path, self.headers["Accept"]))
        if tag != load_releases()["10.0"].tag:
            return self._answer(404, {})
        return self._answer(200, {"Docker-Content-Digest": DIGEST})

    def do_GET(self):
        self._answer(200, {}, json.dumps({"token": "secret"}).encode())

    def _answer(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def registry():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_release_is_pinned_by_its_digest_for_both_workers(registry, tmp_path, capsys):
    env = tmp_path / ".env"
    env.write_text("REDKILN_TAG=mine\nREDKILN_TORCH_BUILD=old\n")

    assert main(["10.0", "--file", str(env), "--registry", registry]) == 0

    tag = load_releases()["10.0"].tag
    assert read_pins(env) == {
        BASE: f"{REPOSITORY}:{tag}@{DIGEST}",
        TORCH: "2.13.0+rocm10.0.0",
        VISION: "0.28.0+rocm10.0.0",
    }
    assert "REDKILN_TAG=mine" in env.read_text()
    printed = capsys.readouterr().out
    assert f"{TORCH}: old -> 2.13.0+rocm10.0.0" in printed
    assert f"{BASE}: not pinned -> " in printed
    path, accepted = Registry.seen[-1]
    assert path == f"/v2/{REPOSITORY}/manifests/{tag}"
    assert all(kind in accepted for kind in KINDS)


def test_the_same_release_again_changes_nothing(registry, tmp_path, capsys):
    for _ in range(2):
        main(["10.0", "--file", str(tmp_path / ".env"), "--registry", registry])
    assert "nothing changes" in capsys.readouterr().out


@pytest.mark.parametrize("release", ["10.1", "10.0"])
def test_nothing_is_written_if_the_registry_does_not_know_or_answer(
    registry, tmp_path, capsys, release
):
    address = registry if release == "10.1" else "http://127.0.0.1:1"
    assert main([release, "--file", str(tmp_path / ".env"), "--registry", address]) == 1
    assert not (tmp_path / ".env").exists()
    assert "--no-digest" in capsys.readouterr().out


def test_a_tag_alone_needs_no_registry(tmp_path):
    env = tmp_path / ".env"
    assert main(["10.1", "--file", str(env), "--no-digest"]) == 0
    assert read_pins(env)[BASE].endswith("py3.12_pytorch_release_2.14.0")
    assert read_pins(env)[TORCH] == "2.14.0+rocm10.1.0"


def test_the_releases_are_listed_with_the_present_one_marked(tmp_path, capsys):
    assert main(["--file", str(tmp_path / ".env")]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("* 10.0")
    assert second.startswith("  10.1")


def test_the_default_release_is_the_one_in_the_files():
    (release,) = [release for release in load_releases().values() if release.is_default]
    for name in ("compose.yaml", "docker/worker.Dockerfile"):
        assert f"{REPOSITORY}:{release.tag}" in (ROOT / name).read_text()
    compose = (ROOT / "compose.yaml").read_text()
    assert f"${{{TORCH}:-{release.torch}}}" in compose
    assert f"${{{VISION}:-{release.torchvision}}}" in compose
    pinned = (ROOT / "constraints.txt").read_text()
    assert f"torch=={release.torch.partition('+')[0]}\n" in pinned


def test_image_and_wheel_of_a_release_have_the_same_rocm_and_torch():
    for release in load_releases().values():
        torch, _, build = release.torch.partition("+rocm")
        assert build.startswith(release.rocm)
        assert release.tag.startswith(f"rocm{release.rocm}")
        assert release.tag.endswith(f"release_{torch}")
        assert release.torchvision.endswith(f"+rocm{build}")
