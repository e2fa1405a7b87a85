"""Public data sets from small fake files on a local server."""

import hashlib
import http.server
import threading
from contextlib import ExitStack

import pytest

from redkiln.datasets import BUILTIN_IMAGES
from redkiln.protocol import DatasetRef
from redkiln.public_sets import PUBLIC_SETS, PublicFile, PublicSet, find_public_set
from worker.agent.data.datasets import _FETCHING, DatasetMissing, DatasetSource
from worker.agent.data.public_sets import NotFetched, fetch_public_set
from worker.agent.stopping import Stopped, StopReason, StopSignal

FILES = {"images.gz": bytes(range(256)) * 5000, "labels.gz": b"labels" * 10}


NOBODY = "http://127.0.0.1:9"


def digest(content):
    return hashlib.sha256(content).hexdigest()


def public_set(*sources, files=FILES):
    listed = tuple(PublicFile(name, digest(data), len(data)) for name, data in files.items())
    return PublicSet(listed, sources)


def source_of(address, *, folder, stop=None):
    """Where an attempt gets its data set; the toy one is at an address."""
    return DatasetSource(
        None,
        None,
        stop or StopSignal(),
        lambda _text: None,
        public_dir=folder,
        public_sets={"toy": public_set(address)},
    )


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Range")))
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = 0
        if self.server.has_ranges and (wanted := self.headers.get("Range")):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start and start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:])

    def log_message(self, *_):
        pass


@pytest.fixture
def serve():
    """Starts a server of some files by path; gives its address and what it was asked."""
    servers = []

    def start(files, *, has_ranges=True):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.files, server.has_ranges, server.asked = files, has_ranges, []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}", server.asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def fetch(tmp_path):
    said = []

    def run(public, *, mirrors=(), stop=None):
        fetch_public_set(
            "toy",
            public,
            tmp_path / "toy",
            mirrors=mirrors,
            stop=stop or StopSignal(),
            say=said.append,
        )
        return said

    return run


def found(tmp_path):
    return {path.name: path.read_bytes() for path in (tmp_path / "toy").iterdir()}


def test_every_file_is_fetched_once(serve, fetch, tmp_path):
    address, asked = serve({f"/data/{name}": data for name, data in FILES.items()})
    said = fetch(public_set(f"{address}/data"))
    assert found(tmp_path) == FILES
    assert [text.split(" (")[0] for text in said] == [
        "fetching images.gz of toy",
        "fetching labels.gz of toy",
    ]
    fetch(public_set(f"{address}/data"))
    assert len(asked) == 2


@pytest.mark.parametrize("has_ranges", [True, False])
def test_an_interrupted_public_download_resumes(serve, fetch, tmp_path, has_ranges):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/images.gz.part").write_bytes(FILES["images.gz"][:1000])
    address, asked = serve(
        {f"/{name}": data for name, data in FILES.items()}, has_ranges=has_ranges
    )
    fetch(public_set(address))
    assert found(tmp_path) == FILES
    assert asked[0] == ("/images.gz", "bytes=1000-")


