"""From the name of a pretrained model to its files on this host.

A name is `org/name`, perhaps with `@revision`, or a folder's. It is looked for below the worker's
folder of models first; what is not there is fetched from the hub into the worker's cache, where
the next job finds it without a network. Only configurations, tokenisers and safetensors are taken:
neither pickles nor code. Nobody but the trainer does this; an export is built from what the trainer
wrote down.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
    """A model of the hub.

    Attributes:
        repository: `org/name`, or a name alone as the hub's oldest have it.
        revision: branch, tag or commit; None is the newest.
    """

    repository: str
    revision: str | None


@dataclass(frozen=True)
class PretrainedFiles:
    """A pretrained model on this host.

    Attributes:
        folder: holds `config.json`, the weights and, where there is one, the tokeniser.
        weights: its safetensors files, all of which make up the model.
        revision: commit that was fetched; None for a folder that somebody put there.
    """

    folder: Path
    weights: tuple[Path, ...]
    revision: str | None = None


def hash_files(paths: Iterable[Path]) -> str:
    """One digest of all these files."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def parse_reference(name: str) -> Reference:
    """Read `org/name` or `org/name@revision`.

    Raises:
        TrainingFailed: it is neither.
    """
    repository, at, revision = name.partition("@")
    is_whole = _HUB_NAME.fullmatch(repository) and (not at or _REVISION.fullmatch(revision))
    if not is_whole or ".." in name:
        message = (
            f"{name!r} is no pretrained model: write org/name, org/name@revision, or the name of "
            "a folder below the worker's folder of models"
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
    """The files of a pretrained model: from the folder of models, the cache, or the hub.

    Args:
        name: what the spec says: `org/name`, `org/name@revision`, or a folder below `models_dir`.
        models_dir: where users put models; nothing outside it is read by name.
        cache_dir: the worker's; what is fetched stays below it.
        say: told before the network is used.
        also: patterns of further files that are wanted (`TOKENIZER`).
        pinned: the spec's `initial_weights`; a commit of the hub there wins over the name's
            revision. Whether the weights are those is for `check_pinned` to say.

    Raises:
        TrainingFailed: there is no such model, it has no safetensors, or the hub was not reached;
            the message says which files to put where.
    """
    is_commit = pinned is not None and _is_commit(pinned)
    folder = _find_folder(name, models_dir)
    if folder is not None:
        if is_commit:
            say(f"{name} is taken from {folder}, which does not say whether it is commit {pinned}")
        return _check(folder, name, revision=None)
    reference = parse_reference(name)
    if is_commit:
        reference = replace(reference, revision=pinned)
    wanted = [CONFIG, *WEIGHTS, *also]
    own_cache, shared_cache = cache_dir / "hub", _shared_cache()
    folder = _find_cached(reference, wanted, own_cache)
    folder = folder or _find_cached(reference, wanted, shared_cache)
    if folder is None:
        say(f"fetching {name} from the hub")
        hub_cache = shared_cache if os.access(shared_cache.parent, os.W_OK) else own_cache
        folder = _download(reference, wanted, hub_cache, target=models_dir.resolve() / name)
    return _check(folder, name, revision=folder.name)


def check_pinned(pinned: str | None, origin: str, *, name: str) -> None:
    """Compare weights with those that a spec's `initial_weights` names, if it names some.

    A folder's sha256 says nothing of a commit of the hub: somebody put its files there.

    Raises:
        TrainingFailed: they are others.
    """
    if pinned is not None and pinned != origin and _is_commit(pinned) == _is_commit(origin):
        message = (
            f"the spec wants {name} as it was at {pinned}, and here it is {origin}; leave "
            "model.initial_weights out to start from that"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=PINNED_POINTER)


def _is_commit(origin: str) -> bool:
    return _COMMIT.fullmatch(origin) is not None


def _find_folder(name: str, models_dir: Path) -> Path | None:
    root = models_dir.resolve()
    folder = (root / name).resolve()
    if folder == root or not folder.is_relative_to(root):
        if Path(name).is_absolute() or ".." in Path(name).parts:
            message = f"{name} is not below the worker's folder of models, {root}"
            raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=POINTER)
        return None
    if folder.is_dir():
        return folder
    if Path(name).is_absolute():
        message = f"there is no folder {folder} on the worker"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=POINTER)
    return None


def _shared_cache() -> Path:
    """What other programs of this user fetch into, too: `hub` below HF_HOME, where that exists."""
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
    # A download that was cut short leaves a folder with some of its files.
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
        message = f"the hub gives {name} only to accounts that were granted it; set HF_TOKEN"
        raise _unavailable(message, error) from error
    except RevisionNotFoundError as error:
        message = f"{name} has no revision {reference.revision!r}"
        if _is_commit(str(reference.revision)):
            message += (
                ", which model.initial_weights or model.pretrained names; without it, training "
                "starts from the newest"
            )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=POINTER) from error
    except RepositoryNotFoundError as error:
        message = (
            f"the hub knows no model {name!r}, or shows it to its owner alone (then set "
            f"HF_TOKEN); {where_to_put(name, target)}"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer=POINTER) from error
    except (
        LocalEntryNotFoundError,
        HfHubHTTPError,
        ConnectionError,
    ) as error:
        message = f"the hub could not be reached for {name}; {where_to_put(name, target)}"
        raise _unavailable(message, error) from error
    except Exception as error:
        # Those of its HTTP library have no class in common with files of another size than said.
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of this host's disk
        message = (
            f"the download of {name} broke off; a retry goes on from the files that are there, or "
            f"{where_to_put(name, target)}"
        )
        raise _unavailable(message, error) from error


def where_to_put(name: str, target: Path) -> str:
    """How a user gives a model to a worker that cannot fetch it."""
    return (
        f"put its files (config.json, model.safetensors and, for text, tokenizer.json) into "
        f"{target} on the worker. Where there is a network: hf download {name} "
        f"--include '*.json' --include '*.safetensors' --include '*.txt' --local-dir {target}"
    )


def find_weights(folder: Path) -> tuple[Path, ...]:
    """The safetensors of a model's folder: one file, or the parts of one; none if it has none."""
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
        missing = "model.safetensors (pickled weights are not read: they can hold code)"
    if missing is not None:
        message = f"the files of {name} in {folder} have no {missing}"
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
