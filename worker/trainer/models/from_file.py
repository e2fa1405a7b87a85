"""Weights of an uploaded file: a `state_dict` of torch, safetensors, or the initialisers of ONNX.

Nothing in the file is run: `torch.load` reads it with `weights_only`.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import onnx
import safetensors
import safetensors.torch
import torch
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import numpy_helper
from torch import nn

from redkiln.failure import FailureCode
from redkiln.nearest import find_nearest
from worker.process.failed import TrainingFailed
from worker.trainer.models.hub import POINTER

NESTED = ("state_dict", "model_state_dict", "model")
"""Keys under which training scripts keep a `state_dict` among other things."""
MOST_NAMED = 10
COUNTER = "num_batches_tracked"
"""A batch norm's counter, which ONNX files and old checkpoints lack; it stays 0."""
STRICT = "/model/strict"
EXPORTED = "network."
"""Prefix of the network's own weights in an ONNX file of Redkiln; all others are constants."""
VERSION = "redkiln_version"
"""Metadata that each ONNX file of Redkiln has."""
MERGED = "weight_bias"
"""End of the names that the exporter gives to the biases of convolutions with a batch norm."""


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read the tensors of a file, whatever its format, by their names.

    Raises:
        TrainingFailed: The file cannot be read, or holds no tensors.
    """
    with path.open("rb") as file:
        start = file.read(9)
    if start[:2] == b"PK" or start[:1] == b"\x80":
        found = _read_torch(path)
    elif start[8:] == b"{":
        found = _read_safetensors(path)
    else:
        found = _read_onnx(path)
    if not found:
        raise _refuse("the file of pretrained weights contains no tensors")
    return found


def take_file(
    network: nn.Module,
    theirs: Mapping[str, torch.Tensor],
    *,
    head: nn.Module | None,
    strict: bool,
) -> list[str]:
    """Load a file's weights into a network; a head of another shape keeps its own.

    A prefix that all names share, such as `module.`, is ignored if the rest are the network's.

    Returns:
        Lines about what was not loaded, for the job's messages.

    Raises:
        TrainingFailed: Names or shapes differ, and `strict` is set; or nothing fits.
    """
    own = network.state_dict()
    theirs = _without_prefix(theirs, own)
    fitting = {name for name, value in own.items() if _fits(value, theirs.get(name))}
    in_head = set() if head is None else _names_in(head, network)
    missing = [name for name in own if name not in theirs and not name.endswith(COUNTER)]
    unexpected = [name for name in theirs if name not in own]
    misshapen = [name for name in own if name in theirs and name not in fitting]
    wrong = missing or unexpected or any(name not in in_head for name in misshapen)
    lines = [
        *_list_names("missing from the file", missing, near=unexpected),
        *_list_names("not in the network", unexpected, near=missing),
        *_list_shapes(misshapen, own, theirs),
        *_explain_merged(unexpected),
    ]
    if not fitting:
        raise _refuse(f"no weight of the file fits the network; {'; '.join(lines)}")
    if strict and wrong:
        message = f"{'; '.join(lines)}. To use only the weights that fit, set model.strict to false"
        raise _refuse(message, STRICT)
    network.load_state_dict({**own, **{name: theirs[name] for name in fitting}})
    return lines


def start_from_file(
    network: nn.Module,
    path: Path,
    *,
    head: nn.Module | None,
    strict: bool,
    name: str,
    say: Callable[[str], None],
) -> None:
    """Load an uploaded file into a network, and say where training starts from.

    Raises:
        TrainingFailed: See `read_weights` and `take_file`.
    """
    lines = take_file(network, read_weights(path), head=head, strict=strict)
    say(f"training starts from {name}")
    for line in lines:
        say(line)


def _read_torch(path: Path) -> dict[str, torch.Tensor]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        message = (
            "the file of pretrained weights is not a plain state_dict "
            f"({str(error).splitlines()[0][:300]}); save it with "
            "torch.save(model.state_dict(), 'file.pt')"
        )
        raise _refuse(message) from error
    for key in NESTED:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise _refuse(f"the file of pretrained weights contains a {kind}, not a state_dict")
    return {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}


def _read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise _refuse(f"the file of pretrained weights cannot be read: {error}") from error


def _read_onnx(path: Path) -> dict[str, torch.Tensor]:
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except DecodeError as error:
        message = "the file of pretrained weights is neither torch's, safetensors nor ONNX"
        raise _refuse(message) from error
    inside = [one for one in model.graph.initializer if not one.external_data]
    if VERSION in {entry.key for entry in model.metadata_props}:
        inside = [one for one in inside if one.name.startswith(EXPORTED)]
    return {one.name: torch.from_numpy(numpy_helper.to_array(one).copy()) for one in inside}


def _without_prefix(
    theirs: Mapping[str, torch.Tensor], own: Collection[str]
) -> Mapping[str, torch.Tensor]:
    """Return the weights without the prefix that hides the most names of the network."""
    prefixes = {name[: -len(ours)] for name in theirs for ours in own if name.endswith(f".{ours}")}
    counts = {
        prefix: sum(f"{prefix}{name}" in theirs for name in own) for prefix in {"", *prefixes}
    }
    best = max(sorted(counts), key=lambda prefix: counts[prefix])
    if not best:
        return theirs
    return {name.removeprefix(best): value for name, value in theirs.items()}


def _fits(own: torch.Tensor, theirs: torch.Tensor | None) -> bool:
    return theirs is not None and own.shape == theirs.shape


def _names_in(part: nn.Module, network: nn.Module) -> set[str]:
    tensors = {id(tensor) for tensor in part.state_dict(keep_vars=True).values()}
    return {k for k, v in network.state_dict(keep_vars=True).items() if id(v) in tensors}


def _list_names(what: str, names: list[str], *, near: list[str]) -> list[str]:
    if not names:
        return []
    listed = [f"{name}{_near(name, near)}" for name in names[:MOST_NAMED]]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return [f"{what}: {', '.join(listed)}{more}"]


def _near(name: str, known: list[str]) -> str:
    hint = find_nearest(name, known)
    return f" ({hint.strip('; ?')})" if hint else ""


def _list_shapes(
    names: list[str], own: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]
) -> list[str]:
    if not names:
        return []
    listed = [
        f"{name} {tuple(theirs[name].shape)} in the file, {tuple(own[name].shape)} in the network"
        for name in names[:MOST_NAMED]
    ]
    weights = "1 weight has" if len(names) == 1 else f"{len(names)} weights have"
    return [f"{weights} another shape: {', '.join(listed)}"]


def _explain_merged(unexpected: list[str]) -> list[str]:
    text = (
        "the file's batch norms are merged into its convolutions, so it is not exactly the trained "
        "network; checkpoint.safetensors of the same job has all weights"
    )
    return [text] if any(name.endswith(MERGED) for name in unexpected) else []


def _refuse(message: str, pointer: str = POINTER) -> TrainingFailed:
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)
