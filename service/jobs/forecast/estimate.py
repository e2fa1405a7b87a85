"""Estimates a job's time and memory from similar jobs that ran here; never guesses.

A job is similar if it trained the same model. Its time per sample is used if its batch size was
about the same; its memory only if the batch size was equal, because memory does not scale with it
in a simple way. A job with the same settings is preferred; differences from the job that is used
are reported.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, col, select

from redkiln.spec.boosting import BOOSTING
from redkiln.spec.image_models import LARGE_MODEL, SMALL_MODEL, Choice
from redkiln.spec.job_spec import TrainingSpec
from redkiln.status import AttemptStatus, JobStatus, Phase
from redkiln.views.job import Estimate, Estimates
from service.attempts.models import Attempt
from service.datasets.models import Dataset
from service.jobs.forecast.automatic import foresee_model
from service.jobs.forecast.unmeasured import find_other_sizes, say_unmeasured
from service.jobs.models import JOB, Job
from service.metrics.chunks import load_points
from service.metrics.models import TELEMETRY_CHUNK

LOOKED_AT = 50
"""Number of newest jobs with the model to consider; older ones ran with other versions."""
WHOLE_TABLE = 1
"""Batch size of a model that reads all rows in every iteration, so that an iteration counts as one
sample. Its time is comparable on the same data set only."""
MAX_BATCH_FACTOR = 4
"""Largest ratio of two batch sizes whose time per sample is comparable: a small batch's step takes
as long as its kernel launches, a large one's as its arithmetic."""
TRAINED = (Phase.TRAINING, Phase.EVALUATING)
MEMORY = ("gpu/0/vram_used_bytes", "host/memory_used_bytes")
"""Telemetry series that measure a job's memory; the first available one is used."""

MEASURED_TASKS = ("image-classification",)
MEASURED_MODEL = (
    f"which model auto chooses: {LARGE_MODEL} if the worker measures that it is fast enough there, "
    f"otherwise {SMALL_MODEL}"
)

SETTINGS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "batch_size": lambda spec: spec["training"]["batch_size"],
    "precision": lambda spec: spec["training"]["precision"],
    "gpus": lambda spec: spec["resources"]["gpus"],
    "compile": lambda spec: spec["training"]["compile"],
    "optimizer": lambda spec: spec["training"]["optimizer"]["name"],
    "ema": lambda spec: "off" if spec["training"]["ema"] is None else "on",
    "accumulation": lambda spec: spec["training"]["accumulation"],
    "gradient_checkpointing": lambda spec: spec["training"]["gradient_checkpointing"],
    "freeze_backbone_epochs": lambda spec: spec["training"]["freeze_backbone_epochs"],
}
"""Settings that change time or memory, and how to read them from a spec."""


@dataclass(frozen=True)
class Wanted:
    """The job to estimate: everything that decides how long it takes.

    Attributes:
        model: Model as written in the spec, including `auto`.
        samples: Samples that training processes in all epochs together; None if the data set is
            not counted yet, or if `steps` is given but the batch size is not chosen yet.
        batch_size: Batch size; None while it is `auto`.
        settings: Settings by their names in `SETTINGS`, including `auto`.
        task: Name of the task.
        choice: Model that `model: auto` will become; None if the model is named, or must be
            measured.
        folds: Folds of a cross-validation; 0 without.
        quality: How much time a better model may take, which decides what `auto` becomes; None if
            the task has no such choice.
    """

    dataset_id: str | None
    model: dict[str, Any]
    samples: int | None
    batch_size: int | None
    settings: dict[str, Any] = field(default_factory=dict)
    task: str = ""
    choice: Choice | None = None
    folds: int = 0
    quality: str | None = None

    @property
    def model_name(self) -> str | None:
        """Name of the model, with `auto` as what it will be."""
        return self.model.get("name") if self.choice is None else self.choice.name


