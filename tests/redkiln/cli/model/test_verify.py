import hashlib
import http.server
import io
import json
import threading
import zipfile

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

from redkiln.client.packing import open_package
from redkiln.public_sets import PUBLIC_SETS, PublicFile, PublicSet
from tests.redkiln.fake_service import dataset
from tests.redkiln.predict.labelled.public_files import mnist_files
from tests.redkiln.predict.models import save, save_detector, save_moods, value_info
from tests.redkiln.predict.test_verify import plant

FACTS = {"output": "logits", "channel_order": "RGB", "size": 4, "resize": "stretch"}


@pytest.fixture(autouse=True)
def _alone(fake, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_verified_model_is_printed_with_its_numbers(redkiln, tmp_path):
    done = redkiln("verify", plant(tmp_path / "model"))
    assert done.code == 0
    assert "150 saved samples, 100 of them from the test split" in done.out
    assert "optimised for this CPU" in done.out
    assert "0.5 points lower" in done.out
    assert "Verified on this CPU" in done.out


def test_a_missed_gate_has_its_exit_status_and_says_why(redkiln, tmp_path):
    path = plant(tmp_path / "model", bias=np.zeros(3, np.float32))
    done = redkiln("verify", path)
    assert done.code == 5
    assert "Missed: optimised for this CPU: outputs differ by up to" in done.out
    assert "Possible cause: every class's output is shifted" in done.out
    assert "UNVERIFIED on this CPU" in done.out
    found = redkiln("verify", path, "--json").json
    assert found["verified"] is False
    assert found["ways"]["as written"]["difference"]["agreement"] < 1
    assert {"architecture", "features"} <= set(found["cpu"])


def test_a_worse_score_on_new_data_does_not_make_the_file_unverified(redkiln, tmp_path):
    intervals = {"test/accuracy": [0.98, 0.999]}
    manifest = {"metrics": {"test/accuracy": 0.99}, "intervals": intervals}
    path = plant(tmp_path / "model", facts=FACTS, manifest=manifest)
    for number in range(30):
        folder = tmp_path / "data" / ("red", "green", "blue")[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (9 * number % 256, 40, 90)).save(folder / f"{number}.png")
    done = redkiln("verify", path, "--data", tmp_path / "data")
    assert done.code == 0
    assert "of 30 samples" in done.out
    assert "the job's test split: 99.0 %, 95 % interval 98.0 % to 99.9 %" in done.out
    assert "worse than on the test split, and chance does not explain it" in done.out
    assert "Missed:" not in done.out
    found = redkiln("verify", path, "--data", tmp_path / "data", "--json").json
    assert (found["verified"], found["data"]["is_test_split"]) == (True, False)
    assert "the accuracy is" in found["data"]["miss"]


def test_a_score_on_the_data_that_the_model_was_trained_on_is_called_too_good(
    redkiln, tmp_path, monkeypatch
):
    for name in ("red", "blue"):
        (tmp_path / "flowers" / name).mkdir(parents=True)
        Image.new("RGB", (4, 4), name).save(tmp_path / "flowers" / name / "1.png")
    known = {"sha256": open_package(tmp_path / "flowers").digest()}
    known["counts"] = {"train": 60, "validation": 10, "test": 30}
    path = plant(tmp_path / "model", facts=FACTS, manifest={"dataset": known})
    monkeypatch.chdir(tmp_path)
    done = redkiln("verify", path, "--data", "flowers")
    said = " ".join(done.out.split())
    assert "./flowers (this folder, not a data set): accuracy" in said
    assert "70 of the 100 samples were in its training or validation split" in said
    (tmp_path / "flowers" / "red" / "2.png").write_bytes(b"")
    done = redkiln("verify", path, "--data", "./flowers")
    said = " ".join(done.out.split())
    assert "./flowers: accuracy" in said
    assert "If the model was trained on some of these samples, the score is too good." in said


def test_macro_f1_leads_for_a_rare_class(redkiln, tmp_path):
    rare = {
        "comparison": {"metric": "test/macro_f1"},
        "metrics": {"test/macro_f1": 0.71, "test/accuracy": 0.99},
        "intervals": {"test/macro_f1": [0.6, 0.8]},
    }
    path = plant(tmp_path / "model", facts=FACTS, manifest=rare)
    for number in range(30):
        folder = tmp_path / "data" / ("red" if number else "green")
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (9 * number % 256, 40, 90)).save(folder / f"{number}.png")
    done = redkiln("verify", path, "--data", tmp_path / "data")
    assert "Test macro f1 0.710, 95 % interval 0.600 to 0.800; one class dominates" in done.out
    assert done.out.index("Test macro f1") < done.out.index("ONNX Runtime")
    assert "data: macro f1 0." in done.out
    assert "always answering the largest class of these data gives 96.7 %" in done.out
    found = redkiln("verify", path, "--data", tmp_path / "data", "--json").json["data"]
    assert (found["metric_name"], found["largest_share"]) == ("macro_f1", 29 / 30)


