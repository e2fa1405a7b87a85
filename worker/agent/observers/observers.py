"""Passes an attempt's events to observers: its previews, TensorBoard and an MLflow server.

No observer can delay an attempt or make it fail.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from redkiln.events import Event, EventKind
from redkiln.protocol import ArtifactKind, CheckpointRef, ClaimResponse
from redkiln.spec.job_spec import JobSpec
from redkiln.views.job import Warned
from worker.agent.attempt.artifacts import list_files
from worker.agent.attempt.checkpoints import name_file
from worker.agent.attempt.finish import Outcome
from worker.agent.client import AttemptClient
from worker.agent.observers.guard import Guard
from worker.agent.observers.previews import PreviewUploader
from worker.agent.observers.tensorboard import (
    NAME,
    TensorBoard,
    describe_manifest_time,
    load_history,
    name_folder,
)
from worker.agent.stopping import StopSignal
from worker.agent.tracking.follower import Follower, build_environment, explain_missing
from worker.agent.tracking.messages import RunFacts
from worker.agent.tracking.names import make_name
from worker.jobdir import JobDir
from worker.settings import WorkerSettings

HANDED_IN: frozenset[ArtifactKind] = frozenset(
    {"model", "manifest", "report", "figure", "metrics", "profile", "benchmark"}
)
"""Kinds of files that a tracking server gets too; checkpoints and parity samples are too large."""
PREVIEWS, TENSORBOARD, MLFLOW = "the upload of sample predictions", "TensorBoard", "MLflow"
"""Names of the observers for people."""
PREVIEW_SECONDS = 5.0
"""How long an attempt's end waits for its last preview."""


@dataclass
class Observers:
    """All observers of one attempt.

    Args:
        claim: Claim of the attempt.
        spec: The claim's spec.
        client: Client for the attempt's calls.
        jobdir: Folder of the attempt.
        stop: Stop signal; requested when the attempt is superseded.
        settings: Settings of the worker.
        guard: Guard that catches whatever an observer raises.
    """

    claim: ClaimResponse
    spec: JobSpec
    client: AttemptClient
    jobdir: JobDir
    stop: StopSignal
    settings: WorkerSettings
    guard: Guard = field(init=False)

    def __post_init__(self) -> None:
        self.guard = Guard(self.settings.worker_dir, attempt_id=self.claim.attempt_id)
        call = self.guard.call
        self._previews = call(PREVIEWS, self._build_previews)
        self._tensorboard = call(TENSORBOARD, lambda: TensorBoard(self._list_paths()))
        self._follower = None
        self._missing = explain_missing(self.settings)
        if self.settings.mlflow_tracking_uri is not None and self._missing is None:
            self._follower = call(MLFLOW, self._build_follower)

    def start(self) -> None:
        """Start the observers."""
        if self._previews is not None:
            self.guard.call(PREVIEWS, self._previews.start)
        if self._follower is not None:
            self.guard.call(MLFLOW, self._follower.start)

    def resume(self, checkpoint: str | None) -> None:
        """Resume from a checkpoint in the attempt's folder; curves begin with the points in it."""
        ref = next((r for r in self.claim.checkpoints if name_file(r) == checkpoint), None)
        if ref is not None:
            self.guard.call(TENSORBOARD, partial(self._resume, ref))

    def on_event(self, event: Event) -> None:
        """Pass on one event of the attempt."""
        if event.kind is EventKind.PROGRESS and self._previews is not None:
            self.guard.call(PREVIEWS, partial(self._previews.offer, event.data))
        if self._tensorboard is not None:
            self.guard.call(TENSORBOARD, partial(self._tensorboard.on_event, event))

    def finish(self, outcome: Outcome) -> list[Warned]:
        """Finish the observers' work after the attempt has ended, while its folder still exists.

        Returns:
            Warnings for the job: what could not be delivered, and which observers failed.
        """
        if self._tensorboard is not None:
            self.guard.call(TENSORBOARD, self._tensorboard.close, is_last=True)
        if self._previews is not None:
            drain = partial(self._previews.drain, timeout_seconds=PREVIEW_SECONDS)
            self.guard.call(PREVIEWS, drain)
        undelivered = self._missing
        if self._follower is not None:
            undelivered = self.guard.call(MLFLOW, partial(self._finish_follower, outcome))
        warnings = self.guard.warnings()
        if undelivered is not None:
            warnings.append(Warned(code="mlflow", message=undelivered))
        return warnings

    def correct(self, outcome: Outcome) -> None:
        """Correct the outcome if the attempt ended differently from what `finish` received."""
        if self._follower is not None:
            self.guard.call(MLFLOW, partial(self._follower.correct, outcome))
        if outcome == "succeeded":
            self.guard.settle()

    def halt(self) -> None:
        """Stop all observers."""
        if self._tensorboard is not None:
            self.guard.call(TENSORBOARD, self._tensorboard.close, is_last=True)
        if self._previews is not None:
            self.guard.call(PREVIEWS, self._previews.halt, is_last=True)
        if self._follower is not None:
            self.guard.call(MLFLOW, self._follower.halt, is_last=True)

    def _resume(self, ref: CheckpointRef) -> None:
        if self._tensorboard is None:
            return
        history: Mapping[str, Sequence[tuple[int, float]]] = {}
        path = self.jobdir.checkpoints_dir / name_file(ref)
        if path.suffix == ".safetensors":  # a script's checkpoint is a packed folder
            history = load_history(path)
        at = describe_manifest_time(ref.manifest) or datetime.now(UTC)
        self._tensorboard.resume(history, step=ref.step, at=at)

    def _finish_follower(self, outcome: Outcome) -> str | None:
        assert self._follower is not None
        files = [path for path, output in list_files(self.jobdir) if output.kind in HANDED_IN]
        return self._follower.finish(outcome, files if outcome == "succeeded" else [])

    def _build_previews(self) -> PreviewUploader:
        send = partial(self.guard.call, PREVIEWS)
        return PreviewUploader(self.client, self.jobdir.preview_dir, self.stop, send)

    def _list_paths(self) -> list[Path]:
        paths = [self.jobdir.extra_dir / NAME]
        if self.settings.tensorboard_dir is not None:
            folder = name_folder(
                self.settings.tensorboard_dir,
                job_id=self.claim.job_id,
                job_name=self.claim.job_name,
            )
            paths.append(folder / f"{NAME}.{self.claim.number:03d}")
        return paths

    def _build_follower(self) -> Follower:
        claim = self.claim
        tags = {
            "redkiln.task": self.spec.task,
            "redkiln.attempt_id": claim.attempt_id,
            "redkiln.dataset": claim.dataset.name if claim.dataset else "",
            "redkiln.dataset_fingerprint": _fingerprint(claim),
            **{make_name(f"redkiln.metadata.{k}"): v for k, v in self.spec.metadata.items()},
        }
        facts = RunFacts(
            events_path=self.jobdir.events_path,
            experiment=self.settings.mlflow_experiment,
            job_id=claim.job_id,
            job_name=claim.job_name,
            tags={name: value for name, value in tags.items() if value},
        )
        environment = build_environment(self.settings, os.environ, home=self.jobdir.root)
        log_path = self.jobdir.root / "mlflow.log"
        return Follower(facts, environment=environment, log_path=log_path)


def _fingerprint(claim: ClaimResponse) -> str:
    dataset = claim.dataset
    if dataset is None:
        return ""
    return dataset.sha256 or dataset.index_sha256 or dataset.id
