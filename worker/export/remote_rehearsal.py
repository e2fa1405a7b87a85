"""How a trainer has its slot's waiting exporter rehearse an export.

The exporter has imported the libraries and traced a model before, which takes a trainer 3 to 6 s.
Both processes inherit one end of a socket from the agent; nobody else can connect, so what arrives
may be unpickled.
"""

import io
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from pydantic import BaseModel

from redkiln.failure import JobFailure
from redkiln.spec.exports import Export
from worker.export.exportable import Exportable
from worker.export.rehearsal import rehearse_export
from worker.process.failed import TrainingFailed
from worker.process.handover import GREETING

GREETING_SECONDS = 10.0
"""An exporter greets before it imports torch, so one this silent is broken."""


@dataclass(frozen=True)
class Rehearsal:
    """What `worker.export.rehearsal.rehearse_export` is called with."""

    exportable: Exportable
    gate: Export
    key: str
    cache_dir: Path
    threads: int

    def run(self) -> float:
        """Rehearse in this process.

        Returns:
            The relative difference of the outputs.

        Raises:
            TrainingFailed: The model cannot be exported.
        """
        return rehearse_export(
            self.exportable,
            self.gate,
            key=self.key,
            cache_dir=self.cache_dir,
            threads=self.threads,
        )


class Answer(BaseModel):
    """Outcome of a rehearsal: the relative difference of the outputs, or why it is missing."""

    relative: float | None = None
    failure: JobFailure | None = None


def ask(connection: Connection, rehearsal: Rehearsal) -> float | None:
    """Have the exporter at the other end rehearse.

    Returns:
        The relative difference of the outputs, or None if the exporter gave no answer: it is
        gone, is not an exporter, or could not read the request.

    Raises:
        TrainingFailed: The model cannot be exported.
    """
    try:
        if not connection.poll(GREETING_SECONDS) or connection.recv_bytes() != GREETING:
            return None
        content = io.BytesIO()
        torch.save(rehearsal, content)
        connection.send_bytes(content.getbuffer())
        answer = Answer.model_validate_json(connection.recv_bytes())
    except (OSError, EOFError):
        return None
    except Exception:  # noqa: BLE001  # a module need not be picklable; then it is rehearsed here
        traceback.print_exc()
        return None
    if answer.failure is not None:
        raise TrainingFailed.from_failure(answer.failure)
    return answer.relative


def answer(connection: Connection) -> bool:
    """Answer one request.

    Returns:
        Whether the connection is still usable.
    """
    try:
        content = connection.recv_bytes()
        rehearsal = torch.load(io.BytesIO(content), weights_only=False)
        connection.send_bytes(_run(rehearsal).model_dump_json().encode())
    except (OSError, EOFError):
        connection.close()
        return False
    except Exception:  # noqa: BLE001  # the trainer rehearses itself and reports what is wrong
        traceback.print_exc()
        connection.close()
        return False
    return True


def _run(rehearsal: Rehearsal) -> Answer:
    try:
        return Answer(relative=rehearsal.run())
    except TrainingFailed as error:
        return Answer(failure=error.failure)