@pytest.mark.parametrize(
    ("counts", "where"),
    [({"train": 30, "test": 8}, " on only 8 samples"), (None, "")],
)
def test_a_worse_metric_that_one_interval_explains_is_named_but_no_miss(
    redkiln, tmp_path, counts, where
):
    recorded = {"test/accuracy": 0.875}
    manifest = {"metrics": recorded, "intervals": {"test/accuracy": [0.3, 0.978]}}
    path = plant(tmp_path, facts=FACTS, manifest=manifest | {"dataset": {"counts": counts}})
    for number in range(40):
        name = "red" if number < 20 else "blue"
        (tmp_path / "data" / name).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(tmp_path / "data" / name / f"{number}.png")
    done = redkiln("verify", path, "--data", tmp_path / "data")
    assert done.code == 0
    assert (
        f"50.0 % is below the job's 87.5 %, but 87.5 % was measured{where} (95 % interval 30.0 % "
        "to 97.8 %), so chance may explain the difference." in " ".join(done.out.split())
    )


def test_labels_of_western_european_programs_are_read_and_others_with_their_name(redkiln, tmp_path):
    path = plant(tmp_path, facts=FACTS)
    data = tmp_path / "data"
    data.mkdir()
    for name in ("grün", "blå"):
        Image.new("RGB", (4, 4)).save(data / f"{name}.png")
    content = "file,labels\ngrün.png,red\nblå.png,blue\n"
    (data / "labels.csv").write_bytes(content.encode("cp1252"))
    found = redkiln("verify", path, "--data", data, "--json").json["data"]
    assert (found["num_samples"], found["skipped"]) == (2, [])
    for name in ("grün", "blå"):
        (data / f"{name}.png").rename(data / f"猫{name[:2]}.png")
    content = content.replace("grün", "猫gr").replace("blå", "猫bl")
    (data / "labels.csv").write_bytes(content.encode("cp932"))
    done = redkiln("verify", path, "--data", data)
    assert done.code == 2
    assert "in shift_jis it has '猫gr.png,red'" in " ".join(done.err.split())
    found = redkiln("verify", path, "--data", data, "--encoding", "shift_jis", "--json").json[
        "data"
    ]
    assert (found["num_samples"], found["skipped"]) == (2, [])
    assert redkiln("verify", path, "--data", data, "--encoding", "utf8x").code == 2


def test_a_table_in_another_encoding_is_scored_with_its_name(redkiln, tmp_path):
    path, table = save_moods(tmp_path / "model"), tmp_path / "mail.csv"
    table.write_bytes("text,気分\n料理 good,happy\nbad,happy\n".encode("cp932"))
    options = ("--data", table, "--target", "気分", "--json")
    found = redkiln("verify", path, *options, "--encoding", "shift_jis").json["data"]
    assert (found["metric"], found["num_samples"]) == (0.5, 2)
    table.write_bytes("text,mood\ncafé good,happy\n".encode("cp1252"))
    done = redkiln("verify", path, "--data", table, "--target", "mood")
    assert done.code == 0
    assert "mail.csv is not UTF-8; it was read as cp1252." in done.err.replace("\n", " ")


def test_labelled_data_are_enough_without_saved_samples(redkiln, tmp_path):
    path = plant(tmp_path / "model", facts=FACTS, manifest={"metrics": {"test/accuracy": 0.0}})
    (path.parent / "parity.npz").unlink()
    (tmp_path / "data" / "red").mkdir(parents=True)
    Image.new("RGB", (4, 4), (250, 0, 0)).save(tmp_path / "data" / "red" / "1.png")
    done = redkiln("verify", path, "--data", tmp_path / "data")
    assert done.code == 0
    assert "without parity.npz, only the score on your data is measured" in done.out
    assert "of 1 sample," in done.out
    assert "The file was not checked" in done.out
    found = redkiln("verify", path, "--data", tmp_path / "data", "--json").json
    assert (found["verified"], found["data"]["num_samples"]) == (None, 1)
    assert redkiln("verify", path, "--data", tmp_path / "data", "--signed-by", "a").code == 2


