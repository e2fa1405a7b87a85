import io
import os
import threading
import zipfile

import httpx
import numpy as np
import pytest
from PIL import Image

from redkiln.tls import tls_for
from service.app import create_app
from service.datasets import held_out, tiles
from service.datasets.inspect import held_out as child
from service.errors import Unprocessable
from tests.waiting import wait_for


@pytest.fixture
def dataset_id(client, archive, settled):
    headers = {"Content-Type": "application/zip"}
    response = client.post("/v1/datasets?name=pets", content=archive, headers=headers)
    view = settled(client, response.json()["id"])
    assert view["status"] == "ready", view
    return view["id"]


@pytest.fixture
def samples(client, dataset_id):
    def samples(query=""):
        response = client.get(f"/v1/datasets/{dataset_id}/samples?{query}")
        assert response.status_code == 200, response.text
        return response.json()

    return samples


def test_samples_are_listed_by_split_and_class(samples):
    assert {item["class_name"] for item in samples()["data"]} == {"cat", "dog"}
    cats = samples("split=test&class=cat")
    assert [item["path"] for item in cats["data"]] == ["test/cat/0.png", "test/cat/1.png"]
    assert [item["tile"] for item in cats["data"]] == [0, 1]
    assert cats["data"][0]["id"].startswith("test-")


def test_pages_continue_after_a_sample(samples):
    first = samples("class=dog&limit=3")
    rest = samples(f"class=dog&limit=3&after={first['last_id']}")
    paths = [item["path"] for item in first["data"] + rest["data"]]
    assert paths == [f"train/dog/{number}.png" for number in range(4)]
    assert (first["has_more"], rest["has_more"]) == (True, False)


def test_a_mixed_page_begins_with_every_class(client, dataset_id, samples):
    page = samples("mixed=true&limit=3")
    paths = [item["path"] for item in page["data"]]
    assert paths == ["train/cat/0.png", "train/dog/0.png", "train/cat/1.png"]
    assert page["has_more"] is True
    rest = samples(f"mixed=true&limit=9&after={page['last_id']}")
    paths = [item["path"] for item in rest["data"]]
    assert paths[:3] == ["train/dog/1.png", "train/cat/2.png", "train/dog/2.png"]
    assert len(set(paths)) == len(paths) == len(samples()["data"]) - 3
    assert rest["has_more"] is False
    assert "mixed=true" in page["tiles"]["url"]
    mixed = client.get(page["tiles"]["url"]).content
    assert mixed != client.get(samples("limit=3")["tiles"]["url"]).content
    response = client.get(f"/v1/datasets/{dataset_id}/samples?mixed=true&class=cat")
    assert response.status_code == 422
    assert "leave out `class`" in response.json()["detail"]


