from redkiln.cli.view.result import _variant_rows
from redkiln.views.result import JobResult
from redkiln.views.variants import VariantView


def test_a_result_shows_each_variant_and_the_recommendation():
    done = VariantView(
        name="fp16", file="model-fp16.onnx", metric_name="accuracy", metric=0.953, median_ms=1.5
    )
    failed = VariantView(name="int8-qat", misses=["the file cannot be made: why"])
    result = JobResult(variants=[done, failed], recommendation="Use model-fp16.onnx.")
    assert _variant_rows(result) == [
        ("variant", "fp16: accuracy 95.3 %, 1.5 ms for 32"),
        ("variant", "int8-qat: the file cannot be made: why"),
        ("advice", "Use model-fp16.onnx."),
    ]
    assert _variant_rows(JobResult()) == []
