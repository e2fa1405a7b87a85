"""Checks that the ONNX files left by a script run and produce the expected numbers.

Each file is checked by ONNX's checker, loaded by ONNX Runtime, and run on inputs of its declared
shapes. If the script left `samples.npz` (or `<model>.npz`) in the same folder, with an array for
each input and output by name, the outputs are compared with those.

It runs in a separate process (`python -m worker.script.results.onnx_check FILE ...`), because a
file from an unknown source may crash the process that opens it. The verdict on each file is one
line of JSON.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.script.results.model_check import ModelCheck
from worker.script.results.samples import (
    NAME,
    Arrays,
    MismatchError,
    SamplesError,
    describe_error,
    load_samples,
    measure_difference,
)

TOLERANCE = 1e-3
"""Largest difference relative to the largest expected value; the export of trained models has the
same default (`redkiln.spec.job_spec.Export`)."""
FREE_SIZE = 2
"""Size used for a dimension that the file leaves open."""
MAX_ELEMENTS = 2**28
REALS = {"float16": "float16", "float": "float32", "double": "float64"}
WHOLES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


def check_file(path: Path) -> ModelCheck:
    """Check one file; the verdict contains whatever is wrong with it."""
    import onnx
    import onnxruntime

    try:
        onnx.checker.check_model(str(path), full_check=False)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  # any error means that the file is invalid
        return ModelCheck(verified=False, words=f"it cannot be loaded: {describe_error(error)}")
    inputs = {item.name: list(item.shape) for item in session.get_inputs()}
    try:
        samples = load_samples(path)
        feed = {item.name: _find_input(item, samples) for item in session.get_inputs()}
    except SamplesError as error:
        return ModelCheck(verified=False, words=f"not compared: {error}", inputs=inputs)
    except KeyError as error:
        words = f"its samples have no array for the input {error}"
        return ModelCheck(verified=False, words=words, inputs=inputs)
    except ValueError as error:
        return ModelCheck(verified=None, words=f"not run: {error}", inputs=inputs)
    names = [item.name for item in session.get_outputs()]
    try:
        outputs = dict(zip(names, session.run(names, feed), strict=True))
    except Exception as error:  # noqa: BLE001  # as above
        where = "" if samples is None else " on its samples"
        words = f"it does not run{where}: {describe_error(error)}"
        return ModelCheck(verified=False, words=words, inputs=inputs)
    if samples is None:
        return ModelCheck(verified=None, words="it runs; parity not checked", inputs=inputs)
    return compare(outputs, samples, inputs=inputs)


def make_input(shape: Sequence[int | str | None], kind: str) -> NDArray[Any]:
    """Make numbers of a declared shape and type.

    Raises:
        ValueError: No numbers can be made of this type, or the shape is too large.
    """
    sizes = [size if isinstance(size, int) and size > 0 else FREE_SIZE for size in shape]
    if np.prod(sizes, dtype=np.float64) > MAX_ELEMENTS:
        raise ValueError(f"an input of shape {sizes} is too large to generate")
    name = kind.removeprefix("tensor(").removesuffix(")")
    if name in REALS:
        return np.random.default_rng(0).random(sizes).astype(REALS[name])
    if name in WHOLES:
        return np.ones(sizes, dtype=name)
    raise ValueError(f"cannot generate an input of type {kind}; provide {NAME} next to the file")


def compare(outputs: Mapping[str, Any], expected: Arrays, *, inputs: dict[str, Any]) -> ModelCheck:
    """Compare outputs with the expected ones; sequences and maps cannot be compared."""
    named = [name for name in outputs if name in expected]
    tensors = [name for name in named if isinstance(outputs[name], np.ndarray)]
    passed_over = [f"{name} is not a tensor" for name in named if name not in tensors]
    if not tensors:
        why = ", ".join(passed_over) or f"its samples contain none of its outputs {list(outputs)}"
        words = f"it runs; parity not checked: {why}"
        return ModelCheck(verified=None, words=words, inputs=inputs)
    worst = 0.0
    for name in tensors:
        try:
            worst = max(worst, measure_difference(outputs[name], expected[name]))
        except MismatchError as error:
            return ModelCheck(verified=False, words=f"output {name} {error}", inputs=inputs)
    if worst > TOLERANCE:
        words = f"its outputs differ from its samples by {worst:.1e} of the largest value: too much"
        return ModelCheck(verified=False, words=words, difference=worst, inputs=inputs)
    words = f"its outputs differ from its samples by at most {worst:.1e} of the largest value"
    if passed_over:
        words = f"{words}; not compared: {', '.join(passed_over)}"
        return ModelCheck(verified=None, words=words, difference=worst, inputs=inputs)
    return ModelCheck(verified=True, words=words, difference=worst, inputs=inputs)


def _find_input(item: Any, samples: Arrays | None) -> NDArray[Any]:
    if not item.type.startswith("tensor("):
        raise ValueError(f"its input {item.name} has type {item.type}, which a sample cannot have")
    return make_input(item.shape, item.type) if samples is None else samples[item.name]


def main(paths: list[str]) -> None:
    """Print a verdict for each file, in order."""
    for path in paths:
        sys.stdout.write(check_file(Path(path)).model_dump_json() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