@dataclass(frozen=True)
class Measured:
    """Time and memory of a job that succeeded.

    Attributes:
        device: Name of its GPU or CPU.
        model: Model after `auto` was resolved.
        asked_model: Model as written in the spec.
        training_seconds: Seconds of steps and evaluations.
        other_seconds: Seconds of everything before and after.
        peak_memory_bytes: Peak memory; None if no sensor measured it.
        settings: Settings after `auto` was resolved, without those unknown to an older release.
        model_auto: Model and reason of `model: auto`; None if the model was named.
        is_resumed: Whether it continued from a checkpoint, which keeps the training time until
            then; it was prepared more than once.
        folds: Folds of a cross-validation; 0 without.
        quality: As in `Wanted`.
    """

    job_id: str
    dataset_id: str | None
    device: str
    model: dict[str, Any]
    asked_model: dict[str, Any]
    samples: int
    batch_size: int
    training_seconds: float
    other_seconds: float
    peak_memory_bytes: int | None
    settings: dict[str, Any] = field(default_factory=dict)
    model_auto: str | None = None
    is_resumed: bool = False
    folds: int = 0
    quality: str | None = None
    name: str | None = None

    @property
    def title(self) -> str:
        """Name of the job for a message, or its id."""
        return self.name or self.job_id


def estimate(session: Session, spec: TrainingSpec, dataset: Dataset | None) -> Estimates:
    """Estimate what a spec needs on each device on which similar jobs ran."""
    wanted = describe(spec, dataset)
    names = {wanted.model.get("name"), wanted.model_name}
    measured = list(_load_measured(session, spec.task, models=names))
    return predict(wanted, measured)


def predict(wanted: Wanted, measured: Sequence[Measured]) -> Estimates:
    """Scale the most similar measurement of each device (the newest of equals) to the wanted job.

    Args:
        wanted: The job to estimate.
        measured: Jobs that ran, newest first.
    """
    chosen: dict[str, Measured] = {}
    for job in sorted(measured, key=lambda job: _distance(wanted, job)):
        # Each fold trains its own network.
        if wanted.folds == job.folds and (_is_same(wanted, job) or _is_alike(wanted, job)):
            chosen.setdefault(job.device, job)
    unknown = []
    if not chosen:
        models = ((job.asked_model, job.model) for job in measured)
        unknown.append(say_unmeasured(wanted.model, wanted.model_name, models))
        # A file or a class of the user's has the name `auto`, too, and nothing is chosen.
        is_chosen = (
            wanted.model_name == "auto" and wanted.model.get("source", "builtin") == "builtin"
        )
        if wanted.task in MEASURED_TASKS and is_chosen:
            unknown.append(MEASURED_MODEL)
    elif wanted.samples is None:
        unknown.append("time: the number of training samples is not known yet")
    estimates = []
    for device, job in chosen.items():
        seconds, why = _predict_seconds(wanted, job)
        if why:
            unknown.append(f"time on {device}: {why}")
        memory_bytes, why = _predict_memory(wanted, job)
        if why:
            unknown.append(f"memory on {device}: {why}")
        differing = _name_differences(wanted, job) if seconds is not None else ""
        caveat = (
            f"The time is a rough guess: it comes from {job.title}, which had {differing}"
            if differing
            else None
        )
        if differing := _name_other_settings(wanted, job):
            unknown.append(f"time and memory on {device}: {job.job_id} was {differing}")
        estimates.append(
            Estimate(
                device=device,
                seconds=seconds,
                memory_bytes=memory_bytes,
                measured_by=job.job_id,
                model_auto=job.model_auto,
                caveat=caveat,
            )
        )
    choice = wanted.choice
    model_auto = None if choice is None else f"{choice.name}: {choice.why}"
    return Estimates(estimates=estimates, unknown=unknown, model_auto=model_auto)


