"""Passes an attempt's events to observers: its previews, TensorBoard and an MLflow server.

No observer can delay an attempt or make it fail.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from redkiln.events import Event, EventKind
from redkiln.protocol import ArtifactKind, ClaimResponse
from redkiln.spec.job_spec import JobSpec
from worker.agent.attempt.artifacts import list_files
from worker.agent.attempt.checkpoints import name_file
from worker.agent.attempt.finish import Outcome
from worker.agent.client import AttemptClient
from worker.agent.observers.mlflow import MlflowClient, make_name
from worker.agent.observers.previews import PreviewUploader
from worker.agent.observers.tensorboard import (
    NAME,
    TensorBoard,
    describe_manifest_time,
    load_history,
    name_folder,
)
from worker.agent.observers.tracking import RunFacts, Tracking
from worker.agent.stopping import StopSignal
from worker.jobdir import JobDir
from worker.settings import WorkerSettings

HANDED_IN: frozenset[ArtifactKind] = frozenset(
    {"model", "manifest", "report", "figure", "metrics", "profile", "benchmark"}
)
"""Kinds of files that a tracking server gets too; checkpoints and parity samples are too large."""
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
    """

    claim: ClaimResponse
    spec: JobSpec
    client: AttemptClient
    jobdir: JobDir
    stop: StopSignal
    settings: WorkerSettings

    def __post_init__(self) -> None:
        self._previews = PreviewUploader(self.client, self.jobdir.preview_dir, self.stop)
        self._tensorboard = TensorBoard(self._list_paths())
        self._tracking = self._build_tracking()

    def start(self) -> None:
        """Start the observers."""
        self._previews.start()
        if self._tracking is not None:
            self._tracking.start()

    def resume(self, checkpoint: str | None) -> None:
        """Resume from a checkpoint in the attempt's folder; curves begin with the points in it."""
        ref = next((r for r in self.claim.checkpoints if name_file(r) == checkpoint), None)
        if ref is None:
            return
        history: Mapping[str, Sequence[tuple[int, float]]] = {}
        path = self.jobdir.checkpoints_dir / name_file(ref)
        if path.suffix == ".safetensors":  # a script's checkpoint is a packed folder
            history = load_history(path)
        at = describe_manifest_time(ref.manifest) or datetime.now(UTC)
        self._tensorboard.resume(history, step=ref.step, at=at)

    def on_event(self, event: Event) -> None:
        """Pass on one event of the attempt."""
        if event.kind is EventKind.PROGRESS:
            self._previews.offer(event.data)
        self._tensorboard.on_event(event)
        if self._tracking is not None:
            self._tracking.on_event(event)

    def finish(self, outcome: Outcome) -> str | None:
        """Finish the observers' work after the attempt has ended, while its folder still exists.

        Returns:
            A warning for the job about what could not be delivered; None if all of it was.
        """
        self._tensorboard.close()
        self._previews.drain(timeout_seconds=PREVIEW_SECONDS)
        if self._tracking is None:
            return None
        files = [path for path, output in list_files(self.jobdir) if output.kind in HANDED_IN]
        return self._tracking.finish(outcome, files if outcome == "succeeded" else [])

    def correct(self, outcome: Outcome) -> None:
        """Correct the outcome if the attempt ended differently from what `finish` received."""
        if self._tracking is not None:
            self._tracking.correct(outcome)

    def halt(self) -> None:
        """Stop all observers."""
        self._tensorboard.close()
        self._previews.halt()
        if self._tracking is not None:
            self._tracking.halt()

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

    def _build_tracking(self) -> Tracking | None:
        settings, claim = self.settings, self.claim
        if settings.mlflow_tracking_uri is None:
            return None
        tags = {
            "redkiln.task": self.spec.task,
            "redkiln.attempt_id": claim.attempt_id,
            "redkiln.dataset": claim.dataset.name if claim.dataset else "",
            "redkiln.dataset_fingerprint": _fingerprint(claim),
            **{make_name(f"redkiln.metadata.{k}"): v for k, v in self.spec.metadata.items()},
        }
        return Tracking(
            MlflowClient(settings.mlflow_tracking_uri, token=settings.mlflow_token),
            RunFacts(
                experiment=settings.mlflow_experiment,
                job_id=claim.job_id,
                job_name=claim.job_name,
                tags={name: value for name, value in tags.items() if value},
            ),
        )


def _fingerprint(claim: ClaimResponse) -> str:
    dataset = claim.dataset
    if dataset is None:
        return ""
    return dataset.sha256 or dataset.index_sha256 or dataset.id
