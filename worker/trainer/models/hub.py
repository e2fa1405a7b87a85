"""Finds the files of a pretrained model on this host, given its name.

A name is `org/name`, possibly with `@revision`, or that of a folder. The worker's models folder is
searched first. A model that is not there is downloaded from the hub into the worker's cache, where
later jobs find it without a network. Only configurations, tokenisers and safetensors are used,
neither pickles nor code. Only the trainer does this; an export is built from what the trainer
stored.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)
POINTER = "/model/pretrained"
PINNED_POINTER = "/model/initial_weights"

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,99}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Reference:
    """A model on the hub.

    Attributes:
        repository: `org/name`, or just a name for the hub's oldest models.
        revision: Branch, tag or commit. None: the newest.
    """

    repository: str
    revision: str | None


@dataclass(frozen=True)
class PretrainedFiles:
    """A pretrained model on this host.

    Attributes:
        folder: Contains `config.json`, the weights and, if there is one, the tokeniser.
        weights: Its safetensors files, which together form the model.
        revision: Commit that was downloaded; None for a folder that a user provided.
    """

    folder: Path
    weights: tuple[Path, ...]
    revision: str | None = None


def hash_files(paths: Iterable[Path]) -> str:
    """Return one digest of all these files."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def parse_reference(name: str) -> Reference:
    """Parse `org/name` or `org/name@revision`.

    Raises:
        TrainingFailed: the name has neither form.
    """
    repository, at, revision = name.partition("@")
    is_whole = _HUB_NAME.fullmatch(repository) and (not at or _REVISION.fullmatch(revision))
    if not is_whole or ".." in name:
        message = (
            f"{name!r} is not a pretrained model; use org/name, org/name@revision, or the name of "
            "a folder in the worker's models folder"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=POINTER)
    return Reference(repository, revision or None)


def fetch_pretrained(
    name: str,
    *,
    models_dir: Path,
    cache_dir: Path,
    say: Callable[[str], None],
    also: Sequence[str] = (),
    pinned: str | None = None,
) -> PretrainedFiles:
    """Return the files of a pretrained model: from the models folder, the cache, or the hub.

    Args:
        name: Name in the spec: `org/name`, `org/name@revision`, or a folder below `models_dir`.
        models_dir: Folder of the user's models; nothing outside it can be read by name.
        cache_dir: The worker's cache, which downloads go into.
        say: Called with a message before the network is used.
        also: Patterns of further files to download (`TOKENIZER`).
        pinned: `initial_weights` from the spec; a hub commit there overrides the name's revision.
            `check_pinned` verifies that the files match it.

    Raises:
        TrainingFailed: there is no such model, it has no safetensors, or the hub is unreachable;
            the message says which files to put where.
    """
    is_commit = pinned is not None and _is_commit(pinned)
    folder = _find_folder(name, models_dir)
    if folder is not None:
        if is_commit:
            say(f"{name} is read from {folder}; whether it is commit {pinned} cannot be checked")
        return _check(folder, name, revision=None)
    reference = parse_reference(name)
    if is_commit:
        reference = replace(reference, revision=pinned)
    wanted = [CONFIG, *WEIGHTS, *also]
    own_cache, shared_cache = cache_dir / "hub", _shared_cache()
    folder = _find_cached(reference, wanted, own_cache)
    folder = folder or _find_cached(reference, wanted, shared_cache)
    if folder is None:
        say(f"downloading {name} from the hub")
        hub_cache = shared_cache if os.access(shared_cache.parent, os.W_OK) else own_cache
        folder = _download(reference, wanted, hub_cache, target=models_dir.resolve() / name)
    return _check(folder, name, revision=folder.name)


def read_config(files: PretrainedFiles) -> dict[str, Any]:
    """Return a pretrained model's configuration.

    Raises:
        TrainingFailed: it is not JSON.
    """
    try:
        config = json.loads((files.folder / CONFIG).read_bytes())
    except (OSError, ValueError) as error:
        message = f"{files.folder / CONFIG} cannot be read: {error}"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=POINTER) from error
    if not isinstance(config, dict):
        message = f"{files.folder / CONFIG} is not a JSON object"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=POINTER)
    return config


