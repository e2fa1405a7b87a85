"""Tables over HTTP: registered with options, shown, and sent to a worker."""

import hashlib
import io
import os

import pyarrow.parquet as pq
import pytest

from redkiln.datasets import stamp_folder
from redkiln.tables import METADATA_KEY, MISSING_WORDS, TableIndex
from service.datasets.validator import Validator
from service.jobs.waiting import decide_jobs_of

CSV = {"Content-Type": "text/csv"}


@pytest.fixture
def houses():
    lines = ["rooms,town,price"]
    lines += [f"{i % 6},{['Oslo', 'Rome', 'Kyiv'][i % 3]},{100 + i * 3.7:.1f}" for i in range(60)]
    return "\n".join(lines).encode()


def push(client, content, **params):
    return client.post(
        "/v1/datasets", params={"name": "houses", **params}, content=content, headers=CSV
    )


def test_a_csv_is_ready_with_its_columns_and_inferred_roles(client, houses, settled):
    answer = push(client, houses)
    assert answer.status_code == 202
    view = settled(client, answer.json()["id"])
    assert (view["status"], view["task"], view["target"]) == (
        "ready", "tabular-regression", "price",
    )  # fmt: skip
    assert view["counts"] == {"train": {"rows": 54}, "test": {"rows": 6}}
    assert [(column["name"], column["type"]) for column in view["columns"]] == [
        ("rooms", "numeric"),
        ("town", "categorical"),
        ("price", "target"),
    ]
    town = view["columns"][1]
    assert (town["num_categories"], sorted(town["categories"])) == (3, ["Kyiv", "Oslo", "Rome"])
    assert view["options"] == {}
    assert any("task=NAME" in note for note in view["notes"])


def test_given_options_are_stored_shown_and_part_of_the_sets_identity(client, houses, settled):
    said = {"target": "town", "column": ["price=ignored", "rooms=categorical"]}
    view = settled(client, push(client, houses, **said).json()["id"])
    assert view["task"] == "tabular-classification"
    assert view["options"] == {
        "target": "town", "columns": {"price": "ignored", "rooms": "categorical"},
    }  # fmt: skip
    assert push(client, houses, **said).json()["id"] == view["id"]
    assert push(client, houses, target="rooms").json()["id"] != view["id"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["kyiv", "103.7"], ["kyiv", "103.7"]),
        ([" -999 ", ""], ["-999"]),
        ([""], []),
    ],
)
def test_the_words_for_missing_values_can_be_set_and_are_shown(
    client, houses, settled, said, expected
):
    lines = houses.decode().replace("103.7", "104").encode()
    assert settled(client, push(client, lines).json()["id"])["missing"] == list(MISSING_WORDS)
    view = settled(client, push(client, lines, missing=said).json()["id"])
    assert (view["status"], view["options"]) == ("ready", {"missing": expected})
    assert view["missing"] == expected
    assert view["columns"][1]["num_missing"] == (20 if "kyiv" in expected else 0)
    assert push(client, lines, missing=said).json()["id"] == view["id"]


def test_the_order_of_the_classes_can_be_set(client, houses, settled):
    said = {"target": "town", "class": ["Rome", "Kyiv", "Oslo"]}
    view = settled(client, push(client, houses, **said).json()["id"])
    assert view["classes"] == view["options"]["classes"] == said["class"]


def test_bad_rows_can_be_skipped(client, settled):
    content = "x,y\n" + "".join(f"{i}.5,{'ab'[i % 2]}\n" for i in range(40)) + "1,2,3\n" * 3
    assert settled(client, push(client, content).json()["id"])["status"] == "invalid"
    view = settled(client, push(client, content, skip_bad=3).json()["id"])
    assert (view["status"], view["num_skipped"]) == ("ready", 3)
    assert view["options"] == {"skip_bad": 3}


def test_the_decimal_mark_can_be_set(client, houses, settled):
    lines = houses.decode().splitlines()
    lines[1:] = [line.rpartition(",")[0] + f',"1,{i:03}"' for i, line in enumerate(lines[1:], 100)]
    content = "\n".join(lines).encode()
    refused = settled(client, push(client, content).json()["id"])
    assert [error["code"] for error in refused["errors"]] == ["ambiguous_numbers"]
    view = settled(client, push(client, content, decimal=",").json()["id"])
    assert (view["status"], view["options"]) == ("ready", {"decimal": ","})
    assert 1 < view["columns"][2]["mean"] < 2


def test_only_registered_tables_show_words_for_missing_values(client):
    assert client.get("/v1/datasets/builtin:iris").json()["missing"] is None
    assert client.get("/v1/datasets/builtin:digits").json()["missing"] is None


@pytest.mark.parametrize(
    ("said", "pointer", "words"),
    [
        ({"task": "tabular-regresion"}, "/task", "'tabular-regression'"),
        ({"column": "rooms=number"}, "/columns/rooms", "did you mean 'numeric'"),
        ({"column": "rooms"}, "/column", "NAME=TYPE"),
        ({"missing": ["NA", "x" * 101]}, "/missing/1", "at most 100"),
        ({"missing": ["x"] * 101}, "/missing", "at most 100"),
        ({"class": ["x", ""]}, "/classes/1", "at least 1"),
        ({"class": ["x", "x"]}, "", "the same class twice"),
        ({"class": ["x", "y"], "task": "tabular-regression"}, "", "only apply to a classification"),
        ({"delimiter": "ab"}, "/delimiter", "one character"),
        ({"decimal": "comma"}, "/decimal", "'.' or ','"),
        ({"encoding": "gbkk"}, "/encoding", "use a name such as gb18030 (Chinese)"),
        ({"text": "town", "task": "tabular-regression"}, "", "text only applies to"),
        ({"target": "town", "column": "town=numeric"}, "", "the target cannot also be"),
    ],
)
def test_contradictory_options_are_refused_with_a_pointer(client, houses, said, pointer, words):
    answer = push(client, houses, **said)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert words in error["message"]