def test_the_test_split_of_a_pushed_data_set_is_scored(redkiln, fake, tmp_path):
    path = plant(tmp_path / "model", facts=FACTS, manifest={"metrics": {"test/accuracy": 0.0}})
    (path.parent / "parity.npz").unlink()
    fake.datasets["ds_1"] = dataset("flowers", id="ds_1")
    photo, samples = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (4, 4), (250, 0, 0)).save(photo, "PNG")
    with zipfile.ZipFile(samples, "w") as file:
        file.writestr("0.png", photo.getvalue())
        file.writestr("1.png", photo.getvalue())
        file.writestr("labels.csv", "file,labels\n0.png,red\n1.png,blue\n")
    fake.test_samples = samples.getvalue()
    found = redkiln("verify", path, "--data", "flowers", "--json").json["data"]
    assert (found["data"], found["num_samples"]) == ("flowers (test split)", 2)
    assert found["skipped"] == []
    assert found["metric"] in (0.5, 0.0)


@pytest.mark.parametrize(("recorded", "code"), [(0.95, 5), (0.1, 0)])
def test_the_jobs_own_test_split_decides(redkiln, tmp_path, recorded, code):
    known = {"dataset": {"name": "builtin:digits"}, "metrics": {"test/accuracy": recorded}}
    path = save_zero(tmp_path / "model", 8, manifest=known)
    done = redkiln("verify", path, "--data", "builtin:digits")
    assert done.code == code
    said = "UNVERIFIED" if code else "the file scores as recorded on the job's test split"
    assert said in " ".join(done.out.split())
    assert ("Missed: builtin:digits (test split): the accuracy is 0.1006" in done.out) == bool(code)


def test_a_data_set_is_the_test_split_of_the_job_that_was_trained_on_it(redkiln, fake, tmp_path):
    path = plant(tmp_path / "model", facts=FACTS, manifest={"metrics": {"test/accuracy": 0.0}})
    photo, samples = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (4, 4), (250, 0, 0)).save(photo, "PNG")
    with zipfile.ZipFile(samples, "w") as file:
        file.writestr("0.png", photo.getvalue())
        file.writestr("labels.csv", "file,labels\n0.png,red\n")
    fake.test_samples = samples.getvalue()
    for name in ("ds_1", "ds_2"):
        fake.datasets[name] = dataset(name, id=name)
    fake.job_names["job_tiny"] = "tiny"  # trained on ds_1
    answers = [redkiln("verify", path, "--data", name, "--json").json for name in ("ds_1", "ds_2")]
    assert [one["data"]["is_test_split"] for one in answers] == [True, False]


def test_a_built_in_set_is_scored_without_a_service(redkiln, fake, tmp_path):
    path = save_zero(tmp_path / "model", 8)
    done = redkiln("verify", path, "--data", "builtin:digits")
    assert done.code == 0
    # It always answers with a zero, and 18 of the 179 test samples are one.
    assert "builtin:digits (test split): accuracy 10.1 % of 179 samples" in done.out
    assert fake.requests == []


@pytest.fixture
def mnist(monkeypatch):
    """A small MNIST at the second of two addresses; gives its files, and the paths asked for."""
    files, asked = mnist_files(), []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content = files.get(self.path.removeprefix("/right/"))
            content = b"wrong" if content is None else content
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    listed = tuple(
        PublicFile(name, hashlib.sha256(content).hexdigest(), len(content))
        for name, content in files.items()
    )
    sources = (f"{address}/wrong", f"{address}/right")
    monkeypatch.setitem(PUBLIC_SETS, "mnist", PublicSet(listed, sources))
    yield files, asked
    server.shutdown()
    server.server_close()


