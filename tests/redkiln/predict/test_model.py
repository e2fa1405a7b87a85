import json

import onnx
import pytest

from redkiln.errors import ModelError
from redkiln.predict.model import Model
from redkiln.predict.places import choose_variant, find_model_file
from tests.redkiln.predict.models import save_colours, save_shares, write_shares


def test_a_file_that_was_cut_or_changed_is_refused(tmp_path):
    path = save_colours(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:-40])
    with pytest.raises(ModelError, match=r"cannot load|is not the file"):
        Model(path)
    model = onnx.load_from_string(content)
    model.doc_string = "edited"
    onnx.save(model, path)
    with pytest.raises(ModelError, match=r"is not the file of \d+ bytes that manifest.json lists"):
        Model(path)


def test_a_file_of_another_program_is_refused(tmp_path):
    path = save_colours(tmp_path)
    model = onnx.load(path)
    del model.metadata_props[:]
    onnx.save(model, path)
    with pytest.raises(ModelError, match="Redkiln did not export it"):
        Model(path)


def test_a_broken_manifest_is_an_error_and_a_missing_one_is_not(tmp_path):
    path = save_colours(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ModelError, match=r"manifest\.json cannot be read"):
        Model(path)
    (tmp_path / "manifest.json").unlink()
    assert Model(path).description.verified is None


def test_a_column_is_only_for_texts(tmp_path):
    with pytest.raises(ModelError, match="--column is for models of texts"):
        Model(save_colours(tmp_path), column="a")


def test_a_task_without_known_inputs_is_refused(tmp_path):
    path = save_colours(tmp_path)
    model = onnx.load(path)
    for entry in model.metadata_props:
        if entry.key == "preprocessing":
            entry.value = json.dumps({"output": "logits"})
    onnx.save(model, path)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(ModelError, match="whose inputs this version cannot prepare"):
        Model(path)


def test_a_model_is_found_by_its_path_or_its_folder(tmp_path):
    path = save_colours(tmp_path / "out")
    assert find_model_file(str(path)) == path
    assert find_model_file(str(path.parent)) == path
    assert find_model_file("flowers") is None
    for named, words in (
        ("gone.onnx", r"File gone\.onnx does not exist"),
        (str(tmp_path), "contains no model"),
    ):
        with pytest.raises(ModelError, match=words):
            find_model_file(named)


def test_a_folder_of_data_may_have_the_name_of_a_job(tmp_path, monkeypatch):
    (tmp_path / "flowers").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_model_file("flowers") is None
    for named in ("./flowers", "flowers/", "."):
        with pytest.raises(ModelError, match="contains no model"):
            find_model_file(named)
    path = save_colours(tmp_path / "flowers")
    assert find_model_file("flowers") == path.relative_to(tmp_path)


def test_a_variant_is_chosen_by_name_with_its_own_verdict(tmp_path):
    entry = {"name": "int8-static", "file": "model-int8-static.onnx", "max_metric_drop": 0.01}
    manifest = {"variants": [{**entry, "verified": False}]}
    save_colours(tmp_path, manifest=manifest)
    save_colours(tmp_path, name="model-int8-static.onnx", manifest=manifest)
    assert choose_variant(tmp_path, None).name == "model.onnx"
    path = choose_variant(tmp_path, "int8-static")
    assert Model(path).description.verified is False
    assert Model(tmp_path / "model.onnx").description.verified is True
    with pytest.raises(ModelError, match=r"has no variant fp16\. It has: fp32, int8-static"):
        choose_variant(tmp_path, "fp16")


@pytest.mark.parametrize(
    ("threshold", "answers"),
    [(None, ["bad", "bad", "good"]), ("auto", ["bad", "good", "good"]), (0.05, ["good"] * 3)],
)
def test_a_threshold_decides_between_two_classes(tmp_path, threshold, answers):
    chosen = {"class_name": "good", "probability": 0.25}
    path = save_shares(tmp_path, ["bad", "good"], manifest={"threshold": chosen})
    model = Model(path, threshold=threshold)
    found = list(model.predict(write_shares(tmp_path, [0.1, 0.3, 0.6])))
    assert [one.answer for one in found] == answers
    assert dict(found[1].scores)["good"] == pytest.approx(0.3, abs=1e-3)
    assert [one.name for one in model.predict(write_shares(tmp_path, [0.3]), top=1)]


def test_a_threshold_needs_two_classes_and_the_manifest(tmp_path):
    with pytest.raises(ModelError, match="only to models that choose one of two classes"):
        Model(save_colours(tmp_path / "three"), threshold="auto")
    path = save_shares(tmp_path / "two", ["bad", "good"], manifest={"task": "x"})
    with pytest.raises(ModelError, match=r"The job of .* chose no threshold"):
        Model(path, threshold="auto")
    (path.parent / "manifest.json").unlink()
    with pytest.raises(ModelError, match=r"has no manifest\.json next to it"):
        Model(path, threshold=0.4)
