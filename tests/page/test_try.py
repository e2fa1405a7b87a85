"""Models of texts and of tables in the browser answer as `redkiln predict` does.

Their networks are sums, so a wrong token, code or number changes the answer.
"""

import io
import json
import re

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from playwright.sync_api import expect

from redkiln.predict.columns import name_inputs
from redkiln.predict.model import Model
from redkiln.predict.session import run_session
from tests.page.axe import find_violations
from tests.page.made import expect_parity, make_model
from worker.tasks.tabular.embedded import EmbeddedColumns
from worker.trainer.text.tokenizer import train_tokenizer

MOST_TOKENS = 24
TEXTS = (
    "Free entry to win the CUP",
    "see you at 7, okay?",
    "smörgåsbord für alle",
    "ผม日本語 🙂 don't",
)


def write(folder, graph_nodes, weights, inputs, task, preprocessing, classes, **facts):
    """Write a model with its metadata and manifest; returns its session."""
    shape = ["n", "c"] if classes else ["n"]
    output = helper.make_tensor_value_info(preprocessing["output"], TensorProto.FLOAT, shape)
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(graph_nodes, "g", inputs, [output], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    named = {"classes": json.dumps(classes)} if classes else {"target": '{"name": "price"}'}
    named |= {name: json.dumps(value) for name, value in facts.items()}
    helper.set_model_props(
        model, {"task": task, "preprocessing": json.dumps(preprocessing), **named}
    )
    onnx.save(model, folder / "model.onnx")
    manifest = {
        "task": task,
        "classes": classes or None,
        "preprocessing": preprocessing,
        "model": {},
        **facts,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return onnxruntime.InferenceSession(folder / "model.onnx")


def publish(site, worker, folder, session, samples, **result):
    """A job with the files of a folder, and samples with their outputs."""
    (name,) = (output.name for output in session.get_outputs())
    content = io.BytesIO()
    np.savez(content, **samples, **{name: session.run(None, samples)[0]})
    kinds = {"model.onnx": "model", "manifest.json": "manifest", "tokenizer.json": "file"}
    files = [(path.name, kinds[path.name], path.read_bytes()) for path in folder.iterdir()]
    files.append(("parity.npz", "parity", content.getvalue()))
    return make_model(site, worker, files, **result)


def int64(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.INT64, shape)


@pytest.fixture
def text_model(tmp_path):
    tokenizer = train_tokenizer(
        TEXTS * 3, vocabulary_size=500, max_length=MOST_TOKENS, lowercase=True
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    random = np.random.default_rng(0)
    weights = {
        "table": random.normal(size=(500, 3)).astype(np.float32),
        "minus": np.array([-1], np.int64),
        "one": np.array([1], np.int64),
    }
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["each"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "minus"], ["column"]),
        helper.make_node("Mul", ["each", "column"], ["known"]),
        helper.make_node("ReduceSum", ["known", "one"], ["logits"], keepdims=0),
    ]
    inputs = [int64("input_ids", "n", "t"), int64("attention_mask", "n", "t")]
    preprocessing = {"inputs": ["input_ids", "attention_mask"], "output": "logits",
                     "tokenizer": "tokenizer.json", "column": "text",
                     "max_length": MOST_TOKENS}  # fmt: skip
    session = write(tmp_path, nodes, weights, inputs, "text-classification", preprocessing,
                    ["ham", "spam", "other"])  # fmt: skip
    encoded = tokenizer.encode_batch(list(TEXTS))
    samples = {
        "input_ids": np.array([one.ids for one in encoded], np.int64),
        "attention_mask": np.array([one.attention_mask for one in encoded], np.int64),
    }
    return session, samples


def test_texts_get_the_answers_of_redkiln_predict(
    site, open_page, gpu_worker, tmp_path, text_model
):
    job_id = publish(site, gpu_worker, tmp_path, *text_model)
    model = Model(tmp_path / "model.onnx")
    page = open_page(f"/try/{job_id}")
    for text in (*TEXTS, "a very long text about nothing " * 9):
        page.get_by_label("Text").fill(text)
        page.get_by_role("button", name="Predict").click()
        answer = page.get_by_role("list", name="Answers").get_by_role("listitem").first
        expect(answer).to_contain_text(text.strip())
        (expected,) = model.predict([text])
        name, share = expected.scores[0]
        expect(answer.get_by_role("progressbar").first).to_have_attribute("aria-label", name)
        expect(answer).to_contain_text(f"{100 * share:.1f} %")
    expect_parity(page)
    assert not find_violations(page, "an opened model with answers")


@pytest.fixture
def table_model(tmp_path):
    weights = {
        "w": np.array([3, 0.5, -2, 9, 0.1, 40, 90], np.float32),
        "v": np.array([7], np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["codes"], ["known"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["numbers", "w"], ["a"]),
        helper.make_node("MatMul", ["known", "v"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["values"]),
    ]
    numbers = helper.make_tensor_value_info("numbers", TensorProto.FLOAT, ["n", 7])
    origin = {"column": "opened", "day_first": False}
    derived = {part: {**origin, "part": part} for part in ("ordinal", "weekday_sin", "hour")}
    derived["days"] = {**origin, "part": "days_since", "since": "built", "since_day_first": False}
    derived |= {
        f"has {word}": {"column": "note", "part": "word", "word": word}
        for word in ("quiet", "静か")
    }
    inputs = [
        {"name": "numbers", "dtype": "float32", "columns": ["size", *derived], "derived": derived,
         "mean": [4.5, 0, 0, 0, 0, 0, 0], "missing_numbers": []},
        {"name": "codes", "dtype": "int64", "columns": ["city"],
         "categories": {"city": ["Oslo", "Rome", "Ürümqi"]}},
    ]  # fmt: skip
    preprocessing = {"output": "values", "target": "price", "inputs": inputs}
    session = write(tmp_path, nodes, weights, [numbers, int64("codes", "n", 1)],
                    "tabular-regression", preprocessing, [])  # fmt: skip
    samples = {"numbers": np.ones((5, 7), np.float32), "codes": np.arange(5)[:, None] - 1}
    return session, samples


def test_rows_with_categories_dates_and_prose_get_the_answers_of_redkiln_predict(
    site, open_page, gpu_worker, tmp_path, table_model
):
    job_id = publish(site, gpu_worker, tmp_path, *table_model)
    table = tmp_path / "row.csv"
    table.write_text(
        "city,opened,built,note,size\n"
        "Ürümqi,2024-05-15 06:30,2023-12-01,Very QUIET とても静か,2.5\n"
    )
    (expected,) = Model(tmp_path / "model.onnx").predict([table])
    page = open_page(f"/try/{job_id}")
    expect(page.get_by_label("size")).to_have_value("4.5")
    page.get_by_label("city").select_option("Ürümqi")
    page.get_by_label("opened").fill("2024-05-15T06:30")
    page.get_by_label("built").fill("2023-12-01")  # no times in training
    page.get_by_label("note").fill("Very QUIET とても静か")
    page.get_by_label("size").fill("2.5")
    asked = page.locator("form label > span").all_inner_texts()
    assert asked == ["size", "opened", "built", "note", "city"]
    page.get_by_role("button", name="Predict").click()
    shown = page.get_by_role("list", name="Answers").locator("b").first
    assert float(shown.inner_text().replace(",", "")) == pytest.approx(expected.answer, rel=1e-3)
    expect_parity(page)


def test_a_model_that_reads_columns_gets_them_from_the_form(
    site, open_page, gpu_worker, tmp_path, table_model
):
    _, samples = table_model
    path = tmp_path / "model.onnx"
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    facts = manifest["preprocessing"]
    names = [name for part in facts["inputs"] for name in part["columns"]]
    facts |= {"interface": "embedded", "columns": name_inputs(names)}
    EmbeddedColumns(facts, num_classes=0, has_labels=False).apply(path)
    model = onnx.load(path)
    helper.set_model_props(
        model, {"task": "tabular-regression", "target": '{"name": "price"}',
                "preprocessing": json.dumps(facts)}
    )  # fmt: skip
    onnx.save(model, path)
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    content = io.BytesIO()
    session = onnxruntime.InferenceSession(path)
    np.savez(content, **samples, values=run_session(session, samples, "values"))
    kinds = {"model.onnx": "model", "manifest.json": "manifest"}
    files = [(name, kind, (tmp_path / name).read_bytes()) for name, kind in kinds.items()]
    files.append(("parity.npz", "parity", content.getvalue()))
    page = open_page(f"/try/{make_model(site, gpu_worker, files)}")
    page.get_by_label("city").select_option("Ürümqi")
    page.get_by_label("opened").fill("2024-05-15T06:30")
    page.get_by_label("built").fill("2023-12-01")
    page.get_by_label("size").fill("2.5")
    page.get_by_role("button", name="Predict").click()
    table = tmp_path / "row.csv"
    table.write_text("city,opened,built,note,size\nÜrümqi,2024-05-15 06:30,2023-12-01,,2.5\n")
    (expected,) = Model(path).predict([table])
    shown = page.get_by_role("list", name="Answers").locator("b").first
    number = float(shown.inner_text().replace(",", ""))
    assert number == pytest.approx(expected.answer, rel=1e-3)
    expect_parity(page)


@pytest.fixture
def label_model(tmp_path):
    weights = {"w": np.array([[1, -1, 0.5, 0]], np.float32)}
    nodes = [
        helper.make_node("MatMul", ["numbers", "w"], ["logits"]),
        helper.make_node("Sigmoid", ["logits"], ["probabilities"]),
    ]
    numbers = helper.make_tensor_value_info("numbers", TensorProto.FLOAT, ["n", 1])
    inputs = [{"name": "numbers", "dtype": "float32", "columns": ["size"], "mean": [0.0],
               "missing_numbers": []}]  # fmt: skip
    preprocessing = {"output": "probabilities", "target": "tags", "inputs": inputs,
                     "labels_separator": ";"}  # fmt: skip
    session = write(
        tmp_path, nodes, weights, [numbers], "tabular-classification", preprocessing,
        ["large", "small", "heavy", "odd"], thresholds=[0.5, 0.5, 0.7, 0.6],
    )  # fmt: skip
    return session, {"numbers": np.arange(5, dtype=np.float32)[:, None]}


def test_a_row_gets_every_label_that_reaches_its_threshold(
    site, open_page, gpu_worker, tmp_path, label_model
):
    page = open_page(f"/try/{publish(site, gpu_worker, tmp_path, *label_model)}")
    model, table = Model(tmp_path / "model.onnx"), tmp_path / "row.csv"
    for size, labels in ((2, ["large", "heavy"]), (1, ["large"]), (-1, ["small"]), (0, None)):
        table.write_text(f"size\n{size}\n")
        (expected,) = model.predict([table])
        page.get_by_label("size").fill(str(size))
        page.get_by_role("button", name="Predict").click()
        answer = page.get_by_role("list", name="Answers").get_by_role("listitem").first
        expect(answer).to_contain_text(f"size {size},")
        shown = [name for name, share in expected.scores if labels and name in labels]
        if labels:
            assert sorted(shown) == sorted(expected.answer)
            expect(answer.get_by_text(", ".join(shown), exact=True).first).to_be_visible()
            expect(answer.locator(".first")).to_have_text(shown)
        for name, share in expected.scores:
            bar = answer.get_by_role("progressbar", name=name)
            expect(bar).to_have_attribute("aria-valuenow", re.compile(f"{100 * share:.0f}"))
    expect_parity(page)


@pytest.fixture
def calibrated_model(tmp_path):
    """A classifier whose graph divides its logits by the temperature, as an export does."""
    weights = {"w": np.array([[4, 0, -4]], np.float32), "temperature": np.array(4, np.float32)}
    nodes = [
        helper.make_node("MatMul", ["numbers", "w"], ["raw"]),
        helper.make_node("Div", ["raw", "temperature"], ["logits"]),
    ]
    numbers = helper.make_tensor_value_info("numbers", TensorProto.FLOAT, ["n", 1])
    inputs = [{"name": "numbers", "dtype": "float32", "columns": ["size"], "mean": [0.0],
               "missing_numbers": []}]  # fmt: skip
    preprocessing = {"output": "logits", "target": "kind", "inputs": inputs, "temperature": 4.0}
    session = write(tmp_path, nodes, weights, [numbers], "tabular-classification", preprocessing,
                    ["low", "middle", "high"])  # fmt: skip
    return session, {"numbers": np.arange(5, dtype=np.float32)[:, None]}


def test_a_calibrated_row_has_the_probabilities_of_redkiln_predict(
    site, open_page, gpu_worker, tmp_path, calibrated_model
):
    page = open_page(f"/try/{publish(site, gpu_worker, tmp_path, *calibrated_model)}")
    table = tmp_path / "row.csv"
    table.write_text("size\n1\n")
    (expected,) = Model(tmp_path / "model.onnx").predict([table])
    page.get_by_label("size").fill("1")
    page.get_by_role("button", name="Predict").click()
    answer = page.get_by_role("list", name="Answers").get_by_role("listitem").first
    for _, share in expected.scores:
        expect(answer).to_contain_text(f"{100 * share:.1f} %")


@pytest.mark.parametrize(
    ("rare", "probability", "expected"),
    [
        ("middle", 0.2, "the answer is middle."),
        ("middle", 0.5, None),
        ("low", 0.8, "the answer is middle."),
        ("low", 0.4, None),
    ],
)
def test_a_threshold_of_the_job_is_named_where_it_changes_the_answer(
    site, open_page, gpu_worker, tmp_path, calibrated_model, rare, probability, expected
):
    threshold = {"class_name": rare, "probability": probability, "validation_f1": 0.7,
                 "test_f1": 0.6, "test_f1_at_half": 0.4}  # fmt: skip
    job = publish(site, gpu_worker, tmp_path, *calibrated_model, threshold=threshold)
    page = open_page(f"/try/{job}")
    page.get_by_label("size").fill("1")  # low 67 %, middle 24 %, high 9 %
    page.get_by_role("button", name="Predict").click()
    answer = page.get_by_role("list", name="Answers").get_by_role("listitem").first
    expect(answer.locator(".first")).to_have_text("low")
    note = answer.get_by_text(f"With the job's threshold ({rare} from {probability:g} on)")
    if expected is None:
        expect(note).to_have_count(0)
    else:
        expect(note).to_contain_text(expected)