def save_zero(folder, side, **options):
    """A model of digits that always answers with a zero."""
    return save(
        folder,
        [
            helper.make_node("Flatten", ["images"], ["flat"]),
            helper.make_node("MatMul", ["flat", "weights"], ["logits"]),
        ],
        [value_info("images", TensorProto.FLOAT, 1, side, side)],
        value_info("logits", TensorProto.FLOAT, 10),
        weights={"weights": np.zeros((side * side, 10), np.float32)},
        task="image-classification",
        classes=[str(digit) for digit in range(10)],
        preprocessing=FACTS | {"channel_order": "grey", "size": side},
        **options,
    )


def test_a_downloaded_set_is_fetched_once_and_scored(redkiln, fake, tmp_path, mnist):
    files, asked = mnist
    path = save_zero(tmp_path / "model", 28)
    done = redkiln("verify", path, "--data", "builtin:mnist")
    assert done.code == 0
    assert "builtin:mnist (test split): accuracy 10.0 % of 10 samples" in done.out
    assert "fetching t10k-labels-idx1-ubyte.gz of mnist" in done.err
    assert sorted(asked) == sorted(
        f"/{kind}/{name}" for kind in ("wrong", "right") for name in files
    )
    assert redkiln("verify", path, "--data", "builtin:mnist").code == 0
    assert len(asked) == 2 * len(files)
    assert fake.requests == []


def test_a_set_that_no_address_has_says_where_to_put_its_files(redkiln, tmp_path, mnist):
    files, _ = mnist
    files.clear()
    done = redkiln("verify", save_zero(tmp_path / "model", 28), "--data", "builtin:mnist")
    assert done.code != 0
    assert "train-images-idx3-ubyte.gz could not be fetched" in done.err
    assert str(tmp_path / "cache/redkiln/datasets/mnist") in done.err.replace("\n", "")


def test_a_detector_is_scored_on_the_boxes_of_a_pushed_data_set(redkiln, fake, tmp_path):
    path = save_detector(tmp_path / "model", manifest={"metrics": {"test/map": 1.0}})
    fake.datasets["ds_1"] = dataset("sky", id="ds_1", task="object-detection")
    fake.job_names["job_tiny"] = "tiny"  # trained on ds_1
    photo, samples = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (40, 20), "white").save(photo, "PNG")
    box = {"id": 1, "image_id": 1, "category_id": 3, "bbox": [0, 0, 40, 20]}
    known = {
        "images": [{"id": 1, "file_name": "0.png"}],
        "categories": [{"id": 3, "name": "moon"}],
        "annotations": [box],
    }
    with zipfile.ZipFile(samples, "w") as file:
        file.writestr("0.png", photo.getvalue())
        file.writestr("_annotations.coco.json", json.dumps(known))
    fake.test_samples = samples.getvalue()
    done = redkiln("verify", path, "--data", "sky")
    assert done.code == 0
    assert "sky (test split): mAP 100.0 % of 1 sample; the job's test split: 100.0 %" in done.out
    found = redkiln("verify", path, "--data", "sky", "--json").json
    assert (found["verified"], found["data"]["interval"]) == (True, None)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("flowers", "test samples can only"),
        ("roses", "there is neither a file nor a data set of this name"),
        ("new/roses", "this file or folder does not exist"),
    ],
)
def test_data_that_cannot_be_had_are_refused_with_the_reason(
    redkiln, fake, tmp_path, named, message
):
    fake.datasets["ds_1"] = dataset("flowers", id="ds_1")
    done = redkiln("verify", plant(tmp_path / "model", facts=FACTS), "--data", named)
    assert (done.code, f"--data {named}: {message}" in done.err) == (2, True), done.err


def test_a_job_without_saved_samples_says_what_is_missing(redkiln, tmp_path):
    path = plant(tmp_path / "model")
    (path.parent / "parity.npz").unlink()
    done = redkiln("verify", path)
    assert done.code == 2
    assert "parity.npz is missing" in done.err


def test_a_variant_is_verified_by_its_own_limit(redkiln, tmp_path):
    entry = {"name": "fp16", "file": "model-fp16.onnx", "max_metric_drop": 1.0, "verified": True}
    shifted = np.full(3, 0.3, np.float32)
    folder = tmp_path / "model"
    plant(folder, bias=shifted, name="model-fp16.onnx", manifest={"variants": [entry]})
    (folder / "model.onnx").write_bytes((folder / "model-fp16.onnx").read_bytes())
    assert redkiln("verify", folder).code == 5
    assert redkiln("verify", folder, "--variant", "fp16").code == 0
