import json

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from redkiln.predict.verify import verify
from redkiln.views.variants import VariantView
from worker.export.variants import run as variants_run
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job


@pytest.fixture(scope="module", autouse=True)
def blank_figures():
    """Does nothing: the figures are drawn."""


def test_a_job_writes_the_variants_it_asks_for_each_with_its_verdict(make_job, events, monkeypatch):
    written = variants_run.write_fp16

    def break_fp16(source, target, **options):
        written(source, target, **options)
        raise ValueError("no fp16 today\nsecond line")

    monkeypatch.setattr(variants_run, "write_fp16", break_fp16)
    strict = {"name": "int8-dynamic", "max_metric_drop": 0.0}
    job_dir = make_job(
        training={"epochs": 8},
        export={"variants": ["fp32", "fp16", strict, {"name": "int8-static"}], "slim": True},
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE
    assert export_job(job_dir) == EXIT_DONE
    files = {output.name: output.verified for output in job_dir.load_outputs()}
    manifest = json.loads((job_dir.out_dir / "manifest.json").read_text())
    results = {one["name"]: one for one in manifest["variants"]}
    assert list(results) == ["fp32", "fp16", "int8-dynamic", "int8-static"]
    assert manifest["model"]["slim"]["kept"]
    assert manifest["model"]["slim"]["size_bytes"][1] == results["fp32"]["size_bytes"]
    assert results["fp16"]["misses"] == ["the file cannot be made: ValueError: no fp16 today"]
    assert "model-fp16.onnx" not in files
    assert not (job_dir.out_dir / "model-fp16.onnx").exists()
    for name in ("int8-dynamic", "int8-static"):
        one = results[name]
        assert files[one["file"]] == one["verified"] == (not one["misses"])
        assert one["cpu"]["architecture"]
        assert one["size_bytes"] < 0.5 * results["fp32"]["size_bytes"]
        assert {time["batch"] for time in one["latency"]} == {1, 32}
        session = onnxruntime.InferenceSession(job_dir.out_dir / one["file"])
        assert json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    static = results["int8-static"]
    assert static["verified"]
    assert static["details"]["calibration"] in ("min-max", "percentile", "entropy")
    assert np.isclose(static["metric"], results["fp32"]["metric"], atol=0.11)

    verdict = verify(job_dir.out_dir / "model-int8-static.onnx", threads=1)
    assert verdict.verified
    assert (verdict.limits.tolerance, verdict.limits.max_metric_drop) == (None, 0.01)

    report = (job_dir.out_dir / "report.md").read_text()
    assert "## Variants" in report
    assert manifest["recommendation"] in report
    with Image.open(job_dir.out_dir / "variants.png") as image:
        assert min(image.size) > 300
    messages = [event["data"]["message"] for event in events(job_dir, "warning")]
    assert any("the variant fp16 is unverified: the file cannot be made" in m for m in messages)
    result = events(job_dir, "result")[-1]["data"]
    assert result["verified"] is True
    assert result["recommendation"] == manifest["recommendation"]
    found = [VariantView.model_validate(one) for one in result["variants"]]
    assert [one.name for one in found] == list(results)
    assert found[3].metric == static["metric"]
    assert found[3].median_ms > 0
