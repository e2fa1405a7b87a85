"""Sets with masks on their way through the service: registered, inspected, and shown."""

import io
import zipfile

import pytest
from PIL import Image

from redkiln.annotations import class_colour
from redkiln.cli.datasets import mask_words
from redkiln.views.dataset import DatasetView
from tests.service.datasets.inspect.boxes.made import pictures
from tests.service.datasets.inspect.masks.conftest import png

MASK = png([[1] * 40] * 10 + [[0] * 40] * 10)


@pytest.fixture
def dataset(client, settled):
    names = [f"images/{number}.png" for number in range(4)]
    files = {"classes.txt": b"road\ncar\n", **pictures(*names)}
    files |= {name.replace("images", "masks"): MASK for name in names}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    headers = {"Content-Type": "application/zip"}
    made = client.post("/v1/datasets?name=street", content=buffer.getvalue(), headers=headers)
    view = settled(client, made.json()["id"])
    assert view["status"] == "ready", view
    return view


def test_a_set_is_for_segmentation_and_shows_its_statistics(dataset):
    view = DatasetView.model_validate(dataset)
    assert (view.task, view.classes) == ("semantic-segmentation", ["road", "car"])
    assert view.counts == {"train": {"images": 3}, "test": {"images": 1}}
    assert view.masks.pixels["test"] == {"road": 400, "car": 400}
    assert (
        mask_words(view)
        == "road 50.0 % of the pixels, 4 images, car 50.0 % of the pixels, 4 images"
    )


def test_its_samples_are_shown_with_their_masks(client, dataset):
    page = client.get(f"/v1/datasets/{dataset['id']}/samples?class=car").json()
    assert [one["class_name"] for one in page["data"]] == ["road, car"] * 3
    picture = Image.open(io.BytesIO(client.get(page["tiles"]["url"]).content)).convert("RGB")
    side = page["tiles"]["side"]
    # The tile is wide: its upper half has the class's colour, the lower half the noise alone.
    distances = []
    for middle in (side // 2 - 20, side // 2 + 20):
        band = picture.crop((8, middle - 10, side - 8, middle + 10))
        mean = band.resize((1, 1), Image.Resampling.BOX).getpixel((0, 0))
        distances.append(sum(abs(a - b) for a, b in zip(mean, class_colour(1), strict=True)))
    assert distances[0] < 0.7 * distances[1]


def test_its_test_split_is_given_as_images_with_png_masks(client, dataset):
    response = client.get(f"/v1/datasets/{dataset['id']}/test-samples")
    assert response.status_code == 200, response.text
    with zipfile.ZipFile(io.BytesIO(response.content)) as file:
        assert set(file.namelist()) == {"0.png", "masks/0.png", "classes.txt"}
        assert file.read("classes.txt") == b"road\ncar\n"
        found, wanted = (Image.open(io.BytesIO(one)) for one in (file.read("masks/0.png"), MASK))
    assert (found.mode, found.tobytes()) == ("P", wanted.tobytes())


def test_a_task_with_images_is_refused_for_a_table(client, settled):
    headers = {"Content-Type": "text/csv"}
    made = client.post(
        "/v1/datasets?name=rows&task=semantic-segmentation",
        content=b"a,b\n1,2\n3,4\n",
        headers=headers,
    )
    view = settled(client, made.json()["id"])
    assert [error["code"] for error in view["errors"]] == ["no_images"]
