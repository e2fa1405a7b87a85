import io
import json

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image
from typer.testing import CliRunner

from redkiln.cli.app import build_app
from redkiln.client import Client
from tests.redkiln.predict.models import (
    COLOURS,
    SIDE,
    save,
    save_colours,
    save_detector,
    save_moods,
    save_prices,
    value_info,
)

RAW = "application/octet-stream"


def picture(colour):
    file = io.BytesIO()
    Image.new("RGB", (9, 7), colour).save(file, "PNG")
    return file.getvalue()


def ask(client, artifact, body, media_type=RAW, **query):
    return client.post(
        f"/v1/artifacts/{artifact}/predict",
        content=body if isinstance(body, bytes) else json.dumps(body).encode(),
        headers={"Content-Type": media_type},
        params=query,
    )


def told(*arguments):
    """What `redkiln predict --json` prints."""
    done = CliRunner().invoke(build_app(), ["predict", *map(str, arguments), "--json"])
    return json.loads(done.stdout)


def test_an_image_gets_the_answer_of_the_command_line(client, publish, tmp_path):
    path = save_colours(tmp_path / "model")
    photo = tmp_path / "photo.png"
    photo.write_bytes(picture((10, 200, 30)))
    artifact = publish(tmp_path / "model")["model.onnx"]
    answer = ask(client, artifact, photo.read_bytes(), top=2)
    assert answer.status_code == 200, answer.text
    expected = told(path, photo, "--top", "2")
    expected["predictions"][0]["input"] = "input"
    assert answer.json() == {**expected, "model": "model.onnx", "notes": []}
    with Client(str(client.base_url)) as own:
        typed = own.predict(artifact, photo.read_bytes(), top=2)
    assert [one.class_name for one in typed.predictions] == ["green"]


def test_boxes_are_in_pixels_of_the_image(client, publish, tmp_path):
    path = save_detector(tmp_path / "model")
    photo = tmp_path / "photo.png"
    photo.write_bytes(picture((200, 200, 200)))
    artifact = publish(tmp_path / "model")["model.onnx"]
    answer = ask(client, artifact, photo.read_bytes(), threshold=0.2)
    assert answer.status_code == 200, answer.text
    expected = told(path, photo, "--threshold", "0.2")
    (box,) = expected["predictions"][0]["boxes"]
    assert box["box"] == pytest.approx([0, 7 / 3, 9, 7])
    expected["predictions"][0]["input"] = "input"
    assert answer.json() == {**expected, "model": "model.onnx", "notes": []}
    with Client(str(client.base_url)) as own:
        typed = own.predict(artifact, photo.read_bytes(), threshold=0.5)
    assert typed.predictions[0].boxes[0].class_name == "moon"


def test_a_threshold_is_refused_for_a_classifier(client, publish, tmp_path):
    save_colours(tmp_path / "model")
    artifact = publish(tmp_path / "model")["model.onnx"]
    answer = ask(client, artifact, picture((9, 9, 9)), threshold=0.2)
    assert answer.status_code == 422
    assert "models that find boxes" in answer.json()["detail"]


def test_a_table_and_rows_as_json_get_the_same_values(client, publish, tmp_path):
    path = save_prices(tmp_path / "model")
    table = tmp_path / "rows.csv"
    table.write_text("rooms;built;colour\n3;2.1.1999;grey\nmany;2.1.1999;grey\n1;;pink\n")
    artifact = publish(tmp_path / "model")["model.onnx"]
    answer = ask(client, artifact, table.read_bytes(), "text/csv").json()
    expected = told(path, table)
    values = [one["value"] for one in expected["predictions"]]
    assert [one["value"] for one in answer["predictions"]] == values
    assert [one["reason"] for one in answer["skipped"]] == [
        one["reason"] for one in expected["skipped"]
    ]
    assert answer["skipped"][0]["input"] == "input.csv:3"
    assert "colour 'pink' (1)" in answer["notes"][0]
    rows = {"inputs": [{"rooms": 3, "built": "2.1.1999", "colour": "grey"}]}
    as_json = ask(client, artifact, rows, "application/json").json()
    assert as_json["predictions"] == [{"input": "input.jsonl:1", "value": values[0]}]
    with Client(str(client.base_url)) as own:
        for given in (rows["inputs"], rows["inputs"][0]):
            typed = own.predict(artifact, given)
            assert [one.value for one in typed.predictions] == values[:1]


def test_unknown_columns_are_noted_as_by_the_command_line(client, publish, tmp_path):
    save_prices(tmp_path / "model", ignored=["price"])
    table = tmp_path / "rows.csv"
    table.write_text("rooms,built,colour,color\n3,2.1.1999,grey,grey\n")
    artifact = publish(tmp_path / "model")["model.onnx"]
    (note,) = ask(client, artifact, table.read_bytes(), "text/csv").json()["notes"]
    assert "not read: color (input.csv:2)" in note
    with Client(str(client.base_url)) as own:
        row = {"rooms": 3, "built": "2.1.1999", "colour": "grey", "color": "grey"}
        assert "not read: color" in own.predict(artifact, row).notes[0]


