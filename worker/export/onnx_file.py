"""Writes a model as one ONNX file, and loads it.

For a network it uses the dynamo exporter explicitly, on the CPU, in evaluation mode, with every
axis that may vary dynamic.
"""

import gc
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import onnx
import onnx.version_converter
import onnxruntime
import torch

from redkiln.failure import FailureCode
from worker.export.exportable import Answers, Converted, Exportable
from worker.export.tracing.decomposition import skip_second_trace
from worker.export.tracing.promotion import use_recorded_types
from worker.export.tracing.registry import keep_registry
from worker.export.tracing.rewriting import try_fitting_rules
from worker.process.failed import TrainingFailed

OLDEST_EXPORTED = 18
"""Oldest operator set that the exporter writes; older ones are converted from it."""
OPSET_AS_IT_IS = 20
"""Operator set of graphs that another engine runs; the first with Gelu."""
MAX_FILE_BYTES = 2**31 - 1
"""Largest size of a protobuf file."""


def write_onnx(
    exportable: Exportable | Converted, path: Path, *, opset: int, metadata: dict[str, str]
) -> None:
    """Export to a single, checked file.

    Raises:
        TrainingFailed: the exporter fails, or the file is not as requested.
    """
    is_own_file = isinstance(exportable, Exportable) and exportable.write is not None
    if isinstance(exportable, Exportable):
        check_size(exportable.module)
    try:
        exported = max(opset, OLDEST_EXPORTED)
        if not isinstance(exportable, Exportable):
            exportable.write(path, exported)
        elif exportable.write is not None:
            exportable.write(exportable.module, path)
        else:
            _export(exportable, path, opset=exported)
        if isinstance(exportable, Exportable) and exportable.answers is not None:
            _keep_answers(path, exportable.answers, compared=exportable.output)
        if exported != opset and not is_own_file:
            convert_opset(path, opset)
    except Exception as error:
        message = f"the model cannot be exported to ONNX opset {opset}: {_first_line(error)}"
        raise TrainingFailed(FailureCode.EXPORT_REFUSED, message) from error
    model = onnx.load(path, load_external_data=False)
    kept = {entry.key: entry.value for entry in model.metadata_props}
    onnx.helper.set_model_props(model, kept | metadata)
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        message = f"the exported file is not valid ONNX: {_first_line(error)}"
        raise TrainingFailed(FailureCode.EXPORT_REFUSED, message) from error
    onnx.save_model(model, path)
    # A user's file keeps its own operator set.
    _check_contents(model, opset=_opset_of(model) if is_own_file else opset)


def convert_opset(path: Path, opset: int) -> None:
    """Rewrite a file for an older operator set than the exporter writes.

    Raises:
        Exception: An operator of the file has no older version; the text names it.
    """
    model = onnx.load(path)
    # The exporter's notes on shapes use operators' newer forms.
    del model.graph.value_info[:]
    converted = onnx.version_converter.convert_version(model, opset)
    for node in converted.graph.node:
        # The converter leaves this attribute, which older reductions do not have.
        for attribute in [a for a in node.attribute if a.name == "noop_with_empty_axes"]:
            node.attribute.remove(attribute)
    onnx.save_model(converted, path)


def check_size(module: torch.nn.Module) -> None:
    """Refuse a model that does not fit into one file.

    Raises:
        TrainingFailed: the weights alone are larger than protobuf's limit.
    """
    size_bytes = sum(t.numel() * t.element_size() for t in module.state_dict().values())
    if size_bytes >= MAX_FILE_BYTES:
        message = (
            f"the model's weights take {size_bytes / 1e9:.1f} GB, but a single ONNX file holds at "
            "most 2.1 GB; use a smaller model or image_size"
        )
        raise TrainingFailed(FailureCode.EXPORT_REFUSED, message)


