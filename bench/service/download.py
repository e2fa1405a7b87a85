"""Download speed of an artifact, compared with nginx's sendfile of the same file."""

import hashlib
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlmodel import Session

from bench.result import Result, at_least, info, spread
from bench.service.process import run_service, settings_for
from service.artifacts.models import Artifact
from service.database import Database
from service.settings import Settings

SIZE_BYTES = 512 * 1024**2
PAIRS = 9


def run() -> list[Result]:
    """Measure both alternately with curl, on a file of 512 MiB in the page cache."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = settings_for(folder / "state")
        blob, artifact_id = _publish(settings)
        with run_service(settings) as url:
            ours = f"{url}/v1/artifacts/{artifact_id}/content"
            if shutil.which("nginx") is None:
                rates = [_fetch(ours) for _ in range(PAIRS)]
                detail = f"not compared, because nginx is not installed; {spread(rates)}"
                return [info("download/rate", statistics.median(rates) / 1e6, "MB/s", detail)]
            with _run_nginx(folder, blob) as theirs:
                return [_compare(ours, theirs)]


def _compare(ours: str, theirs: str) -> Result:
    our_rates, their_rates = [], []
    for pair in range(PAIRS + 1):
        first_ours = pair % 2 == 0
        one = _fetch(ours if first_ours else theirs)
        two = _fetch(theirs if first_ours else ours)
        if pair:  # the first pair warms up both
            our_rates.append(one if first_ours else two)
            their_rates.append(two if first_ours else one)
    value = statistics.median(our_rates) / statistics.median(their_rates)
    ratios = [one / two for one, two in zip(our_rates, their_rates, strict=True)]
    detail = (
        f"redkiln {statistics.median(our_rates) / 1e6:.0f} MB/s, nginx "
        f"{statistics.median(their_rates) / 1e6:.0f} MB/s; {spread(ratios)}"
    )
    return at_least("download/over_nginx", value, "ratio", 0.7, detail)


def _publish(settings: Settings) -> tuple[Path, str]:
    """Store a file as the service does and record it as an artifact."""
    settings.prepare_state_dir()
    database = Database(settings.resolved_database_url)
    database.upgrade()
    block = os.urandom(1024**2)
    digest = hashlib.sha256()
    for _ in range(SIZE_BYTES // len(block)):
        digest.update(block)
    sha256 = digest.hexdigest()
    blob = settings.state_dir / "blobs" / sha256[:2] / sha256
    blob.parent.mkdir(parents=True)
    with blob.open("wb") as file:
        for _ in range(SIZE_BYTES // len(block)):
            file.write(block)
    artifact = Artifact(
        id="art_bench",
        job_id="job_bench",
        attempt_id="att_bench",
        name="model.onnx",
        kind="model",
        media_type="application/octet-stream",
        size_bytes=SIZE_BYTES,
        sha256=sha256,
        created_at=datetime.now(UTC),
    )

    def write(session: Session) -> None:
        session.add(artifact)

    database.write(write)
    database.close()
    return blob, "art_bench"


def _fetch(url: str) -> float:
    """Download once, discarding the content, and return the bytes per second."""
    command = ["curl", "-sf", "-o", "/dev/null", "-w", "%{size_download} %{time_total}", url]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    size, seconds = output.split()
    assert int(size) == SIZE_BYTES
    return SIZE_BYTES / float(seconds)


@contextmanager
def _run_nginx(folder: Path, blob: Path) -> Iterator[str]:
    port = settings_for(folder).port
    config = folder / "nginx.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""  # only the owner can read the state folder
    config.write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log /dev/null; worker_processes 1;\n"
        f"{user}"
        "events {}\n"
        "http { access_log off; sendfile on; tcp_nopush on;\n"
        f"  server {{ listen 127.0.0.1:{port}; root {blob.parent}; }} }}\n"
    )
    process = subprocess.Popen(["nginx", "-c", str(config), "-p", str(folder)])
    try:
        time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/{blob.name}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=10)