def check_pinned(pinned: str | None, origin: str, *, name: str) -> None:
    """Compare weights with those that a spec's `initial_weights` names, if any.

    A folder's sha256 cannot be compared with a hub commit, because a user provided its files.

    Raises:
        TrainingFailed: the weights differ.
    """
    if pinned is not None and pinned != origin and _is_commit(pinned) == _is_commit(origin):
        message = (
            f"the spec needs {name} at {pinned}, but this worker has {origin}; remove "
            "model.initial_weights to start from what it has"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=PINNED_POINTER)


def _is_commit(origin: str) -> bool:
    return _COMMIT.fullmatch(origin) is not None


def _find_folder(name: str, models_dir: Path) -> Path | None:
    root = models_dir.resolve()
    folder = (root / name).resolve()
    if folder == root or not folder.is_relative_to(root):
        if Path(name).is_absolute() or ".." in Path(name).parts:
            message = f"{name} is not in the worker's models folder, {root}"
            raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=POINTER)
        return None
    if folder.is_dir():
        return folder
    if Path(name).is_absolute():
        message = f"folder {folder} does not exist on the worker"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=POINTER)
    return None


def _shared_cache() -> Path:
    """Return the cache shared with other programs of this user: `hub` in HF_HOME, if it exists."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _find_cached(reference: Reference, wanted: list[str], hub_cache: Path) -> Path | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        found = snapshot_download(
            reference.repository,
            revision=reference.revision,
            cache_dir=hub_cache,
            allow_patterns=wanted,
            local_files_only=True,
        )
    except LocalEntryNotFoundError:
        return None
    folder = Path(found)
    # An interrupted download leaves a folder with only some of the files.
    return folder if (folder / CONFIG).exists() and find_weights(folder) else None


def _download(reference: Reference, wanted: list[str], hub_cache: Path, *, target: Path) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    name = reference.repository
    try:
        return Path(
            snapshot_download(
                name, revision=reference.revision, cache_dir=hub_cache, allow_patterns=wanted
            )
        )
    except GatedRepoError as error:
        message = f"the hub restricts {name} to accounts with access to it; set HF_TOKEN"
        raise _unavailable(message, error) from error
    except RevisionNotFoundError as error:
        message = f"{name} has no revision {reference.revision!r} on the hub"
        if _is_commit(str(reference.revision)):
            message += (
                "; remove it from model.initial_weights or model.pretrained to start from the "
                "newest"
            )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=POINTER) from error
    except RepositoryNotFoundError as error:
        message = (
            f"the hub has no model {name!r}, or it is private (then set HF_TOKEN); "
            f"{where_to_put(name, target)}"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=POINTER) from error
    except (
        LocalEntryNotFoundError,
        HfHubHTTPError,
        ConnectionError,
    ) as error:
        message = f"the hub is unreachable, so {name} was not found; {where_to_put(name, target)}"
        raise _unavailable(message, error) from error
    except Exception as error:
        # Errors of its HTTP library and of wrong file sizes have no common class.
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of this host's disk
        message = (
            f"the download of {name} was interrupted; retry the job to continue it, or "
            f"{where_to_put(name, target)}"
        )
        raise _unavailable(message, error) from error


def where_to_put(name: str, target: Path) -> str:
    """Return how a user provides a model to a worker that cannot download it."""
    return (
        f"put its files (config.json, model.safetensors and, for text, tokenizer.json) into "
        f"{target} on the worker. On a machine with network access: hf download {name} "
        f"--include '*.json' --include '*.safetensors' --include '*.txt' --local-dir {target}"
    )


def find_weights(folder: Path) -> tuple[Path, ...]:
    """Return the safetensors in a model's folder: one file, its parts, or none."""
    whole = folder / WEIGHTS[0]
    if whole.exists():
        return (whole,)
    return tuple(sorted(folder.glob(WEIGHTS[2])))


def _check(folder: Path, name: str, *, revision: str | None) -> PretrainedFiles:
    weights = find_weights(folder)
    missing = None
    if not (folder / CONFIG).exists():
        missing = CONFIG
    elif not weights:
        missing = "model.safetensors (pickled weights are not read because they can contain code)"
    if missing is not None:
        message = f"{folder}, the folder of {name}, has no {missing}"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=POINTER)
    return PretrainedFiles(folder, weights, revision)


def _unavailable(message: str, error: Exception) -> TrainingFailed:
    reason = str(error).split("\n", 1)[0][:300]
    return TrainingFailed(
        FailureCode.MODEL_UNAVAILABLE,
        message,
        pointer=POINTER,
        error=f"{type(error).__name__}: {reason}",
    )
