import pytest
from onnxscript.rewriter import _matcher
from torch.onnx._internal.exporter import _fx_passes
from torch.onnx._internal.fx.passes import type_promotion

from worker.export.tracing import decomposition, promotion, rewriting, versions


@pytest.mark.parametrize("name", ["torch", "onnxscript"])
def test_the_exporter_of_an_untested_release_is_left_as_it_is(monkeypatch, name):
    assert versions.is_tested()
    monkeypatch.setitem(versions.TESTED, name, ("0.0.",))
    before = [
        _fx_passes.decompose_with_registry,
        type_promotion._TypePromotionInterpreter,
        _matcher.SimplePatternMatcher.match,
    ]
    decomposition.skip_second_trace.__wrapped__()
    promotion.use_recorded_types.__wrapped__()
    rewriting.try_fitting_rules.__wrapped__()
    assert before == [
        _fx_passes.decompose_with_registry,
        type_promotion._TypePromotionInterpreter,
        _matcher.SimplePatternMatcher.match,
    ]