def test_a_page_has_a_picture_that_is_drawn_once(client, samples, monkeypatch):
    page = samples("split=test")
    response = client.get(page["tiles"]["url"])
    assert response.headers["Content-Type"] == "image/png"
    with Image.open(io.BytesIO(response.content)) as sheet:
        side, columns = page["tiles"]["side"], page["tiles"]["columns"]
        assert sheet.size == (columns * side, side)
        middle = [sheet.getpixel((tile * side + side // 2, side // 2))[0] for tile in range(4)]
    assert middle == [int(item["path"][-5]) for item in page["data"]]
    monkeypatch.setattr(tiles, "_draw", lambda *_: pytest.fail("it is kept"))
    assert client.get(page["tiles"]["url"]).content == response.content
    again = client.get(page["tiles"]["url"], headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_folder_in_place_has_pictures(client, folder, settings, settled):
    settings.data_roots.append(folder.parent)
    dataset = client.post("/v1/datasets", json={"path": str(folder)}).json()
    assert settled(client, dataset["id"])["status"] == "ready"
    page = client.get(f"/v1/datasets/{dataset['id']}/samples?class=cat").json()
    assert client.get(page["tiles"]["url"]).status_code == 200


def test_the_oldest_pictures_are_forgotten(monkeypatch, settings):
    monkeypatch.setattr(tiles, "MOST_KEPT_BYTES", 0)
    for number in range(2):
        path = settings.tiles_dir / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    tiles._forget_oldest(settings.tiles_dir)
    assert list(settings.tiles_dir.glob("*.png")) == []


def test_an_unknown_class_names_the_nearest(client, dataset_id):
    response = client.get(f"/v1/datasets/{dataset_id}/samples?class=cats")
    assert (response.status_code, response.json()["errors"][0]["code"]) == (422, "unknown_class")
    assert "did you mean 'cat'" in response.json()["detail"]


@pytest.mark.parametrize("what", ["samples", "tiles"])
def test_a_built_in_set_has_no_samples_here(client, what):
    response = client.get(f"/v1/datasets/builtin:digits/{what}")
    assert (response.status_code, response.json()["code"]) == (404, "no_samples")


def test_an_array_of_images_has_a_picture_too(client, settled):
    pixels = np.arange(8, dtype=np.uint8).repeat(16).reshape(8, 4, 4)
    content = io.BytesIO()
    np.savez(content, x_train=pixels, y_train=np.arange(8) % 2, x_test=pixels[:4],
             y_test=np.arange(4) % 2)  # fmt: skip
    headers = {"Content-Type": "application/octet-stream"}
    made = client.post("/v1/datasets?name=arrays", content=content.getvalue(), headers=headers)
    dataset = settled(client, made.json()["id"])
    page = client.get(f"/v1/datasets/{dataset['id']}/samples?split=test").json()
    response = client.get(page["tiles"]["url"])
    assert response.status_code == 200, response.text
    with Image.open(io.BytesIO(response.content)) as sheet:
        side = page["tiles"]["side"]
        seen = [sheet.getpixel((tile * side + side // 2, side // 2))[0] for tile in range(4)]
    assert seen == [item["row"] for item in page["data"]]


def read_zip(response):
    assert response.status_code == 200, response.text
    with zipfile.ZipFile(io.BytesIO(response.content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_the_test_split_of_images_is_given_as_files_with_their_labels(
    client, dataset_id, image_files
):
    found = read_zip(client.get(f"/v1/datasets/{dataset_id}/test-samples"))
    lines = [line.split(",") for line in found.pop("labels.csv").decode().split()]
    assert lines[0] == ["file", "labels"]
    given = sorted((label, found[name]) for name, label in lines[1:])
    wanted = [(n.split("/")[1], c) for n, c in image_files.items() if n.startswith("test/")]
    assert given == sorted(wanted)
    assert set(found) == {name for name, _ in lines[1:]}


def test_a_folder_that_has_changed_gives_no_test_samples(
    settings, serve, folder, settled, monkeypatch
):
    app = create_app(settings.model_copy(update={"data_roots": [folder.parent]}))
    url, _ = serve(app)
    with httpx.Client(base_url=url, timeout=60, verify=tls_for(url)) as client:
        made = client.post("/v1/datasets", json={"path": str(folder)}).json()
        assert settled(client, made["id"])["status"] == "ready"
        path = f"/v1/datasets/{made['id']}/test-samples"
        monkeypatch.setattr(held_out, "_sending", threading.BoundedSemaphore(1))
        with client.stream("GET", path) as slow:
            assert slow.status_code == 200
            # The file is small, so it has been sent as a whole; hold the place like a slow reader.
            assert wait_for(lambda: held_out._sending.acquire(blocking=False))
            busy = client.get(path)
            assert (busy.status_code, busy.headers["Retry-After"]) == (503, "60")
            held_out._sending.release()
        (folder / "test/cat/0.png").write_bytes(b"another picture")
        changed = client.get(path)
        assert (changed.status_code, changed.json()["code"]) == (410, "dataset_changed")
        (folder / "test/cat/0.png").unlink()
        assert "test/cat/0.png has changed" in client.get(path).json()["detail"]
        assert held_out._sending.acquire(blocking=False)


def test_a_file_that_is_sent_is_counted_until_it_is_closed(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    closed = []
    file = held_out.SentFile(
        os.open(tmp_path / "file", os.O_RDONLY), on_close=lambda: closed.append(1)
    )
    assert (file.read(), closed) == (b"content", [])
    file.close()
    file.close()
    assert closed == [1]


def test_a_test_split_that_is_too_large_is_refused(monkeypatch, tmp_path):
    child.require_size(child.MOST_BYTES)
    with pytest.raises(child.RefusedError) as refused:
        child.require_size(child.MOST_BYTES + 1)
    (tmp_path / child.REFUSAL).write_text(refused.value.refusal.model_dump_json())
    with pytest.raises(Unprocessable, match="larger than 4 GiB"):
        held_out._raise_if_refused(tmp_path / child.REFUSAL)


TABLE = "colour,size,taste\n" + "".join(
    f"{'red' if i % 2 else ''},{i}.5,{'sweet' if i % 3 else 'sour'}\n" for i in range(60)
)


@pytest.fixture
def rows(client, settled):
    headers = {"Content-Type": "text/csv"}
    made = client.post("/v1/datasets?name=fruit&target=taste", content=TABLE, headers=headers)
    dataset = settled(client, made.json()["id"])
    assert dataset["status"] == "ready", dataset
    return lambda query="": client.get(f"/v1/datasets/{dataset['id']}/rows?{query}")


def test_rows_of_a_table_are_listed_by_split_and_class(rows):
    page = rows("class=sour&limit=5").json()
    assert page["columns"] == ["colour", "size"]
    assert {row["target"] for row in page["data"]} == {"sour"}
    written = {float(line.split(",")[1]): line.split(",")[0] or None for line in TABLE.split()[1:]}
    for row in page["data"]:
        colour, size = row["cells"]
        assert written[float(size)] == colour
    rest = rows(f"class=sour&after={page['last_id']}&limit=100").json()
    sizes = {row["cells"][1] for row in page["data"] + rest["data"]}
    test = rows("split=test&class=sour").json()["data"]
    assert len(sizes) == len(page["data"]) + len(rest["data"]) == 20 - len(test)
    assert rows("class=salty").status_code == 422


def test_columns_of_the_file_come_before_those_that_are_derived(client, settled):
    days = [f"2024-{1 + i % 12:02}-{1 + i % 28:02},{i % 7}.5,{'xy'[i % 2]}" for i in range(80)]
    content = "\n".join(["day,size,label", *days])
    headers = {"Content-Type": "text/csv"}
    made = client.post("/v1/datasets?name=days&target=label", content=content, headers=headers)
    dataset = settled(client, made.json()["id"])
    columns = client.get(f"/v1/datasets/{dataset['id']}/rows").json()["columns"]
    assert columns[0] == "size"
    assert len(columns) > 2
    assert all(name.startswith("day.") for name in columns[1:])


def test_a_mixed_page_of_rows_begins_with_every_class_and_continues(rows):
    page = rows("mixed=true&limit=5").json()
    targets = [row["target"] for row in page["data"]]
    assert targets == ["sour", "sweet", "sour", "sweet", "sour"]
    rest = rows(f"mixed=true&after={page['last_id']}&limit=100").json()["data"]
    assert [row["target"] for row in rest[:2]] == ["sweet", "sour"]
    listed = rows("limit=100").json()["data"]
    assert {row["id"] for row in page["data"] + rest} == {row["id"] for row in listed}
    assert len(page["data"]) + len(rest) == len(listed)
    assert rows("mixed=true&class=sour").status_code == 422


def test_the_test_split_of_a_table_is_given_as_the_rows_that_were_pushed(client, rows):
    (dataset,) = client.get("/v1/datasets?name=fruit").json()["data"]
    found = read_zip(client.get(f"/v1/datasets/{dataset['id']}/test-samples"))
    first, *lines = found["rows.csv"].decode().splitlines()
    assert first == "colour,size,taste"
    assert set(lines) <= set(TABLE.splitlines())
    assert len(lines) == len(rows("split=test&limit=100").json()["data"])
    assert client.get("/v1/datasets/builtin:digits/test-samples").status_code == 404


def test_images_have_no_rows(client, dataset_id):
    response = client.get(f"/v1/datasets/{dataset_id}/rows")
    assert (response.status_code, response.json()["code"]) == (404, "no_rows")
