"""Jobs with `model: gradient-boosting`: from the opened table to the trainer and to the export."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.failure import FailureCode
from redkiln.spec.boosting import RECOMMENDED
from redkiln.spec.class_weights import ClassifierTraining, compute_class_weights
from redkiln.tasks.tabular_regression import TabularRegressionTraining
from worker.export.exportable import Converted
from worker.export.scoring import class_metrics, regression
from worker.export.scoring.temperature import calibrate, find_temperature
from worker.export.target import Arrays, ExportTarget, Outputs, Scored, Scoring
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.tasks.tabular.baselines import list_baselines
from worker.tasks.tabular.boosting.graph import TreeGraph
from worker.tasks.tabular.boosting.held_out import USUAL_ROUNDS, choose_rounds, score_held_out
from worker.tasks.tabular.boosting.labels import convert_labels, score_labels, weigh_labels
from worker.tasks.tabular.boosting.trees import (
    BoostedTrees,
    Raw,
    TreeRows,
    build_trees,
    join_inputs,
    predict_raw,
    read_features,
    to_logits,
)
from worker.tasks.tabular.card import write_table_texts
from worker.tasks.tabular.embedded import open_embedding
from worker.tasks.tabular.exported import (
    LOGITS,
    VALUE,
    TableSamples,
    describe_preparation,
)
from worker.tasks.tabular.few_rows import FEWEST_RARE, count_rare, describe_few
from worker.tasks.tabular.opened import TableJob, TabularSpec
from worker.tasks.tabular.original_row import open_rows
from worker.tasks.tabular.smearing import smear
from worker.trainer.estimators.setup import EstimatorSetup

MOST_VALUES = 1_000_000
"""Values of a table above which folds would take minutes to choose the number of iterations."""


def prepare_boosting(
    job: TableJob,
    order: Order,
    spec: TabularSpec,
    *,
    event_log: EventLog,
    is_better: Callable[[dict[str, float], dict[str, float]], bool],
) -> EstimatorSetup:
    """Prepare the rows and an estimator without trees.

    Args:
        job: The opened table.
        order: Order of the job.
        spec: The parsed spec.
        event_log: Receives warnings about the table.
        is_better: Whether the first metrics beat the second.

    Raises:
        TrainingFailed: the training rows have only one class.
    """
    job.warn(event_log)
    spec = _choose_iterations(job, spec, event_log, threads=order.threads)
    splits = job.table.split(validation_fraction=spec.training.validation_fraction)
    resolved = job.resolve_target(spec.model_copy(deep=True))
    resolved.training.precision = "fp32"
    resolved.training.compile = resolved.training.gradient_checkpointing = "off"
    rounds = spec.training.steps
    assert rounds is not None
    return EstimatorSetup(
        spec=resolved,
        rounds=rounds,
        estimator=_build(job, spec, threads=order.threads),
        is_better=is_better,
        counts={split: len(rows) for split, rows in splits.items()},
        reading=job.reading.model_dump_json(),
    )


def _choose_iterations(
    job: TableJob, spec: TabularSpec, event_log: EventLog, *, threads: int
) -> TabularSpec:
    """Return a spec that trains on all rows if the validation split says too little.

    On a few rows, the smallest `val/loss` comes after one or ten iterations by chance. So folds of
    all training rows choose the number of iterations. A validation split that came with the data,
    and early stopping that the user chose, remain.
    """
    early, most = spec.training.early_stopping, spec.training.steps
    is_default = early is not None and early.patience == RECOMMENDED["early_stopping"]["patience"]
    if not is_default or job.table.index.num_validation:
        return spec
    if job.table.labels is not None or (few := describe_few(job, spec)) is None:
        return spec
    fixed: dict[str, Any] = {"early_stopping": None, "validation_fraction": 0.0}
    on_all = spec.model_copy(update={"training": spec.training.model_copy(update=fixed)})
    assert most is not None
    trees, steps = _build(job, on_all, threads=threads), USUAL_ROUNDS
    why = "this is the usual number"
    is_enough = job.target is not None or count_rare(trees.rows.targets) >= FEWEST_RARE
    if is_enough and trees.rows.features.size <= MOST_VALUES:
        event_log.show_activity("choosing the number of iterations")
        steps = choose_rounds(trees, num_classes=job.shape.num_classes, most=most)
        event_log.show_activity(None)
        why = "cross-validation chose this number"
    on_all.training.steps = steps
    event_log.message(
        f"The job trains {steps} iterations on all training rows; {why}, because {few} are too "
        "few. To use the validation rows instead: --set training.early_stopping=30"
    )
    return on_all


def open_boosting_target(
    job: TableJob,
    order: Order,
    spec: TabularSpec,
    *,
    weights: Mapping[str, torch.Tensor],
    scoring: Scoring,
) -> ExportTarget:
    """Return the trained trees with the rows that they are scored on."""
    trees = _build(job, spec, threads=order.threads)
    trees.load(weights)
    samples, index, temperature = TableSamples(job.table), job.table.index, 1.0
    rows = job.table.split(validation_fraction=spec.training.validation_fraction)
    labels, held_out, restoring = job.table.labels, None, job
    if labels is not None:
        converted, scoring = convert_labels(trees.model, job, samples, rows["validation"])
    else:
        if job.target is None:
            temperature, held_out = _calibrate(trees, job, samples, rows["validation"])
        converted = _convert(trees.model, job, temperature=temperature)
        if job.is_log:
            restoring = smear(
                job,
                spec,
                predict=converted.predict,
                samples=samples,
                validation=rows["validation"],
            )
            converted = _convert(trees.model, restoring, temperature=1.0)
    preprocessing = describe_preparation(
        job.table,
        job.preparation,
        output=converted.output,
        temperature=temperature,
        is_tree=True,
        scale=restoring.target,
    )
    preprocessing, embedding = open_embedding(spec, job.table, preprocessing)
    return ExportTarget(
        spec=spec,
        exportable=converted,
        samples=samples,
        targets=job.table.targets if labels is None else labels,
        rows=rows,
        scoring=scoring,
        preprocessing=preprocessing,
        texts=write_table_texts(job.table, spec.model, preprocessing=preprocessing),
        notes=index.notes,
        held_out_test=index.held_out_test,
        baselines=list_baselines(job.table, job.preparation, is_log=job.is_log),
        held_out=held_out,
        reading=job.reading.model_dump_json(),
        describe_rows=open_rows(job.table),
        embedding=embedding,
    )


def _calibrate(
    trees: BoostedTrees, job: TableJob, samples: TableSamples, validation: NDArray[np.int64]
) -> tuple[float, Scored | None]:
    """Return the temperature; without validation rows it is that of the folds, which follow."""
    if len(validation):
        predict = _convert(trees.model, job, temperature=1.0).predict
        return calibrate(predict, samples, job.targets.astype(np.int64), validation), None
    assert job.shape.num_classes is not None
    held_out = score_held_out(trees, num_classes=job.shape.num_classes)
    if held_out is None:
        return 1.0, None
    logits, labels = held_out
    temperature = find_temperature(torch.from_numpy(logits), torch.from_numpy(labels))
    return temperature, (logits / np.float32(temperature), labels)


def _build(job: TableJob, spec: TabularSpec, *, threads: int) -> BoostedTrees:
    table, training = job.table, spec.training
    splits = table.split(validation_fraction=training.validation_fraction)
    targets, train, validation = job.targets, splits["train"], splits["validation"]
    is_regression = isinstance(training, TabularRegressionTraining)
    if not is_regression and len(np.unique(targets[train])) < 2:
        message = "all training rows have the same class; gradient-boosting needs two or more"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/dataset")
    has_labels = table.labels is not None
    model = build_trees(
        spec.model.options,
        num_categorical=len(table.categorical),
        num_numeric=len(table.numeric),
        loss=training.loss if isinstance(training, TabularRegressionTraining) else None,
        seed=training.seed,
        num_labels=len(table.index.classes) if has_labels else None,
    )
    rows = TreeRows(
        features=read_features(table, train),
        targets=targets[train],
        validation=read_features(table, validation),
        weights=_weigh(job, spec, targets[train]),
    )
    score = partial(_score_values, job, spec, table.targets[validation].astype(np.float64))
    if has_labels:
        score = partial(score_labels, targets[validation])
    elif not is_regression:
        labels = targets[validation].astype(np.int64)
        known = np.unique(targets[train]).astype(np.int64)
        score = partial(_score_classes, labels, known, len(table.index.classes))
    return BoostedTrees(model, rows, score=score, threads=threads)


def _weigh(job: TableJob, spec: TabularSpec, labels: NDArray[Any]) -> NDArray[np.float64] | None:
    if not isinstance(spec.training, ClassifierTraining):
        return None
    classes = job.table.index.classes
    if job.table.labels is not None:
        return weigh_labels(spec.training.class_weights, labels, classes)
    counts = np.bincount(labels.astype(np.int64), minlength=len(classes)).tolist()
    weights = compute_class_weights(spec.training.class_weights, classes=classes, counts=counts)
    return None if weights is None else np.array(weights)[labels.astype(np.int64)]


def _score_classes(
    labels: NDArray[np.int64], known: NDArray[np.int64], num_classes: int, raw: Raw
) -> dict[str, float]:
    logits = to_logits(raw, known=known, num_classes=num_classes).astype(np.float32)
    once = np.ones((1, len(labels)))
    names = ("loss", "accuracy", "macro_f1")
    return {
        f"val/{name}": float(class_metrics.METRICS[name](logits, labels, once)[0]) for name in names
    }


def _score_values(
    job: TableJob, spec: TabularSpec, wanted: NDArray[np.float64], raw: Raw
) -> dict[str, float]:
    assert job.target is not None
    once = np.ones((1, len(wanted)))
    error = raw - job.target.standardise(wanted)
    is_absolute = isinstance(spec.training, TabularRegressionTraining) and (
        spec.training.loss == "mae"
    )
    loss = np.abs(error).mean() if is_absolute else np.square(error).mean()
    values = job.target.restore(raw).astype(np.float32)
    scores = {
        f"val/{name}": float(metric(values, wanted, once)[0])
        for name, metric in regression.METRICS.items()
    }
    return {"val/loss": float(loss), **scores}


def _convert(model: Any, job: TableJob, *, temperature: float) -> Converted:
    graph = TreeGraph(
        model=model,
        num_categories=[len(column.categories) for column in job.table.categorical],
        num_numbers=len(job.table.numeric),
        num_classes=job.shape.num_classes,
        target=job.target,
        temperature=temperature,
    )
    return Converted(
        predict=partial(_predict, model, job, temperature),
        write=graph.write,
        output=LOGITS if job.target is None else VALUE,
        framework="scikit-learn",
    )


def _predict(model: Any, job: TableJob, temperature: float, inputs: Arrays) -> Outputs:
    """Return what the file returns, computed by scikit-learn."""
    raw = predict_raw(model, join_inputs(inputs))
    if job.target is None:
        assert job.shape.num_classes is not None
        known = model.classes_.astype(np.int64)
        logits = to_logits(raw, known=known, num_classes=job.shape.num_classes)
        return (logits / temperature).astype(np.float32)
    return job.target.restore(raw).astype(np.float32)