def open_session(
    path: Path, *, threads: int, compared: str | None = None
) -> onnxruntime.InferenceSession:
    """Load a file with ONNX Runtime on the CPU.

    Args:
        path: The file.
        threads: Threads of an operator.
        compared: Name of a value inside the graph that becomes the only output; None for the file's
            own outputs.

    Raises:
        TrainingFailed: ONNX Runtime cannot load the file.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Make its threads sleep while waiting, like torch's (worker.process.threads).
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    given = path if compared is None else _expose(path, compared)
    try:
        return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        message = f"ONNX Runtime cannot load the exported file: {_first_line(error)}"
        raise TrainingFailed(FailureCode.EXPORT_REFUSED, message) from error


def describe_file(path: Path) -> dict[str, Any]:
    """Return the versions, inputs and outputs of a file, as JSON."""
    model = onnx.load(path, load_external_data=False)
    return {
        "opset": _opset_of(model),
        "ir_version": model.ir_version,
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "inputs": [_describe_value(value) for value in model.graph.input],
        "outputs": [_describe_value(value) for value in model.graph.output],
        "num_nodes": len(model.graph.node),
    }


def export_as_it_is(exportable: Exportable, path: Path) -> None:
    """Write a module's graph without optimising it, so that no weight is merged or renamed.

    Raises:
        Exception: torch's exporter refuses the module.
    """
    _export(exportable, path, opset=OPSET_AS_IT_IS, is_optimized=False)


def _export(exportable: Exportable, path: Path, *, opset: int, is_optimized: bool = True) -> None:
    keep_registry()
    skip_second_trace()
    use_recorded_types()
    try_fitting_rules()
    # The exporter prints its progress; only its warnings belong in the log.
    logging.getLogger("onnxscript").setLevel(logging.WARNING)
    # It warns about each torchvision operator that it cannot register; no model here uses one.
    registry = logging.getLogger("torch.onnx._internal.exporter._registration")
    registry.setLevel(logging.ERROR)
    answers = exportable.answers
    with _collector_off(), redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            exportable.module,
            tuple(exportable.examples.values()),
            path,
            dynamo=True,
            opset_version=opset,
            input_names=list(exportable.examples),
            output_names=_name_outputs(exportable),
            dynamic_shapes=_dynamic_shapes(exportable),
            external_data=False,
            verbose=False,
            optimize=is_optimized,
            custom_translation_table=None if answers is None else answers.translate(),
        )


@contextmanager
def _collector_off() -> Iterator[None]:
    """Keep the garbage collector away from an export, whose objects stay until its end.

    A process's first export, with all that it imports, takes 2.1 s of CPU time instead of 2.7 s
    (a small network, November 2026).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _name_outputs(exportable: Exportable) -> list[str]:
    answers = exportable.answers
    return [exportable.output, *(() if answers is None else answers.names)]


def _keep_answers(path: Path, answers: Answers, *, compared: str) -> None:
    """Remove the compared output from a file that does not have it, and give inputs defaults."""
    model = onnx.load(path)
    names = {*answers.names, *((compared,) if answers.is_compared_kept else ())}
    kept = [value for value in model.graph.output if value.name in names]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    # An initialiser of the same name makes an input optional.
    for name, value in answers.defaults.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    onnx.save_model(model, path)


def _expose(path: Path, name: str) -> bytes:
    """Return a file's graph with another value as its only output."""
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.append(onnx.ValueInfoProto(name=name))
    content: bytes = model.SerializeToString()
    return content


def _dynamic_shapes(exportable: Exportable) -> tuple[dict[int, Any], ...]:
    axes = exportable.axes()
    names = {name for varying in axes.values() for name in varying.values()}
    dims = {name: torch.export.Dim(name, min=1) for name in sorted(names)}
    return tuple({axis: dims[name] for axis, name in axes[i].items()} for i in axes)


def _check_contents(model: onnx.ModelProto, *, opset: int) -> None:
    external = [
        t.name for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL
    ]
    if external:
        message = "the exported file stores weights outside of itself, which is not supported"
        raise TrainingFailed(FailureCode.EXPORT_REFUSED, message, tensors=external[:10])
    written = _opset_of(model)
    if written != opset:
        message = f"the exporter wrote opset {written} instead of {opset}; set another export.opset"
        raise TrainingFailed(FailureCode.EXPORT_REFUSED, message)


def _opset_of(model: onnx.ModelProto) -> int:
    return next(int(entry.version) for entry in model.opset_import if entry.domain == "")


def _describe_value(value: onnx.ValueInfoProto) -> dict[str, Any]:
    tensor = value.type.tensor_type
    kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    shape = [d.dim_param or d.dim_value for d in tensor.shape.dim]
    return {"name": value.name, "type": kind, "shape": shape}


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300] if text else ''}"
