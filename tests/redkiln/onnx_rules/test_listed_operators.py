"""The list that the service refuses uploads by."""

from redkiln.onnx_rules.operators import NEWEST_OPSET, OPERATORS
from worker.onnx_module import operators, registry
from worker.onnx_module.functions import FUNCTIONS


def test_the_list_of_supported_operators_is_the_registry():
    assert operators.arithmetic
    listed = [*registry.list_operators().items(), *FUNCTIONS.items()]
    oldest: dict[str, int] = {}
    for (domain, name), since in listed:
        if not domain:
            oldest[name] = min(since, oldest.get(name, since))
    assert oldest == OPERATORS
    assert registry.NEWEST_OPSET == NEWEST_OPSET
