"""What a user does on the first day."""

import hashlib
import re
import shutil
import subprocess

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from tests.acceptance.stack import ROOT, run

pytestmark = pytest.mark.acceptance

SHORT = {"epochs": 2, "batch_size": 8}


def test_the_stack_is_healthy_within_half_a_minute(stack, tell):
    tell(f"healthy after {stack.seconds_to_healthy:.1f} s")
    assert stack.seconds_to_healthy <= 30


def test_the_container_serves_the_page_and_its_assets(running):
    page = running.call("GET", "/")
    assert page.status_code == 200, page.text
    assert page.headers["content-type"].startswith("text/html")
    assets = re.findall(r'(?:src|href)="(/assets/[^"]+\.(?:js|css))"', page.text)
    assert {asset.rpartition(".")[2] for asset in assets} == {"js", "css"}
    for path in assets:
        asset = running.call("GET", path)
        assert asset.status_code == 200, path
        assert "immutable" in asset.headers["cache-control"]


def test_an_uploaded_folder_becomes_an_onnx_that_runs_here(running, picture_zip, tmp_path):
    running.upload("pictures", picture_zip)
    job_id = running.submit(dataset="pictures", training=SHORT)
    running.wait_for_success(job_id)
    artifacts = running.artifacts(job_id)
    model = next(each for name, each in artifacts.items() if name.endswith(".onnx"))
    assert model["verified"]
    path = tmp_path / "model.onnx"
    address = f"{running.url}/v1/artifacts/{model['id']}/content"
    half = model["size_bytes"] // 2
    run("curl", "-sSf", "--range", f"0-{half}", "-o", str(path), address)
    assert path.stat().st_size == half + 1
    run("curl", "-sSf", "--continue-at", "-", "-o", str(path), address)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == model["sha256"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    shape = [size if isinstance(size, int) else 3 for size in given.shape]
    (scores,) = session.run(None, {given.name: np.zeros(shape, np.float32)})
    assert scores.shape == (shape[0], 2)
    assert np.isfinite(scores).all()


def test_a_folder_of_the_host_is_trained_on_where_it_lies(running, picture_folder):
    shutil.copytree(picture_folder, running.data / "kinds")
    (running.data / "kinds").chmod(0o755)
    answer = running.call("POST", "/v1/datasets", json={"path": "/data/kinds", "name": "kinds"})
    assert answer.status_code == 202, answer.text
    running.wait_for_dataset(answer.json()["id"])
    before = {path: path.stat().st_mtime_ns for path in (running.data / "kinds").rglob("*")}
    job_id = running.submit(dataset="kinds", model="mnist-cnn", training=SHORT)
    running.wait_for_success(job_id)
    after = {path: path.stat().st_mtime_ns for path in (running.data / "kinds").rglob("*")}
    assert after == before
    fetched = running.execute("worker", "find", "/worker/cache/datasets", "-type", "f").stdout
    assert answer.json()["id"] not in fetched


def test_the_client_needs_nothing_on_the_host(running, tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "x.png")
    shutil.copy(ROOT / "rk", tmp_path / "rk")
    for path in (*ROOT.glob("compose*.yaml"), ROOT / "docker"):
        (tmp_path / path.name).symlink_to(path)
    environment = {
        **running.variables,
        "COMPOSE_PROJECT_NAME": running.project,
        "COMPOSE_FILE": "compose.yaml:compose.cpu.yaml",
    }
    lines = [f"{name}={value}\n" for name, value in environment.items()]
    (tmp_path / ".env").write_text("".join(lines))
    done = subprocess.run(
        ["sh", "./rk", "workers", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert '"is_live": true' in done.stdout
