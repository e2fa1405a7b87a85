import io
import time
import zipfile

import pytest
from PIL import Image


def png(colour=0, size=(8, 8)):
    buffer = io.BytesIO()
    Image.new("L", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def image_files():
    """Files of a small valid set, by name."""
    return {
        f"{split}/{name}/{number}.png": png(number)
        for split, count in (("train", 4), ("test", 2))
        for name in ("cat", "dog")
        for number in range(count)
    }


@pytest.fixture
def archive(image_files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in image_files.items():
            file.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path, image_files):
    """The same set as a folder below a data root."""
    root = tmp_path / "root" / "pets"
    for name, content in image_files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


@pytest.fixture
def settled():
    """Waits until a data set is validated and returns its view."""

    def settled(client, dataset_id):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            view = client.get(f"/v1/datasets/{dataset_id}").json()
            if view["status"] != "validating":
                return view
            time.sleep(0.02)
        raise AssertionError("still validating")

    return settled
