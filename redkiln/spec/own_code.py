"""A user's own network in a spec: the class to train, in code that is sent like a script's."""

import keyword
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Protocol

from redkiln.spec.job_spec import JobSpec

CODE = "code"
UPLOAD_PREFIX = "upload:"
"""Before the sha256 of an uploaded file with weights, in `model.pretrained`."""
WEIGHTS_SUFFIXES = (".pt", ".pth", ".safetensors", ".onnx")
GIVEN = ("num_classes", "channels", "image_size")
"""Arguments that a class receives from the data, if its constructor has them."""

_CLASS = re.compile(r"(?P<file>[^:]+\.py):(?P<cls>[A-Za-z_][A-Za-z0-9_]*)")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class CodeFields(Protocol):
    """Fields of a model that belong to own code."""

    @property
    def source(self) -> str:
        """Where the network comes from."""

    file: str | None
    class_: str | None
    bundle: str | None
    arguments: dict[str, Any]
    loss: str | None
    preprocess: str | None
    pretrained: str | None


def split_class(value: str) -> tuple[str, str] | None:
    """Return file and class of `net.py:AMDNet`; None for any other text."""
    match = _CLASS.fullmatch(value)
    return None if match is None else (match["file"], match["cls"])


def runs_own_code(spec: JobSpec) -> bool:
    """Return whether a training job runs code of its user."""
    return getattr(getattr(spec, "model", None), "source", None) == CODE


def names_own_code(spec: Mapping[str, Any]) -> bool:
    """Return whether a spec as JSON, as a job keeps it, trains code of its user."""
    model = spec.get("model")
    return isinstance(model, Mapping) and model.get("source") == CODE


def uploaded_weights(pretrained: object) -> str | None:
    """Return the sha256 of the uploaded file that `pretrained` names; None if it names none."""
    if isinstance(pretrained, str) and pretrained.startswith(UPLOAD_PREFIX):
        return pretrained.removeprefix(UPLOAD_PREFIX)
    return None


def check_upload(pretrained: str | None) -> str | None:
    """Return the value, after checking the digest in it if it names an uploaded file.

    Raises:
        ValueError: It is not a sha256.
    """
    sha256 = uploaded_weights(pretrained)
    if sha256 is not None and _SHA256.fullmatch(sha256) is None:
        raise ValueError(
            "upload: must be followed by the sha256 of an uploaded file; "
            "redkiln train DATA --pretrained FILE uploads one"
        )
    return pretrained


def check_code(model: CodeFields) -> None:
    """Check the fields of a user's own network.

    Raises:
        ValueError: A field is missing or malformed, or only applies to own code.
    """
    if model.source != CODE:
        if model.class_ or model.bundle or model.arguments or model.loss or model.preprocess:
            raise ValueError(
                "class, bundle, arguments, loss and preprocess only apply with source: code"
            )
        return
    if model.file is None or model.class_ is None:
        raise ValueError(
            "with source: code, set file to a Python file, and class to the nn.Module in it"
        )
    if model.bundle is None:
        raise ValueError(
            "with source: code, set bundle to the sha256 of the uploaded folder; "
            "redkiln train DATA --model net.py:Class uploads it"
        )
    _check_path(model.file, (".py",), "file")
    if model.pretrained is not None and not model.pretrained.startswith("job:"):
        _check_path(model.pretrained, WEIGHTS_SUFFIXES, "pretrained")
    for field, name in (
        ("class", model.class_),
        ("loss", model.loss),
        ("preprocess", model.preprocess),
    ):
        if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
            raise ValueError(f"{field}: {name!r} cannot be a name in Python")


def _check_path(value: str, suffixes: tuple[str, ...], field: str) -> None:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or path.suffix not in suffixes:
        raise ValueError(
            f"{field}: {value!r} must be a path in the sent folder that ends in "
            f"{' or '.join(suffixes)}"
        )
