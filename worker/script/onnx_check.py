"""Looks whether the ONNX files that a script leaves run, and give the numbers that it says.

Each is checked by ONNX's own checker, loaded by ONNX Runtime, and run on inputs of the shapes that
it declares. Where the script left `samples.npz` beside it (or `<model>.npz`), with an array for
each input and each output by its name, its outputs are compared with those.

It runs in a process of its own (`python -m worker.script.onnx_check FILE ...`), because a file
from anywhere may end the one that opens it; each file's verdict is a line of JSON.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.script.verdict import Verdict

Arrays = Mapping[str, NDArray[Any]]

TOLERANCE = 1e-3
"""Largest difference relative to the largest expected value, as the export of trained models has
it by default (`redkiln.spec.Export`)."""
FREE_SIZE = 2
"""Of a dimension that the file leaves open."""
MAX_ELEMENTS = 2**28
SAMPLES = "samples.npz"


def check_file(path: Path) -> Verdict:
    """Check one file; whatever is wrong with it is in the verdict."""
    import onnx
    import onnxruntime

    try:
        onnx.checker.check_model(str(path), full_check=False)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  of whatever kind: it is no file that runs
        return Verdict(verified=False, words=f"it cannot be loaded: {_first_line(error)}")
    inputs = {item.name: list(item.shape) for item in session.get_inputs()}
    try:
        samples = find_samples(path)
        given = samples or {
            item.name: make_input(item.shape, item.type) for item in session.get_inputs()
        }
        feed = {name: np.asarray(given[name]) for name in inputs}
    except KeyError as error:
        words = f"its samples have no array for its input {error}"
        return Verdict(verified=False, words=words, inputs=inputs)
    except ValueError as error:
        return Verdict(verified=None, words=f"not run: {error}", inputs=inputs)
    names = [item.name for item in session.get_outputs()]
    try:
        outputs = dict(zip(names, session.run(names, feed), strict=True))
    except Exception as error:  # noqa: BLE001  as above
        return Verdict(
            verified=False, words=f"it does not run: {_first_line(error)}", inputs=inputs
        )
    if samples is None or not any(name in samples for name in names):
        return Verdict(verified=None, words="it runs; parity not checked", inputs=inputs)
    return compare(outputs, samples, inputs=inputs)


def find_samples(path: Path) -> Arrays | None:
    """The arrays that were left beside a file.

    Raises:
        ValueError: they cannot be read.
    """
    for candidate in (path.with_suffix(".npz"), path.parent / SAMPLES):
        if candidate.is_file():
            with np.load(candidate, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
    return None


def make_input(shape: Sequence[int | str | None], kind: str) -> NDArray[Any]:
    """Numbers of the shape and type that a file declares.

    Raises:
        ValueError: the type is none that numbers can be made of, or it is too large.
    """
    sizes = [size if isinstance(size, int) and size > 0 else FREE_SIZE for size in shape]
    if np.prod(sizes, dtype=np.float64) > MAX_ELEMENTS:
        raise ValueError(f"an input of shape {sizes} is too large to try")
    name = kind.removeprefix("tensor(").removesuffix(")")
    dtype = {"float": "float32", "double": "float64"}.get(name, name)
    generator = np.random.default_rng(0)
    if dtype in ("float16", "float32", "float64"):
        return generator.random(sizes).astype(dtype)
    if dtype == "bool":
        return np.ones(sizes, dtype=bool)
    if dtype.startswith(("int", "uint")):
        return np.ones(sizes, dtype=dtype)
    raise ValueError(f"no input of type {kind} can be made up; leave {SAMPLES} beside it")


def compare(outputs: Arrays, expected: Arrays, *, inputs: dict[str, Any]) -> Verdict:
    """Outputs beside those that were expected."""
    worst = 0.0
    for name in (name for name in outputs if name in expected):
        found, wanted = np.asarray(outputs[name]), np.asarray(expected[name])
        if found.shape != wanted.shape:
            words = f"output {name} has shape {found.shape}, expected {wanted.shape}"
            return Verdict(verified=False, words=words, inputs=inputs)
        if not np.isfinite(found.astype(np.float64)).all():
            words = f"output {name} is not finite"
            return Verdict(verified=False, words=words, inputs=inputs)
        scale = float(np.abs(wanted).max(initial=0.0)) or 1.0
        distance = np.abs(found.astype(np.float64) - wanted.astype(np.float64)).max(initial=0.0)
        worst = max(worst, float(distance) / scale)
    is_close = worst <= TOLERANCE
    words = f"outputs differ by {worst:.1e} of the largest" + ("" if is_close else ": too much")
    return Verdict(verified=is_close, words=words, difference=worst, inputs=inputs)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]


def main(paths: list[str]) -> None:
    """Print a verdict for each file, in order."""
    for path in paths:
        sys.stdout.write(check_file(Path(path)).model_dump_json() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
