"""Sends what `--model` and `--pretrained` name on this machine, and names it in the spec."""

from pathlib import Path

from redkiln.cli.arguments.specfile import SpecSource
from redkiln.cli.command import Session
from redkiln.cli.problems import UsageError
from redkiln.cli.script.code import send_code
from redkiln.spec.own_code import CODE, UPLOAD_PREFIX, WEIGHTS_SUFFIXES, split_class

_MODEL, _PRETRAINED = "--model", "--pretrained"


def send_model(
    session: Session, source: SpecSource, *, model: str | None, pretrained: str | None
) -> None:
    """Send the ONNX file or the code that a model is, and a file with weights.

    Raises:
        UsageError: A file does not exist, or is not in the folder that is sent.
    """
    own = None if model is None else split_class(model)
    if own is not None:
        _send_class(session, source, *own, pretrained=pretrained)
        return
    if model is not None and model.lower().endswith(".onnx"):
        sha256 = session.client.push_model(_find(model, _MODEL, "a name, FILE.py:CLASS or an ONNX"))
        source.put("model", {"source": "onnx", "file": sha256}, place=_MODEL)
    if pretrained is not None:
        value = _send_weights(session, pretrained) if _is_file(pretrained) else pretrained
        source.put("model.pretrained", value, place=_PRETRAINED)


def send_spec_code(session: Session, source: SpecSource, *, folder: Path) -> None:
    """Send the code of a spec whose model is an own class, unless it names a bundle already.

    Args:
        session: Session of the command.
        source: The spec.
        folder: Folder of the spec file, which is sent.
    """
    model = source.value.get("model")
    if isinstance(model, dict) and model.get("source") == CODE and "bundle" not in model:
        source.put("model.bundle", send_code(session, folder), place="source: code")


def _send_class(
    session: Session, source: SpecSource, file: str, name: str, *, pretrained: str | None
) -> None:
    path = _find(file, _MODEL, "a name, FILE.py:CLASS or an ONNX")
    folder = path.absolute().parent.resolve()
    fields = {"source": "code", "file": path.name, "class": name}
    if pretrained is not None and _is_file(pretrained):
        weights = _find(pretrained, _PRETRAINED, "a").resolve()
        if not weights.is_relative_to(folder):
            raise UsageError(
                f"{_PRETRAINED}: {weights} is not in {folder}, whose code is sent. Put it there."
            )
        pretrained = weights.relative_to(folder).as_posix()
    if pretrained is not None:
        fields["pretrained"] = pretrained
    source.put("model", {**fields, "bundle": send_code(session, folder)}, place=_MODEL)


def _send_weights(session: Session, name: str) -> str:
    return UPLOAD_PREFIX + session.client.push_model(_find(name, _PRETRAINED, "a"))


def _is_file(pretrained: str) -> bool:
    return pretrained.lower().endswith(WEIGHTS_SUFFIXES)


def _find(name: str, option: str, takes: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        raise UsageError(f"File not found: {path}. {option} takes {takes} file.")
    return path
