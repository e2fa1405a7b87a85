import pytest
from pydantic import ValidationError

from redkiln.spec.exports import Export
from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ([], ["fp32"]),
        ("fp16", ["fp32", "fp16"]),
        (["int8-static", {"name": "fp16"}], ["fp32", "int8-static", "fp16"]),
        (["fp16", "fp32"], ["fp32", "fp16"]),
    ],
)
def test_fp32_is_always_written_and_comes_first(written, names):
    export = Export.model_validate({"variants": written})
    assert [variant.name for variant in export.variants] == names


def test_each_variant_has_an_allowed_drop():
    written = ["fp16", "int8-dynamic", {"name": "int8-static", "max_metric_drop": 0.03}]
    _, *others = Export.model_validate({"variants": written}).variants
    assert [variant.allowed_drop for variant in others] == [0.002, 0.01, 0.03]


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (["fp16", "fp16"], "listed twice"),
        (["int4"], "fp16"),
        ([{"name": "fp32", "max_metric_drop": 0.1}], r"set export\.max_metric_drop"),
        ([{"name": "int8-static", "io": "float16"}], "io: float16 is for fp16"),
    ],
)
def test_variants_that_make_no_sense_are_refused(written, words):
    with pytest.raises(ValidationError, match=words):
        Export.model_validate({"variants": written})


def test_int8_qat_is_for_image_classifiers_that_are_trained():
    spec = {"dataset": "x", "export": {"variants": ["int8-qat"]}}
    parsed = parse_spec(spec, default_task="image-classification")
    assert [variant.name for variant in parsed.export.variants] == ["fp32", "int8-qat"]
    assert parsed.export.variants[1].allowed_drop == 0.005
    assert (parsed.training.quantize.epochs, parsed.training.quantize.lr) == (2, 1e-4)
    with pytest.raises(SpecError) as refused:
        parse_spec(spec, default_task="tabular-classification")
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.code) == ("/export/variants/1", "not_trainable")


def test_int8_qat_on_several_gpus_is_refused():
    spec = {"dataset": "x", "resources": {"gpus": 2}, "export": {"variants": ["fp16", "int8-qat"]}}
    with pytest.raises(SpecError) as refused:
        parse_spec(spec, default_task="image-classification")
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.code) == ("/export/variants/2", "needs_one_gpu")
    assert "set resources.gpus to 1" in problem.message


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"model": {"file": "a" * 64, "source": "onnx"}}, "/model/interface"),
        ({"export": {"opset": 17}}, "/export/opset"),
        ({"export": {"variants": [{"name": "fp16", "io": "float16"}]}}, "/export/variants/1/io"),
        ({}, None),
    ],
)
def test_files_that_prepare_photos_do_not_go_with_everything(fields, pointer):
    model = {"interface": "embedded", **fields.get("model", {})}
    spec = {"dataset": "x", **fields, "model": model}
    if pointer is None:
        parsed = parse_spec(spec, default_task="image-classification")
        assert parsed.model.interface == "embedded"
        return
    with pytest.raises(SpecError) as refused:
        parse_spec(spec, default_task="image-classification")
    assert [problem.pointer for problem in refused.value.problems] == [pointer]


def test_the_graph_of_an_onnx_file_is_not_fine_tuned_for_int8():
    model = {"source": "onnx", "file": "0" * 64}
    spec = {"dataset": "x", "model": model, "export": {"variants": ["int8-static", "int8-qat"]}}
    with pytest.raises(SpecError, match="use int8-static") as caught:
        parse_spec(spec, default_task="image-classification")
    assert caught.value.problems[0].pointer == "/export/variants/2"
