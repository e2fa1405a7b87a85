"""The list that the service refuses uploads by."""

from redkiln.onnx_operators import NEWEST_OPSET, OPERATORS
from worker.onnx_module import operators, registry
from worker.onnx_module.functions import FUNCTIONS


def test_the_list_of_supported_operators_is_the_registry():
    assert operators.arithmetic
    known = {name for domain, name in [*registry.list_operators(), *FUNCTIONS] if not domain}
    assert known == OPERATORS
    assert registry.NEWEST_OPSET == NEWEST_OPSET
