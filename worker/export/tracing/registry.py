"""Keeps torch's tables of operators from one export to the next."""

import functools
import importlib


@functools.cache
def keep_registry() -> None:
    """Have torch build its tables of operators once in this process.

    `torch.onnx.export` builds that of ONNX operators on every call by parsing the source of some
    500 functions, which is 40 % of the export of a small network, and asks for each operator of C++
    once for each namespace. The tables have only operators that torch knows by then; torch defines
    those of int8-qat when they are first imported, so that comes before.
    """
    # Importing it takes over a second, which a process that exports nothing does not spend.
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    from torch._export import utils
    from torch.onnx._internal.exporter import _registration

    registry = _registration.ONNXRegistry
    build = registry.from_torchlib
    registry.from_torchlib = staticmethod(functools.cache(build))  # type: ignore[method-assign]
    utils._materialize_cpp_cia_ops = functools.cache(utils._materialize_cpp_cia_ops)