def test_a_complete_partial_file_is_used(serve, fetch, tmp_path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/images.gz.part").write_bytes(FILES["images.gz"])
    address, _ = serve({f"/{name}": data for name, data in FILES.items()})
    fetch(public_set(address))
    assert found(tmp_path) == FILES


def test_mirrors_are_tried_first_and_one_without_the_file_is_skipped(serve, fetch, tmp_path):
    mirror, asked_mirror = serve({"/toy/images.gz": FILES["images.gz"]})
    source, asked_source = serve({f"/{name}": data for name, data in FILES.items()})
    fetch(public_set(source), mirrors=[mirror])
    assert found(tmp_path) == FILES
    assert [path for path, _ in asked_mirror] == ["/toy/images.gz", "/toy/labels.gz"]
    assert [path for path, _ in asked_source] == ["/labels.gz"]


def test_wrong_bytes_are_never_kept(serve, fetch, tmp_path):
    bad, _ = serve({"/toy/images.gz": b"nonsense", "/toy/labels.gz": b""})
    good, _ = serve({f"/{name}": data for name, data in FILES.items()})
    fetch(public_set(good), mirrors=[bad])
    assert found(tmp_path) == FILES


def test_a_mirror_that_sends_too_much_is_left_before_its_end(serve, fetch, tmp_path):
    endless, _ = serve({"/toy/images.gz": bytes(50 << 20), "/toy/labels.gz": b""})
    with pytest.raises(NotFetched, match=r"images\.gz: sends more than 1280000 bytes"):
        fetch(public_set(NOBODY), mirrors=[endless])
    assert found(tmp_path) == {}
    good, _ = serve({f"/{name}": data for name, data in FILES.items()})
    fetch(public_set(good), mirrors=[endless])
    assert found(tmp_path) == FILES


def test_files_that_were_put_there_by_hand_need_no_network(fetch, tmp_path):
    (tmp_path / "toy").mkdir()
    for name, data in FILES.items():
        (tmp_path / "toy" / name).write_bytes(data)
    assert fetch(public_set("http://127.0.0.1:9")) == []


def test_without_a_network_the_error_says_where_to_put_the_file(fetch, tmp_path):
    with pytest.raises(NotFetched) as caught:
        fetch(public_set("http://127.0.0.1:9/data"), mirrors=["http://127.0.0.1:9/mirror"])
    text = str(caught.value)
    assert "http://127.0.0.1:9/mirror/toy/images.gz: ConnectError" in text
    assert f"into {tmp_path / 'toy'} on the worker" in text
    assert digest(FILES["images.gz"]) in text
    assert "REDKILN_DATASET_MIRRORS" in text


def test_a_stop_ends_a_download_and_keeps_the_received_bytes(serve, fetch, tmp_path):
    address, _ = serve({f"/{name}": data for name, data in FILES.items()})
    stop = StopSignal()
    stop.request(StopReason.STALLED)
    with pytest.raises(Stopped):
        fetch(public_set(address), stop=stop)


def test_an_attempt_gets_the_folder_of_the_files(serve, tmp_path):
    address, _ = serve({f"/{name}": data for name, data in FILES.items()})
    source = source_of(address, folder=tmp_path)
    ref = DatasetRef(id="ds_1", name="builtin:toy", kind="builtin")
    with ExitStack() as held:
        local = source.open(ref, until=held)
        assert local.path == str(tmp_path / "toy")
        other = DatasetRef(id="ds_2", name="builtin:digits", kind="builtin")
        assert source.open(other, until=held).path is None
    assert found(tmp_path) == FILES


def test_a_cancel_ends_a_wait_for_another_slots_download(tmp_path):
    stop = StopSignal()
    source = source_of(NOBODY, folder=tmp_path, stop=stop)
    ref = DatasetRef(id="ds_1", name="builtin:toy", kind="builtin")
    threading.Timer(0.1, stop.request, [StopReason.PAUSED]).start()
    with _FETCHING["toy"], ExitStack() as held, pytest.raises(Stopped):
        source.open(ref, until=held)
    assert not _FETCHING["toy"].locked()


def test_an_attempt_without_a_network_fails_and_says_what_to_do(tmp_path):
    source = source_of(NOBODY, folder=tmp_path)
    ref = DatasetRef(id="ds_1", name="builtin:toy", kind="builtin")
    with ExitStack() as held, pytest.raises(DatasetMissing, match="Put the file") as caught:
        source.open(ref, until=held)
    assert caught.value.failure.code == "dataset_unavailable"


@pytest.mark.parametrize("name", PUBLIC_SETS)
def test_every_public_set_is_listed_with_digests_and_sources(name):
    assert BUILTIN_IMAGES[name].test_counts
    public = find_public_set(f"builtin:{name}")
    assert all(len(bytes.fromhex(file.sha256)) == 32 for file in public.files)
    assert all(source.startswith("https://") for source in public.sources)
    assert find_public_set("builtin:digits") is None
