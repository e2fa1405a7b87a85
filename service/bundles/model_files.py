"""Checks uploaded ONNX files and files with weights in a process with limits."""

from service.bundles.checking import run_check
from service.errors import Unprocessable
from service.storage import Storage

_DIED = "the file could not be read within the limits of a check (4 GB of memory, 60 s of CPU time)"


def check_model_file(storage: Storage, sha256: str) -> None:
    """Check a stored file.

    Raises:
        Unprocessable: It is neither an ONNX file that can be trained, nor a file with weights.
    """
    with storage.local_copy(sha256) as path:
        problem = run_check("service.bundles.onnx_check", [str(path.absolute())])
    if problem is None:
        problem = _DIED
    if problem:
        raise Unprocessable(problem, code="unsupported_onnx")
