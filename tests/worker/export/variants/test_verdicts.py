import numpy as np
import pytest
from matplotlib import pyplot as plt

from tests.redkiln.predict.models import save_colours
from worker.export.variants.advice import recommend, render_variants
from worker.export.variants.judge import list_misses
from worker.export.variants.latency import time_variants
from worker.export.variants.picture import draw_variants
from worker.export.variants.result import Latency, VariantResult

CPU = {"architecture": "x86_64", "model": "a CPU", "features": ["avx2"]}


def variant(name, *, drop=0.0, written=0.0, size=100, time=1.0, verified=True, **more):
    file = "model.onnx" if name == "fp32" else f"model-{name}.onnx"
    facts = {
        "file": file, "verified": verified, "metric_name": "accuracy", "metric": 0.9 - drop,
        "interval": (0.88, 0.92), "drop": drop, "drop_as_written": written, "max_metric_drop": 0.01,
        "max_abs": 0.1, "size_bytes": size, "cpu": CPU,
        "latency": [Latency(batch=32, threads=2, median_ms=time, p95_ms=2 * time)],
    }  # fmt: skip
    return VariantResult(name=name, **{**facts, **more})


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"drop": 0.01}, None),
        ({"drop": -0.02}, None),
        ({"drop": 0.05, "written": 0.05}, "it is worse, more than the allowed 0.0100"),
        ({"drop": 0.05}, "optimised graph does not on this CPU (avx2)"),
        ({"written": 0.05}, "the file gives wrong results on other CPUs"),
        ({"drop": float("nan"), "written": 0.1}, "it is worse"),
        ({"max_abs": float("inf")}, "not finite"),
    ],
)
def test_a_missed_gate_says_whether_file_or_cpu_is_to_blame(found, words):
    misses = list_misses(variant("int8-static", **found), words="it is worse")
    assert bool(misses) == bool(words)
    assert not words or words in misses[0]


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([], "Use model.onnx."),
        (
            [variant("int8-static", time=0.5, size=27, drop=0.004)],
            "it is 2.0 times as fast as model.onnx (batch 32) and 0.27 of its size, with 0.4",
        ),
        (
            [variant("fp16", time=0.5, size=50), variant("int8-dynamic", time=3, size=25)],
            "Where size matters most, model-int8-dynamic.onnx is 0.25 of its size.",
        ),
        (
            [variant("int8-dynamic", time=4, size=26), variant("int8-static", time=1.6, size=27)],
            "Where size matters, model-int8-static.onnx is 0.27 of its size at 0.62 of its speed",
        ),
        ([variant("int8-static", time=0.2, verified=False)], "No other variant is verified."),
        ([variant("fp16", size=95)], "neither clearly faster nor much smaller"),
    ],
)
def test_a_recommendation_names_a_file_and_the_reason(others, words):
    assert words in recommend([variant("fp32"), *others], threads=2)


def test_the_report_shows_numbers_misses_and_layers():
    results = [
        variant("fp32"),
        variant(
            "int8-static", verified=False, misses=["too bad"], details={"float32_layers": ["a"]}
        ),
        VariantResult(name="fp16", max_metric_drop=0.1, misses=["the file cannot be made: why"]),
    ]
    text = render_variants(results, advice="Use it.", picture="variants.png")
    assert "| model.onnx | verified | 0.9000 (0.8800 to 0.9200) | 0.00 MB, 1.00 | 1 (2) |" in text
    assert "| model-int8-static.onnx | **unverified** |" in text
    assert "- model-int8-static.onnx: too bad" in text
    assert "stay in float32, because they lose most: a" in text
    assert "| fp16 | not written | | | |" in text
    assert "- fp16: the file cannot be made: why" in text
    assert "measured alternately on a CPU (avx2)" in text


def test_the_picture_names_close_variants_side_by_side(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plt, "close", drawn.append)
    times = [Latency(batch=1, threads=1, median_ms=1.0, p95_ms=2.0)]
    results = [
        variant("fp32", latency=times),
        variant("fp16", verified=False, latency=times),
    ]
    draw_variants(results, tmp_path / "variants.png", threads=1)
    (axis,) = drawn[0].axes
    named = [text.get_text() for text in axis.get_legend().get_texts()]
    assert [name.split(", ")[0] for name in named] == ["fp32", "fp16"]
    assert [name.endswith("unverified") for name in named] == [False, True]
    assert [line.get_markerfacecolor() == "none" for line in axis.lines] == [False, True]
    assert axis.get_xlabel().endswith("1 thread (ms)")


def test_variants_are_timed_in_each_setting(tmp_path):
    paths = {"fp32": save_colours(tmp_path / "a"), "other": save_colours(tmp_path / "b")}
    samples = {batch: {"images": np.zeros((batch, 3, 4, 4), np.float32)} for batch in (1, 32)}
    found = time_variants(paths, samples, threads=2)
    assert set(found) == {"fp32", "other"}
    settings = [(one.batch, one.threads) for one in found["other"]]
    assert settings == [(1, 1), (32, 1), (1, 2), (32, 2)]
    assert all(0 < one.median_ms <= one.p95_ms for one in found["fp32"])
