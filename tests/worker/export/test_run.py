import csv
import hashlib
import io
import json
import re
import shutil

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors.numpy
from PIL import Image

from redkiln.predict.cpu import detect_cpu
from redkiln.predict.model import Model
from redkiln.predict.verify import verify
from tests.worker.job_dirs import load_arrays, write_job
from worker.export import evaluate, onnx_file
from worker.export.variants.judge import Judge
from worker.jobdir import EXIT_DONE, EXIT_FAILED, JobDir
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

NAMES = [
    "checkpoint.safetensors",
    "metrics.csv",
    "curves.png",
    "model.onnx",
    "parity.npz",
    "confusion.png",
    "evaluation.json",
    "calibration.png",
    "report.md",
    "report.html",
    "trainer.log",
    "manifest.json",
]


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory, tiny, cache_dir):
    spec = {
        "task": "image-classification",
        "dataset": "tiny",
        "model": {"name": "mnist-cnn"},
        "training": {"epochs": 8, "batch_size": 8, "precision": "fp32"},
    }
    root = tmp_path_factory.mktemp("trained") / "job"
    job_dir = write_job(
        root, spec, dataset=tiny.local, job_name="tiny patterns", cache_dir=str(cache_dir)
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    return job_dir


@pytest.fixture(scope="module")
def exported(trained_once, tmp_path_factory, blank_figures):
    """A job with all its files, which tests only read."""
    job_dir = copy_of(trained_once, tmp_path_factory.mktemp("exported"))
    with blank_figures.drawn():
        assert export_job(job_dir) == EXIT_DONE
    return job_dir


def copy_of(job_dir, folder):
    return JobDir(shutil.copytree(job_dir.root, folder / "job"))


@pytest.fixture
def trained(trained_once, tmp_path):
    """A job without an export, which tests may change."""
    return copy_of(trained_once, tmp_path)


@pytest.fixture
def perturbed(monkeypatch):
    """The exporter writes other weights than it was given."""
    export = onnx_file._export

    def wrong(exportable, path, *, opset):
        export(exportable, path, opset=opset)
        model = onnx.load(path)
        for tensor in model.graph.initializer:
            if tensor.name.endswith("head.weight"):
                values = onnx.numpy_helper.to_array(tensor)
                tensor.CopyFrom(onnx.numpy_helper.from_array(-values, tensor.name))
        onnx.save(model, path)

    monkeypatch.setattr(onnx_file, "_export", wrong)


def session_of(job_dir):
    return onnxruntime.InferenceSession(job_dir.out_dir / "model.onnx")


def test_a_trained_job_becomes_a_verified_model_with_all_its_files(exported, events, tiny):
    outputs = exported.load_outputs()
    assert [output.name for output in outputs] == NAMES
    assert all((exported.out_dir / name).is_file() for name in NAMES)
    assert next(o for o in outputs if o.kind == "model").verified is True

    result = events(exported, "result")[-1]["data"]
    assert result["verified"] is True
    assert result["metrics"]["test/accuracy"] >= 0.9
    assert {"training", "exporting", "verifying"} <= set(result["timings"])
    phases = [e["data"]["phase"] for e in events(exported, "phase")]
    assert phases[-2:] == ["exporting", "verifying"]
    assert phases[0] == "preparing"

    manifest = json.loads((exported.out_dir / "manifest.json").read_text())
    for name, facts in manifest["files"].items():
        content = (exported.out_dir / name).read_bytes()
        assert facts == {
            "sha256": hashlib.sha256(content).hexdigest(),
            "size_bytes": len(content),
        }
    assert set(manifest["files"]) == set(NAMES) - {"manifest.json"}
    assert manifest["classes"] == tiny.index.classes
    assert manifest["model"]["opset"] == 20
    assert manifest["verification"]["verified"] is True
    # All samples in batches of 64, and 14 in each of the sizes 7 and 1.
    assert manifest["verification"]["num_samples"] == 78 + 14 + 14
    assert manifest["verification"]["cpu"] == detect_cpu()

    onnx.checker.check_model(exported.out_dir / "model.onnx", full_check=True)
    session = session_of(exported)
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["classes"]) == tiny.index.classes
    assert json.loads(metadata["preprocessing"])["size"] == 12

    parity = load_arrays(exported.out_dir / "parity.npz")
    assert parity["images"].shape == (78, 12, 12, 3)
    assert parity["images"].dtype == np.uint8
    assert parity["is_test"].sum() == 18
    for size in (1, 7):
        pixels = parity["images"][:size].astype(np.float32).transpose(0, 3, 1, 2) / 255
        (logits,) = session.run(["logits"], {"images": pixels})
        np.testing.assert_allclose(logits, parity["logits"][:size], rtol=1e-4, atol=1e-4)

    with (exported.out_dir / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == list(range(1, 49))
    assert float(rows[5]["val/accuracy"]) >= 0
    assert rows[4]["val/accuracy"] == ""

    weights = safetensors.numpy.load_file(exported.out_dir / "checkpoint.safetensors")
    assert weights["head.weight"].shape == (3, 64)


def test_the_reports_own_code_runs_and_predicts(exported, files, tmp_path, monkeypatch):
    report = (exported.out_dir / "report.md").read_text()
    assert report.startswith("# tiny patterns\n")
    assert "**Verified**" in report
    code = re.search(r"```python\n(.*?)```", report, re.DOTALL).group(1)
    monkeypatch.chdir(exported.out_dir)
    scope = {}
    exec(code, scope)
    right = []
    for name, content in files(train=0).items():
        (tmp_path / "image.png").write_bytes(content)
        chances = scope["predict"](tmp_path / "image.png")
        right.append(max(chances, key=chances.get) == name.split("/")[1])
    assert sum(right) / len(right) >= 0.9


def test_figures_are_valid_pictures(exported):
    for name in ("curves.png", "confusion.png", "calibration.png"):
        with Image.open(exported.out_dir / name) as image:
            assert image.width > 400


def test_a_model_that_misses_its_gate_is_published_unverified_with_its_numbers(
    trained, events, perturbed
):
    assert export_job(trained) == EXIT_DONE
    assert events(trained, "result")[-1]["data"]["verified"] is False
    warning = events(trained, "warning")[-1]["data"]
    assert warning["code"] == "unverified"
    assert "tolerance" in warning["message"]
    assert "metric" in warning["message"]
    cause = "the outputs are torch's multiplied by -1 and shifted"
    assert f"Possible cause: {cause}" in warning["message"]
    manifest = json.loads((trained.out_dir / "manifest.json").read_text())
    assert manifest["verification"]["suspicions"][0].startswith(cause)
    outputs = trained.load_outputs()
    assert next(o for o in outputs if o.kind == "model").verified is False
    assert {o.name for o in outputs} == set(NAMES)
    report = (trained.out_dir / "report.md").read_text()
    assert "**Unverified**" in report
    assert f"possible cause: {cause}" in report


def test_a_file_that_is_wrong_in_batches_of_seven_is_unverified(trained, events, monkeypatch):
    opened = evaluate.open_session

    def open_session(path, *, threads):
        return WrongInSevens(opened(path, threads=threads))

    monkeypatch.setattr(evaluate, "open_session", open_session)
    assert export_job(trained) == EXIT_DONE
    assert "tolerance" in events(trained, "warning")[-1]["data"]["message"]


class WrongInSevens:
    def __init__(self, session):
        self._session = session
        self.get_inputs = session.get_inputs

    def run(self, names, feed):
        (outputs,) = self._session.run(names, feed)
        return [outputs + 1 if len(outputs) == 7 else outputs]


def test_what_the_closer_look_for_variants_finds_counts_for_the_model(trained, events, monkeypatch):
    monkeypatch.setattr(Judge, "_score_as_written", lambda *_: 0.5)
    left = json.loads(trained.trained_path.read_text())
    left["spec"]["export"]["variants"] = ["fp16"]
    trained.trained_path.write_text(json.dumps(left))
    assert export_job(trained) == EXIT_DONE
    assert events(trained, "result")[-1]["data"]["verified"] is False
    message = events(trained, "warning")[-1]["data"]["message"]
    assert message.startswith("the exported model is unverified: run as written")
    verified = {output.name: output.verified for output in trained.load_outputs()}
    assert (verified["model.onnx"], verified["model-fp16.onnx"]) == (False, False)
    manifest = json.loads((trained.out_dir / "manifest.json").read_text())
    assert manifest["verification"]["misses"] == manifest["variants"][0]["misses"]


def test_requiring_verification_turns_a_miss_into_a_failure(trained, events, perturbed):
    left = json.loads(trained.trained_path.read_text())
    left["spec"]["export"]["require_verified"] = True
    trained.trained_path.write_text(json.dumps(left))
    assert export_job(trained) == EXIT_FAILED
    failure = events(trained)[-1]
    assert (failure["kind"], failure["data"]["code"]) == ("failure", "unverified")
    assert {o.name for o in trained.load_outputs()} == set(NAMES)


def test_an_export_that_fails_keeps_weights_and_curves(trained, events, monkeypatch):
    def fail(*_args, **_kwargs):
        raise RuntimeError("no such operator")

    monkeypatch.setattr(onnx_file, "_export", fail)
    assert export_job(trained) == EXIT_FAILED
    failure = events(trained)[-1]["data"]
    assert failure["code"] == "export_refused"
    assert "no such operator" in failure["message"]
    names = [o.name for o in trained.load_outputs()]
    assert names == ["checkpoint.safetensors", "metrics.csv", "curves.png"]


def test_files_with_embedded_preparation_pass_the_same_gates(trained, files, tmp_path, monkeypatch):
    left = json.loads(trained.trained_path.read_text())
    left["spec"]["model"]["interface"] = "embedded"
    left["spec"]["export"]["variants"] = ["fp16", "int8-static"]
    trained.trained_path.write_text(json.dumps(left))
    assert export_job(trained) == EXIT_DONE
    verified = {output.name: output.verified for output in trained.load_outputs()}
    names = ["model.onnx", "model-fp16.onnx", "model-int8-static.onnx"]
    assert [verified[name] for name in names] == [True] * 3
    assert not list(trained.out_dir.glob(".*"))

    (tmp_path / "photos").mkdir()
    photos = []
    for name, content in files(train=0).items():
        photos.append(tmp_path / "photos" / name.replace("/", "-"))
        with Image.open(io.BytesIO(content)) as image:
            image.resize((31, 40)).save(photos[-1], format="PNG")
    for name in names:
        session = onnxruntime.InferenceSession(trained.out_dir / name)
        assert [value.name for value in session.get_inputs()] == ["photos"]
        assert verify(trained.out_dir / name, threads=1).verified
        model = Model(trained.out_dir / name)
        for photo, answer in zip(photos, model.predict(photos), strict=True):
            pixels = np.asarray(Image.open(photo).convert("RGB"))[np.newaxis]
            scores, places = session.run(["top_scores", "top_classes"], {"photos": pixels})
            assert answer.answer == model.description.classes[places[0][0]]
            assert answer.scores[0][1] == pytest.approx(scores[0][0], abs=0.02)

    code = re.search(r"```python\n(.*?)```", (trained.out_dir / "report.md").read_text(), re.DOTALL)
    monkeypatch.chdir(trained.out_dir)
    scope = {}
    exec(code.group(1), scope)
    chances = scope["predict"](photos[0])
    assert max(chances, key=chances.get) == next(Model("model.onnx").predict(photos[0])).answer


def test_exporting_again_replaces_earlier_files_at_the_requested_opset(exported, tmp_path):
    job_dir = copy_of(exported, tmp_path)
    (job_dir.out_dir / "stray").touch()
    left = json.loads(job_dir.trained_path.read_text())
    left["spec"]["export"]["opset"] = 23
    job_dir.trained_path.write_text(json.dumps(left))
    assert export_job(job_dir) == EXIT_DONE
    assert not (job_dir.out_dir / "stray").exists()
    model = onnx.load(job_dir.out_dir / "model.onnx")
    assert [entry.version for entry in model.opset_import if entry.domain == ""] == [23]
