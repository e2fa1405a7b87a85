"""A script's results: announced when they are complete, and listed at the end of the attempt."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from redkiln.events import EventKind
from worker.jobdir import JobDir, OutputFile
from worker.process.event_log import EventLog
from worker.script.results.files import MAX_FILES, Folder, Result, kind_of
from worker.script.results.model_check import ModelCheck

MAX_TOLD = 10
AGAIN_SECONDS = 10.0
"""Shortest time between two publications of a file that is rewritten repeatedly."""


class Results:
    """The files below REDKILN_OUT.

    Attributes:
        folder: Folder of the files.
    """

    def __init__(self, job_dir: JobDir, folder: Path, event_log: EventLog) -> None:
        self.folder = folder
        self._job_dir = job_dir
        self._event_log = event_log
        self._files = Folder(folder, again_seconds=AGAIN_SECONDS, max_files=MAX_FILES)
        self._whole: dict[str, Result] = {}

    @property
    def size_bytes(self) -> int:
        """Size of all files at the last look."""
        return self._files.size_bytes

    def look(self, pids: Iterable[int], *, is_over: bool = False) -> None:
        """Announce the files that have become complete since the last look.

        Args:
            pids: Processes that may write.
            is_over: Whether nothing writes any more.
        """
        for item in self._files.look(pids, is_over=is_over):
            self._whole[item.name] = item
            self._event_log.write(EventKind.ARTIFACT, file=self._output(item.name).model_dump())

    def models(self) -> list[str]:
        """Return the names of the ONNX files."""
        return [name for name in self._whole if name.lower().endswith(".onnx")]

    def close(self, verdicts: Mapping[str, ModelCheck]) -> None:
        """List the files for the end of the attempt, and report those that are not kept."""
        outputs = [
            self._output(name, verified=verdicts[name].verified if name in verdicts else None)
            for name in self._whole.keys() & dict(self._files.scan()).keys()
        ]
        content = json.dumps([output.model_dump() for output in outputs], indent=1)
        path = self._job_dir.outputs_path
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(content)
        temporary.replace(path)
        for name, why in list(self._files.refused.items())[:MAX_TOLD]:
            self._event_log.warning("file_left_out", f"{name!r} is not kept: {why}")
        if self._files.num_too_many > 0:
            text = f"{self._files.num_too_many} files are not kept; pack files into an archive"
            self._event_log.warning("too_many_files", text)

    def _output(self, name: str, *, verified: bool | None = None) -> OutputFile:
        kind, media_type = kind_of(name)
        path = (self.folder / name).relative_to(self._job_dir.root).as_posix()
        return OutputFile(name=name, kind=kind, media_type=media_type, verified=verified, path=path)
