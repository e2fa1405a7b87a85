"""Opens an ONNX file with ONNX Runtime."""

import json
import os
from pathlib import Path
from typing import Any

from redkiln.errors import ModelError

CPU = "CPUExecutionProvider"
LIBRARY, LIBRARY_MODULE = "onnxruntime-extensions", "onnxruntime_extensions"
"""Library whose operators a file with a tokenizer inside needs."""
OPERATORS = "ai.onnx.contrib"
"""Domain of these operators."""
PHOTOS = "photos"
"""Input of a file that prepares photos itself, (B, H, W, C) uint8 of any size."""


def open_session(
    path: Path | bytes, *, threads: int = 0, is_optimized: bool = True, provider: str = CPU
) -> Any:
    """Load a file with ONNX Runtime; return its `InferenceSession`.

    Args:
        path: The ONNX file, or its content.
        threads: Threads of an operator; 0 for one on each core.
        is_optimized: Whether ONNX Runtime may rewrite the graph for this CPU.
        provider: Execution provider to prefer; see `find_provider`.

    Raises:
        ModelError: The file is missing, incomplete, or not an ONNX file, or the provider does not
            run here.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before the import
    import onnxruntime

    if isinstance(path, Path) and not path.is_file():
        raise ModelError(f"File {path} does not exist.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Its threads sleep while waiting, so that they do not take the cores from decoding.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        providers = list(dict.fromkeys([provider, CPU]))
        session = _load(path, options, providers)
    except ModelError:
        raise
    except Exception as error:
        name = path if isinstance(path, Path) else "the graph"
        text = str(error).strip().partition("\n")[0][:300]
        raise ModelError(
            f"ONNX Runtime cannot load {name}: {text}. If the file was copied or downloaded "
            "incompletely, download it again."
        ) from error
    if provider not in session.get_providers():  # it only warns, and uses the CPU
        raise ModelError(
            f"{provider} does not run on this machine: ONNX Runtime could not load its libraries."
        )
    return session


def _load(path: Path | bytes, options: Any, providers: list[str]) -> Any:
    """Load a file; only one that needs further operators gets them."""
    from onnxruntime import InferenceSession

    try:
        return InferenceSession(path, options, providers=providers)
    except Exception as error:
        if OPERATORS not in str(error):
            raise
    try:
        from onnxruntime_extensions import get_library_path
    except ModuleNotFoundError as error:
        name = path if isinstance(path, Path) else "the graph"
        raise ModelError(
            f"{name} has its tokenizer inside and needs the Python library {LIBRARY}. Install it "
            f"(pip install {LIBRARY}), or use model.onnx with tokenizer.json."
        ) from error
    options.register_custom_ops_library(get_library_path())
    return InferenceSession(path, options, providers=providers)


def find_provider(named: str) -> str:
    """Return the execution provider that a name such as `cuda` stands for.

    Raises:
        ModelError: The installed ONNX Runtime does not have it.
    """
    import onnxruntime

    known = onnxruntime.get_available_providers()
    ending = "ExecutionProvider"
    for name in known:
        if named.lower() in (name.lower(), name.removesuffix(ending).lower()):
            return str(name)
    listed = ", ".join(name.removesuffix(ending) for name in known)
    raise ModelError(
        f"This ONNX Runtime has no provider {named!r}. It has: {listed}. Another package of ONNX "
        "Runtime, such as onnxruntime-gpu or onnxruntime-migraphx, brings others."
    )


def name_input(session: Any, feed: dict[str, Any]) -> dict[str, Any]:
    """Return a model's inputs by the names in its file, which a user's own file chooses freely.

    They also get the file's types, float16 or uint8 photos, and a table becomes its columns if the
    file reads those.
    """
    known = session.get_inputs()
    if not feed.keys() & {value.name for value in known}:
        facts = json.loads(session.get_modelmeta().custom_metadata_map.get("preprocessing", "{}"))
        if "columns" in facts:
            from redkiln.predict.columns import split_columns

            return split_columns(feed, facts)
    if len(known) == 1 and len(feed) == 1:
        feed = {known[0].name: next(iter(feed.values()))}
    types = {value.name: value.type for value in known}
    return {name: _cast(array, types.get(name)) for name, array in feed.items()}


def _cast(array: Any, wanted: str | None) -> Any:
    """Return an array as a file wants it; (B, C, S, S) in [0, 1] becomes (B, S, S, C) uint8."""
    if array.dtype != "float32":
        return array
    if wanted == "tensor(uint8)":
        return (255 * array).round().astype("uint8").transpose(0, 2, 3, 1)
    return array.astype("float16") if wanted == "tensor(float16)" else array


def run_session(session: Any, feed: dict[str, Any], output: str | None = None) -> Any:
    """Run a model and return one output, in float32 also if the file has float16.

    Args:
        session: Session of the file.
        feed: Inputs by name; see `name_input`.
        output: Name of the output; None for the first one.
    """
    names = None if output is None else [output]
    outputs = session.run(names, name_input(session, feed))[0]
    return outputs.astype("float32") if outputs.dtype == "float16" else outputs
