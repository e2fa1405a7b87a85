"""Sets with boxes on their way through the service: registered, inspected, shown, and fetched."""

import io
import zipfile

import pytest
from PIL import Image

from redkiln import coco as coco_file
from redkiln.annotations import class_colour
from redkiln.cli.dataset_words import box_words, size_words
from redkiln.coco import CocoFile
from redkiln.views.dataset import DatasetView
from tests.service.datasets.inspect.boxes.made import coco, pictures

NAMES = [f"{number}.png" for number in range(5)]
ANNOTATIONS = [(n, n % 2, [10, 5, 20, 10], {}) for n in range(4)]


@pytest.fixture
def register(client, settled):
    def register(files, query=""):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        headers = {"Content-Type": "application/zip"}
        url = f"/v1/datasets?name=pets{query}"
        made = client.post(url, content=buffer.getvalue(), headers=headers)
        return settled(client, made.json()["id"])

    return register


@pytest.fixture
def dataset(register):
    files = pictures(*NAMES) | {"_annotations.coco.json": coco(NAMES, ANNOTATIONS)}
    view = register(files)
    assert view["status"] == "ready", view
    return view


def test_a_set_is_for_detection_and_shows_its_statistics(dataset):
    view = DatasetView.model_validate(dataset)
    assert (view.task, view.classes) == ("object-detection", ["cat", "dog"])
    assert view.counts == {"train": {"images": 3}, "test": {"images": 2}}
    assert view.label_counts == {}
    words = box_words(view)
    for part in ("train ", "test ", "cat 2", "dog 2", "1 image without objects"):
        assert part in words
    assert size_words(view).startswith("4 below 32 x 32 pixels, 0 up to")


def test_its_samples_have_boxes_and_a_picture_that_shows_them(client, dataset):
    url = f"/v1/datasets/{dataset['id']}/samples"
    found = [client.get(f"{url}?split={split}").json() for split in ("train", "test")]
    samples = {one["path"]: one for page in found for one in page["data"]}
    assert samples["0.png"]["boxes"] == [
        {"label": 0, "class_name": "cat", "xyxy": [10, 5, 30, 15], "crowd": False}
    ]
    assert (samples["0.png"]["width"], samples["0.png"]["height"]) == (40, 20)
    assert (samples["4.png"]["class_name"], samples["4.png"]["boxes"]) == ("no objects", [])
    for page in found:
        content = client.get(page["tiles"]["url"]).content
        side = page["tiles"]["side"]
        for number, one in enumerate(page["data"]):
            with Image.open(io.BytesIO(content)) as sheet:
                tile = sheet.crop((number * side, 0, (number + 1) * side, side))
            colours = {colour for _, colour in tile.getcolors(side * side)}
            for label in (0, 1):
                assert (class_colour(label) in colours) == (label in
                    [box["label"] for box in one["boxes"]])  # fmt: skip


def test_its_samples_are_filtered_by_the_class_of_an_object(client, dataset):
    url = f"/v1/datasets/{dataset['id']}/samples?class=dog"
    pages = [client.get(f"{url}&split={split}").json() for split in ("train", "test")]
    assert sorted(one["path"] for page in pages for one in page["data"]) == ["1.png", "3.png"]


def test_a_folder_in_place_sends_its_images_but_not_its_annotations(
    client, settings, settled, tmp_path
):
    root = tmp_path / "root" / "street"
    files = pictures(*(f"images/{name}" for name in NAMES))
    files |= {f"labels/{n}.txt": b"0 .5 .5 .5 .5" for n in range(4)}
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    settings.data_roots.append(root.parent)
    made = client.post("/v1/datasets", json={"path": str(root)}).json()
    view = settled(client, made["id"])
    assert (view["status"], view["task"]) == ("ready", "object-detection")
    content = client.get(f"/v1/datasets/{view['id']}/samples?split=test")
    assert client.get(content.json()["tiles"]["url"]).status_code == 200


def test_its_test_split_is_given_as_a_coco_file_next_to_the_images(client, dataset):
    response = client.get(f"/v1/datasets/{dataset['id']}/test-samples")
    assert response.status_code == 200, response.text
    with zipfile.ZipFile(io.BytesIO(response.content)) as file:
        found = CocoFile.model_validate_json(file.read(coco_file.NAME))
        images = {one.file_name: file.read(one.file_name) for one in found.images}
        assert set(file.namelist()) == {*images, coco_file.NAME}
    page = client.get(f"/v1/datasets/{dataset['id']}/samples?split=test").json()["data"]
    sent = pictures(*NAMES)
    assert list(images.values()) == [sent[one["path"]] for one in page]
    assert [(one.width, one.height) for one in found.images] == [(40, 20)] * 2
    names = {one.id: one.name for one in found.categories}
    boxes = [(one.image_id, names[one.category_id], one.bbox) for one in found.annotations]
    assert boxes == [
        (number, box["class_name"], (10, 5, 20, 10))
        for number, one in enumerate(page, 1)
        for box in one["boxes"]
    ]
    assert boxes


def test_a_set_with_faults_is_invalid_and_names_them(register):
    bad = [*ANNOTATIONS, (0, 0, [50, 1, 9, 9], {}), (0, 9, [1, 1, 9, 9], {})]
    files = pictures(*NAMES) | {"_annotations.coco.json": coco(NAMES, bad)}
    view = register(files)
    assert view["status"] == "invalid"
    assert {(error["code"], error["path"]) for error in view["errors"]} == {
        ("too_many_bad_boxes", None),
        ("outside", "_annotations.coco.json#/annotations/4"),
        ("unknown_class", "_annotations.coco.json#/annotations/5"),
    }


def test_the_task_of_an_upload_can_be_named(register):
    files = pictures(*NAMES) | {"_annotations.coco.json": coco(NAMES, ANNOTATIONS)}
    view = register(files, "&task=object-detection")
    assert (view["status"], view["task"]) == ("ready", "object-detection")


def test_a_job_without_a_task_becomes_a_detection(client, dataset):
    answer = client.post("/v1/jobs?dry_run=true", json={"dataset": dataset["id"]})
    assert answer.status_code == 200, answer.text
    assert answer.json()["spec"]["task"] == "object-detection"
    wrong = {"dataset": dataset["id"], "task": "image-classification"}
    answer = client.post("/v1/jobs?dry_run=true", json=wrong)
    assert answer.json()["errors"][0]["code"] == "task_mismatch"