def describe(spec: TrainingSpec, dataset: Dataset | None) -> Wanted:
    """Return everything in a spec that decides how long its job takes."""
    training = spec.training
    batch_size = None if training.batch_size == "auto" else training.batch_size
    if spec.is_estimator:
        batch_size = WHOLE_TABLE
    samples = None
    if training.steps is not None and batch_size is not None:
        samples = training.steps * batch_size
    elif training.epochs is not None and dataset is not None:
        counts = dataset.report.get("counts", {})
        num_train = sum(counts.get("train", {}).values())
        kept = num_train * (1 if "validation" in counts else 1 - training.validation_fraction)
        samples = round(training.epochs * kept) or None
    asked = spec.model_dump(mode="json")
    return Wanted(
        dataset_id=None if dataset is None else dataset.id,
        model=asked.get("model", {}),
        samples=samples,
        batch_size=batch_size,
        settings=read_settings(asked),
        task=spec.task,
        choice=foresee_model(spec, dataset),
        folds=getattr(training, "folds", None) or 0,
        quality=asked.get("quality"),
    )


def read_settings(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the values of `SETTINGS` in a spec; one of an older release may lack some."""
    found = {}
    for name, read in SETTINGS.items():
        with suppress(KeyError):
            found[name] = read(spec)
    return found


def _distance(wanted: Wanted, job: Measured) -> tuple[bool, int, float, bool, bool]:
    factor = _compare_batches(wanted, job)
    num_others = len(_find_other_settings(wanted, job))
    is_far = factor > MAX_BATCH_FACTOR
    return is_far, num_others, factor, not _is_same(wanted, job), job.is_resumed


def _compare_batches(wanted: Wanted, job: Measured) -> float:
    """Return the ratio of the batch sizes, at least 1; 1 while the wanted one is not chosen."""
    sizes = sorted((wanted.batch_size or job.batch_size, job.batch_size))
    return sizes[1] / sizes[0]


def _find_other_settings(wanted: Wanted, job: Measured) -> list[str]:
    """Return the names of the settings that were measured with another value than the asked one."""
    return [
        name
        for name, asked in wanted.settings.items()
        if asked not in ("auto", job.settings.get(name, asked))
    ]


def _name_other_settings(wanted: Wanted, job: Measured) -> str:
    names = _find_other_settings(wanted, job)
    if not names:
        return ""
    had = " and ".join(f"{name} {job.settings[name]}" for name in names)
    asked = " and ".join(f"{name} {wanted.settings[name]}" for name in names)
    return f"measured with {had}, but this job asks for {asked}"


def _is_same(wanted: Wanted, job: Measured) -> bool:
    if (wanted.model, wanted.dataset_id) != (job.asked_model, job.dataset_id):
        return False
    if wanted.choice is not None:
        return wanted.choice.name == job.model.get("name")
    # The quality decides, with the data and the device, what `auto` becomes.
    return wanted.model_name != "auto" or wanted.quality == job.quality


def _is_alike(wanted: Wanted, job: Measured) -> bool:
    name = wanted.model_name
    if name in (None, "auto", BOOSTING) or name != job.model.get("name"):
        return False
    # As asked or as resolved: `auto` matches another `auto`, but no explicit value.
    others = (job.asked_model, job.model)
    if wanted.model.get("config") not in [other.get("config") for other in others]:
        return False
    return not find_other_sizes(wanted.model, others)


def _name_differences(wanted: Wanted, job: Measured) -> str:
    has_other_data = wanted.dataset_id != job.dataset_id
    has_other_options = wanted.model not in (job.asked_model, job.model)
    if wanted.choice is not None:  # the model was asked for by another name
        named = {**wanted.model, "name": wanted.choice.name}
        has_other_options &= named not in (job.asked_model, job.model)
    if has_other_data and has_other_options:
        return "other data and other options of the model"
    if has_other_data:
        return "other data"
    return "other options of the model" if has_other_options else ""


def _predict_seconds(wanted: Wanted, job: Measured) -> tuple[float | None, str]:
    if wanted.samples is None:
        return None, ""
    if _compare_batches(wanted, job) > MAX_BATCH_FACTOR:
        why = f"{_had_batch_size(job)}, too far from {wanted.batch_size}"
        return None, why
    return job.training_seconds / job.samples * wanted.samples + job.other_seconds, ""


def _predict_memory(wanted: Wanted, job: Measured) -> tuple[int | None, str]:
    if job.peak_memory_bytes is None:
        return None, "not measured"
    if wanted.batch_size not in (None, job.batch_size) or (
        wanted.batch_size is None and not _is_same(wanted, job)
    ):
        own = f"has {wanted.batch_size}" if wanted.batch_size else "chooses its own"
        return None, f"{_had_batch_size(job)}, and this job {own}"
    return job.peak_memory_bytes, ""


def _had_batch_size(job: Measured) -> str:
    return f"it was only measured with batch size {job.batch_size} ({job.job_id})"


def _load_measured(session: Session, task: str, *, models: set[str | None]) -> Iterator[Measured]:
    names = [spec["model"]["name"].as_string() for spec in (JOB.c.spec, JOB.c.resolved_spec)]
    statement = (
        select(Job, Attempt)
        .join(Attempt, col(Attempt.job_id) == col(Job.id))
        .where(
            Job.task == task,
            Job.status == JobStatus.SUCCEEDED,
            # As asked or as resolved; a model without a name is compared as a whole.
            sa.true() if None in models else sa.or_(*(name.in_(models) for name in names)),
            Attempt.status == AttemptStatus.SUCCEEDED,
        )
        .order_by(col(Job.id).desc())
        .limit(LOOKED_AT)
    )
    for job, attempt in session.exec(statement):
        measured = _measure(session, job, attempt)
        if measured is not None:
            yield measured


def _measure(session: Session, job: Job, attempt: Attempt) -> Measured | None:
    timings = attempt.details.get("result", {}).get("timings", {})
    training_seconds = sum(timings.get(phase, 0.0) for phase in TRAINED)
    progress, resolved = job.progress or {}, job.resolved_spec or {}
    batch_size = resolved.get("training", {}).get("batch_size")
    if resolved.get("model", {}).get("name") == BOOSTING:
        batch_size = WHOLE_TABLE
    samples = progress.get("step", 0) * (batch_size or 0)
    if not (training_seconds and samples and batch_size):
        return None
    environment = job.environment or {}
    return Measured(
        job_id=job.id,
        dataset_id=job.dataset_id,
        device=environment.get("gpu") or environment.get("cpu") or "an unknown device",
        model=resolved.get("model", {}),
        asked_model=job.spec.get("model", {}),
        samples=samples,
        batch_size=batch_size,
        training_seconds=training_seconds,
        other_seconds=sum(timings.values()) - training_seconds,
        peak_memory_bytes=_peak_memory(session, job.id),
        settings=_settings_of(job),
        model_auto=environment.get("model_auto"),
        is_resumed=attempt.resumed_from_step is not None,
        folds=resolved.get("training", {}).get("folds") or 0,
        quality=job.spec.get("quality"),
        name=job.name,
    )


def _settings_of(job: Job) -> dict[str, Any]:
    settings = read_settings(job.resolved_spec or {})
    if any(warning["code"] == "fewer_gpus" for warning in job.warnings):
        settings["gpus"] = 1  # because of `resources.allow_fewer`; the spec keeps the asked number
    return settings


def _peak_memory(session: Session, job_id: str) -> int | None:
    series = load_points(session, job_id, names=MEMORY, after_step=None, table=TELEMETRY_CHUNK)
    for name in MEMORY:
        peaks = [points[:, 1].max() for points in series.get(name, {}).values() if len(points)]
        if peaks:
            return int(max(peaks))
    return None