def test_a_misspelt_parameter_suggests_the_nearest_one(client, houses):
    answer = push(client, houses, tagret="price")
    assert answer.status_code == 422
    assert "'target'" in answer.json()["errors"][0]["message"]


def test_an_invalid_table_is_explained_line_by_line(client, houses, settled):
    lines = houses.decode().splitlines()
    lines[9] = "4,Oslo,"
    view = settled(client, push(client, "\n".join(lines).encode()).json()["id"])
    assert view["status"] == "invalid"
    (error,) = view["errors"]
    assert error["path"] == "line 10"
    assert "target 'price': 1 row has no value" in error["message"]


def test_a_job_on_a_table_gets_the_tables_task_and_its_worker_one_file(
    client, houses, settled, worker
):
    dataset = settled(client, push(client, houses, target="town").json()["id"])
    worker.hello()
    job = client.post("/v1/jobs", json={"dataset": dataset["id"]}).json()
    assert job["task"] == "tabular-classification"
    attempt = worker.claim()
    ref = attempt.claimed["dataset"]
    assert ref["task"] == "tabular-classification"
    url = f"/v1/attempts/{attempt.id}/dataset/index"
    content = client.get(url, headers=attempt.headers).content
    assert hashlib.sha256(content).hexdigest() == ref["index_sha256"]
    assert len(content) == ref["index_bytes"]
    table = pq.read_table(io.BytesIO(content))
    index = TableIndex.model_validate_json(table.schema.metadata[METADATA_KEY.encode()])
    assert index.classes == ["Kyiv", "Oslo", "Rome"]
    assert table.num_rows == index.num_train + index.num_test == 60


def test_a_worker_gets_the_warnings_of_a_table_for_the_report(client, houses, settled, worker):
    dataset = settled(client, push(client, houses, target="town").json()["id"])
    (leak,) = dataset["warnings"]
    worker.hello()
    client.post("/v1/jobs", json={"dataset": dataset["id"]})
    assert worker.claim().claimed["dataset"]["warnings"] == [leak["message"]]


def test_a_job_that_waited_for_another_kind_of_data_fails_with_the_reason(
    client, services, houses, settled, job
):
    services.validator.close()  # so that it is still waiting when the job comes
    dataset = push(client, houses).json()
    queued = client.post(
        "/v1/jobs", json={"dataset": dataset["id"], "task": "image-classification"}
    ).json()
    assert queued["status"] == "queued"
    validator = Validator(
        services.database,
        services.storage,
        services.settings,
        on_settled=decide_jobs_of,
    )
    validator.start()
    settled(client, dataset["id"])
    validator.close()
    view = job(queued["id"])
    assert (view["status"], view["reason"]["code"]) == ("failed", "bad_input")
    assert "is for tabular-regression" in view["reason"]["message"]


class TestFolders:
    @pytest.fixture
    def settings(self, settings, tmp_path):
        return settings.model_copy(update={"data_roots": [tmp_path]})

    def test_a_folder_with_a_table_needs_no_folder_on_the_worker(
        self, client, houses, settled, tmp_path, worker
    ):
        folder = tmp_path / "houses"
        folder.mkdir()
        (folder / "houses.csv").write_bytes(houses)
        (folder / "README.txt").write_text("about houses")
        body = {"path": str(folder), "target": "price", "columns": {"rooms": "categorical"}}
        view = settled(client, client.post("/v1/datasets", json=body).json()["id"])
        assert (view["status"], view["kind"]) == ("ready", "folder")
        assert view["size_bytes"] == len(houses)
        assert view["options"]["columns"] == {"rooms": "categorical"}
        worker.hello()
        client.post("/v1/jobs", json={"dataset": "houses"})
        attempt = worker.claim()
        place = os.open(folder, os.O_RDONLY)
        assert attempt.claimed["dataset"]["stamp"] == stamp_folder(place)
        os.close(place)
        assert attempt.claimed["dataset"]["root"] == str(tmp_path)
        for path in ("dataset", "dataset/index"):
            url = f"/v1/attempts/{attempt.id}/{path}"
            answer = client.get(url, headers=attempt.headers)
            assert hashlib.sha256(answer.content).hexdigest() == view["sha256"]

    def test_words_for_missing_values_can_be_set_in_the_body(
        self, client, houses, settled, tmp_path
    ):
        (tmp_path / "houses.csv").write_bytes(houses)
        body = {"path": str(tmp_path), "name": "houses", "missing": ["Oslo"]}
        view = settled(client, client.post("/v1/datasets", json=body).json()["id"])
        assert (view["missing"], view["columns"][1]["num_missing"]) == (["Oslo"], 20)
        answer = client.post("/v1/datasets", json={**body, "missing": [-999]})
        assert answer.json()["errors"][0]["pointer"] == "/missing/0"

    def test_an_unknown_type_is_refused_with_its_pointer(self, client, tmp_path):
        body = {"path": str(tmp_path), "columns": {"rooms": "numbers"}}
        answer = client.post("/v1/datasets", json=body)
        assert answer.json()["errors"][0]["pointer"] == "/columns/rooms"
