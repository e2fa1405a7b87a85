"""Measurements on this host, kept in the cache and found again by everything they depend on."""

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from worker.checkpoints.checkpoint import write_durably
from worker.trainer.devices import cpu_name, device_name

FOLDER = "measured"


class Remembered:
    """Small JSON values, each stored under the facts that it depends on.

    Args:
        cache_dir: The worker's cache; the values have their own folder in it.
        facts: Facts common to all values: releases, device, threads.
    """

    def __init__(self, cache_dir: Path, facts: Mapping[str, Any]) -> None:
        self._folder = cache_dir / FOLDER
        self._facts = dict(facts)

    @classmethod
    def on(cls, device: torch.device, cache_dir: Path) -> "Remembered":
        """Open the measurements for this device, this torch and this number of threads."""
        facts = {
            "torch": torch.__version__,
            "device": device_name(device),
            "cpu": cpu_name(),
            "threads": torch.get_num_threads(),
        }
        return cls(cache_dir, facts)

    def find(self, what: str, key: Mapping[str, Any]) -> Any | None:
        """Return the value, or None or its file cannot be read."""
        try:
            return json.loads(self._path(what, key).read_bytes())["value"]
        except (OSError, ValueError, LookupError):
            return None

    def save(self, what: str, key: Mapping[str, Any], value: Any) -> None:
        """Save a value; if the cache is not writable, the next job measures again."""
        path = self._path(what, key)
        content = {"what": what, "key": dict(key), **self._facts, "value": value}
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_durably(path, json.dumps(content, indent=1, default=str).encode())

    def _path(self, what: str, key: Mapping[str, Any]) -> Path:
        facts = json.dumps([what, dict(key), self._facts], sort_keys=True, default=str)
        return self._folder / f"{hashlib.sha256(facts.encode()).hexdigest()[:32]}.json"