def test_texts_are_read_with_the_tokenizer_of_the_job(client, publish, tmp_path):
    save_moods(tmp_path / "model")
    artifact = publish(tmp_path / "model")["model.onnx"]
    texts = ["good\ngood", "bad good bad"]
    answer = ask(client, artifact, {"inputs": texts}, "application/json").json()
    assert [one["class"] for one in answer["predictions"]] == ["happy", "sad"]
    with Client(str(client.base_url)) as own:
        assert own.predict(artifact, "bad, very bad").predictions[0].class_name == "sad"
    lines = ask(client, artifact, b"bad\ngood\n").json()
    assert [one["class"] for one in lines["predictions"]] == ["sad", "happy"]


def test_what_cannot_be_predicted_is_refused_with_its_reason(client, publish, tmp_path):
    save_prices(tmp_path / "model")
    ids = publish(tmp_path / "model")
    model = ids["model.onnx"]
    lacking = ask(client, model, b"size\n3\n", "text/csv")
    assert (lacking.status_code, lacking.json()["code"]) == (422, "cannot_predict")
    assert "lacks columns that the model reads: rooms" in lacking.json()["detail"]
    manifest = ask(client, ids["manifest.json"], b"rooms\n1\n", "text/csv")
    assert (manifest.status_code, manifest.json()["code"]) == (422, "not_a_model")
    many = b"rooms,built,colour\n" + b"1,,\n" * 1001
    assert "more than 1,000 rows" in ask(client, model, many, "text/csv").json()["detail"]
    assert ask(client, model, b"x" * (16 * 1024**2 + 1)).status_code == 413
    assert ask(client, model, b"").json()["code"] == "empty_body"
    assert ask(client, model, b" " * 1024**2 + b"{}", "application/json").status_code == 413
    assert ask(client, model, b"rooms\n1\n", "text/csv", top=101).status_code == 422
    wrong = ask(client, model, {"inputs": []}, "application/json").json()
    assert wrong["errors"][0]["pointer"] == "/inputs"
    assert wrong["detail"] == "/inputs: must have at least 1 item, not 0"
    many = ask(client, model, {"inputs": [{"rooms": 1}] * 1001}, "application/json").json()
    assert many["detail"].startswith("/inputs: must have at most 1,000 items, not 1,001; split")


def test_a_body_without_samples_is_refused_with_the_likely_cause(client, publish, tmp_path):
    save_prices(tmp_path / "prices")
    prices = publish(tmp_path / "prices")["model.onnx"]
    for table in (b"rooms,built,colour\n", b"rooms,built,colour3,2.1.1999,grey"):
        answer = ask(client, prices, table, "text/csv")
        assert (answer.status_code, answer.json()["code"]) == (422, "cannot_predict")
        assert "a header but no rows" in answer.json()["detail"]
        assert "--data-binary" in answer.json()["detail"]
    save_moods(tmp_path / "moods")
    moods = publish(tmp_path / "moods")["model.onnx"]
    answer = ask(client, moods, b"\n")
    assert (answer.status_code, answer.json()["code"]) == (422, "cannot_predict")


def test_an_answer_that_is_not_a_number_is_refused(client, publish, tmp_path):
    save(
        tmp_path / "model",
        [
            helper.make_node("ReduceMean", ["images", "axes"], ["mean"], keepdims=0),
            helper.make_node("Mul", ["mean", "nan"], ["logits"]),
        ],
        [value_info("images", TensorProto.FLOAT, 3, SIDE, SIDE)],
        value_info("logits", TensorProto.FLOAT, 3),
        weights={"axes": np.array([2, 3]), "nan": np.array(np.nan, np.float32)},
        task="image-classification",
        classes=COLOURS,
        preprocessing={
            "input": "images", "output": "logits", "channel_order": "RGB", "size": SIDE,
            "resize": "stretch",
        },
    )  # fmt: skip
    model = publish(tmp_path / "model")["model.onnx"]
    answer = ask(client, model, picture((10, 20, 30)))
    assert (answer.status_code, answer.json()["code"]) == (422, "cannot_predict")
    assert "is not a number" in answer.json()["detail"]


def test_a_file_of_the_service_cannot_be_named(client, publish, tmp_path):
    save_colours(tmp_path / "model")
    secret = tmp_path / "secret.png"
    secret.write_bytes(picture((255, 0, 0)))
    artifact = publish(tmp_path / "model")["model.onnx"]
    answer = ask(client, artifact, str(secret).encode()).json()
    assert answer["predictions"] == []
    assert "is not a JPEG" in answer["skipped"][0]["reason"]


def test_a_model_that_needs_too_much_memory_ends_alone(client, publish, tmp_path):
    nodes = [
        helper.make_node("Expand", ["images", "shape"], ["large"]),
        helper.make_node("ReduceMean", ["large", "axes"], ["logits"], keepdims=0),
    ]
    save(
        tmp_path / "model",
        nodes,
        [value_info("images", TensorProto.FLOAT, 3, SIDE, SIDE)],
        value_info("logits", TensorProto.FLOAT, 3),
        weights={"shape": np.array([10**5, 10**3, 1, 1, 1, 1]), "axes": np.array([0, 1, 4, 5])},
        classes=COLOURS,
        preprocessing={"output": "logits", "channel_order": "RGB", "size": SIDE, "resize": "pad"},
    )
    model = publish(tmp_path / "model")["model.onnx"]
    answer = ask(client, model, picture((1, 2, 3)))
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "too much time or memory" in answer.json()["detail"]
    assert client.get("/healthz").status_code == 200
