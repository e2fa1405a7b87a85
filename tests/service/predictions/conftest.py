import mimetypes

import pytest


@pytest.fixture
def publish(client, worker, submit):
    """Publishes the files of a folder as a job's; returns the ids of its artifacts by name."""

    def publish(folder, **spec):
        job_id = submit(**spec)["id"]
        attempt = worker.claim()
        commits = [
            {
                "kind": "model" if path.suffix == ".onnx" else "file",
                "name": path.name,
                "media_type": mimetypes.guess_type(path.name)[0] or "application/octet-stream",
                "sha256": attempt.upload(path.read_bytes()),
                "size_bytes": path.stat().st_size,
                "verified": True if path.suffix == ".onnx" else None,
            }
            for path in sorted(folder.iterdir())
        ]
        answer = attempt.finish("succeeded", artifacts=commits)
        assert answer.status_code == 200, answer.text
        page = client.get(f"/v1/jobs/{job_id}/artifacts").json()
        return {item["name"]: item["id"] for item in page["data"]}

    return publish
