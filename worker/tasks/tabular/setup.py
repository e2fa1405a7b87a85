"""Networks for tables, shared by the two tabular tasks: the resolved spec, model and batches."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch

from redkiln.failure import FailureCode
from redkiln.spec.job_spec import Training
from redkiln.spec.schedule import warmup_fraction
from redkiln.spec.tabular import TabularModel
from worker.engines.job import (
    choose_batch,
    compile_engine,
    describe_engine,
    step_size,
    uses_engine,
)
from worker.engines.network import EngineNetwork
from worker.engines.opening import open_engine
from worker.export.exportable import Exportable
from worker.export.labelling import calibrate_labels, give_probabilities
from worker.export.scoring.temperature import calibrate
from worker.export.target import ExportTarget, Scoring
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.tasks.tabular.baselines import list_baselines
from worker.tasks.tabular.card import write_table_texts
from worker.tasks.tabular.embedded import open_embedding
from worker.tasks.tabular.exported import TableSamples, describe_preparation, make_table_exportable
from worker.tasks.tabular.few_rows import choose_least_epochs, describe_few
from worker.tasks.tabular.opened import TableJob, TabularSpec
from worker.tasks.tabular.original_row import open_rows
from worker.tasks.tabular.previews import build_table_preview
from worker.tasks.tabular.smearing import smear
from worker.tasks.tabular.weight_logs import find_weight_logs
from worker.trainer.autotune.batch_size import LARGEST, spread_over_ranks
from worker.trainer.autotune.probing import Probe
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.sizing import tune_batch_size
from worker.trainer.devices import autocast_of, device_facts
from worker.trainer.inputs import Batch, as_parts
from worker.trainer.models.from_job import describe_initial_weights
from worker.trainer.models.table_network import TableShape, TabularNetwork, auto_embedding_size
from worker.trainer.models.tabular import build_tabular_model, tabular_architecture
from worker.trainer.plan import Plan, plan_training
from worker.trainer.precision import DeviceFacts, deny, resolve_precision
from worker.trainer.scoring.labels import LABEL_METRICS
from worker.trainer.scoring.validation import Score, build_evaluation
from worker.trainer.setup import TrainingSetup
from worker.trainer.tables.batches import ResidentRows, TrainRows
from worker.trainer.tables.initial_weights import take_table_weights
from worker.trainer.tables.members import average_losses, choose_ensemble_batch, spread_rows

EVALUATION_BATCH = 4096
SMALL_STEP_FLOPS = 2e8
"""Steps with fewer operations than this run in one thread: waking others takes as long as their
work would, and other jobs can use the cores. 67 MFLOP (128 and 64 hidden, batch 1024) took 3.3 ms
with one thread and 3.6 to 4.3 ms with two (2 cores of an EPYC 7003, torch 2.13, best of 8 times 40
steps, November 2026). 170 MFLOP of tabm (30 numbers, batch 32) took 2.2 ms with one thread and 1.9
with two, and 6 and 30 ms while other programs were busy (medians of 40 steps)."""

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def prepare_table(
    job: TableJob,
    order: Order,
    spec: TabularSpec,
    *,
    device: torch.device,
    event_log: EventLog,
    build_loss: Callable[[ResidentRows], Loss],
    build_score: Callable[[Loss], Score],
    is_better: Callable[[dict[str, float], dict[str, float]], bool],
) -> TrainingSetup:
    """Prepare the rows and build the model on the device.

    Args:
        job: The opened table.
        order: Order of the job.
        spec: The parsed spec.
        device: Device to train on.
        event_log: Receives warnings about the table or the spec.
        build_loss: Builds the loss; it may depend on counts of the rows.
        build_score: Builds the function that scores the validation split, from the loss.
        is_better: Whether the first metrics beat the second.

    Raises:
        TrainingFailed: the spec cannot be trained.
    """
    job.warn(event_log)
    rows = ResidentRows(
        job.table,
        job.preparation,
        job.targets,
        unknown_places=job.shape.unknown_places,
        validation_fraction=spec.training.validation_fraction,
        device=device,
    )
    resolved = _resolve(spec, job, device=deny(device_facts(device), order.denied))
    training = resolved.training
    torch.manual_seed(training.seed)
    model = _build_started(resolved.model, job, rows, event_log).to(device)
    loss = average_losses(build_loss(rows), model)
    if device.type == "cpu" and _is_small(model, training):
        torch.set_num_threads(1)
    choose_batch(resolved, num_train=rows.num("train"))
    engine = _find_engine(resolved, model, rows, order)
    if model.num_members > 1 and training.batch_size == "auto":
        training.batch_size = _batch_of_ensemble(rows.num("train"), num_ranks=order.num_ranks)
    _tune_batch_size(
        resolved, order, model, loss, rows, job.shape, device=device, event_log=event_log
    )
    assert training.batch_size != "auto"
    plan = plan_training(training, num_train=rows.num("train"))
    setup = TrainingSetup(
        spec=resolved,
        plan=plan,
        model=model,
        batches=TrainRows(rows, batch_size=training.batch_size, seed=training.seed),
        loss=loss,
        evaluate=build_evaluation(
            engine or model,
            rows,
            build_score(loss),
            batch_size=EVALUATION_BATCH // model.num_members,
            autocast=partial(autocast_of, device, training.precision),
            names=training.metrics if job.table.labels is None else LABEL_METRICS,
        ),
        is_better=is_better,
        make_exportable=partial(_exportable, model, job, resolved.model),
        counts={split: rows.num(split) for split in ("train", "validation", "test")},
        data_bytes=rows.size_bytes,
        preview=build_table_preview(
            model,
            rows,
            job.table,
            target=job.target,
            autocast=partial(autocast_of, device, training.precision),
        ),
        reading=job.reading.model_dump_json(),
        forward=engine,
        facts=describe_engine(engine),
        least_epochs=_find_least_epochs(model, job, resolved, event_log, plan=plan),
    )
    if engine is not None:
        compile_engine(setup, engine, event_log)
    return setup


def _find_least_epochs(
    model: TabularNetwork, job: TableJob, spec: TabularSpec, event_log: EventLog, *, plan: Plan
) -> int:
    if model.num_members == 1 or job.start.job is not None or not spec.training.validation_fraction:
        return 0
    least = choose_least_epochs(job, spec, plan=plan)
    if least:
        event_log.message(
            f"The best epoch is chosen from epoch {least} on: with only {describe_few(job, spec)}, "
            "an earlier one may look best by chance. With a patience that you choose, all epochs "
            "count: --set training.early_stopping=20"
        )
    return least


def _find_engine(
    spec: TabularSpec, model: TabularNetwork, rows: ResidentRows, order: Order
) -> EngineNetwork | None:
    """Return the network as the job's engine runs it; None with torch.

    Raises:
        TrainingFailed: The engine has no device here, or cannot run the network.
    """
    if not uses_engine(spec):
        return None
    if model.num_members > 1:
        message = (
            "model.pretrained names a tabm model, which only torch trains; remove resources.engine"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/resources/engine")
    inputs, _ = _first_rows(rows, step_size(spec))
    return open_engine(
        model, as_parts(inputs), cache_dir=order.paths.cache_dir, device=order.engine_device
    )


def open_table_target(
    job: TableJob,
    order: Order,
    spec: TabularSpec,
    *,
    weights: Mapping[str, torch.Tensor],
    scoring: Scoring,
) -> ExportTarget:
    """Return the trained model with the rows that it is scored on."""
    if spec.is_estimator:
        # Imported here, because networks do not need scikit-learn.
        from worker.tasks.tabular.boosting.setup import open_boosting_target

        return open_boosting_target(job, order, spec, weights=weights, scoring=scoring)
    network = build_tabular_model(spec.model, job.shape)
    network.load_state_dict(weights)
    exportable, samples = _exportable(network, job, spec.model), TableSamples(job.table)
    index, temperature, restoring = job.table.index, 1.0, job
    rows = job.table.split(validation_fraction=spec.training.validation_fraction)
    if job.table.labels is not None:
        exportable, scoring = calibrate_labels(
            exportable,
            samples,
            job.table.labels,
            classes=index.classes,
            validation=rows["validation"],
        )
    elif job.target is None:
        labels = job.targets.astype(np.int64)
        predict = exportable.predict
        temperature = calibrate(predict, samples, labels, rows["validation"])
        exportable = _exportable(network, job, spec.model, temperature=temperature)
    elif job.is_log:
        restoring = smear(
            job,
            spec,
            predict=exportable.predict,
            samples=samples,
            validation=rows["validation"],
        )
        exportable = _exportable(network, restoring, spec.model)
    preprocessing = describe_preparation(
        job.table,
        job.preparation,
        output=exportable.output,
        temperature=temperature,
        scale=restoring.target,
    )
    if (logs := find_weight_logs(job, spec)) is not None:
        preprocessing["weight_logs"] = logs
    preprocessing, embedding = open_embedding(spec, job.table, preprocessing)
    return ExportTarget(
        spec=spec,
        exportable=exportable,
        samples=samples,
        targets=job.table.targets if job.table.labels is None else job.table.labels,
        rows=rows,
        scoring=scoring,
        preprocessing=preprocessing,
        texts=write_table_texts(job.table, spec.model, preprocessing=preprocessing),
        notes=index.notes,
        held_out_test=index.held_out_test,
        baselines=list_baselines(job.table, job.preparation, is_log=job.is_log),
        reading=job.reading.model_dump_json(),
        describe_rows=open_rows(job.table),
        embedding=embedding,
    )


def _resolve(spec: TabularSpec, job: TableJob, *, device: DeviceFacts) -> TabularSpec:
    resolved = spec.model_copy(deep=True, update={"model": job.start.model.model_copy(deep=True)})
    options = resolved.model.options
    if options.embedding_size == "auto":
        options.embedding_size = auto_embedding_size(job.shape.num_categories)
    training = resolved.training
    training.schedule.warmup_fraction = warmup_fraction(training.schedule)
    # These matrices are small: casting them to bf16 takes longer than it saves.
    wanted = "fp32" if training.precision == "auto" else training.precision
    training.precision = resolve_precision(wanted, device=device)
    if training.compile == "auto" and device.kind == "cpu":
        # Most time goes into matrix products and random numbers, which compiling does not speed up.
        training.compile = "off"
    return job.resolve_target(resolved)


def _build_started(
    model: TabularModel, job: TableJob, rows: ResidentRows, event_log: EventLog
) -> TabularNetwork:
    network = build_tabular_model(model, job.shape)
    start = job.start
    if start.reading is None:
        inputs, targets = rows.get_batch(spread_rows(rows.rows["train"]))
        numbers, places = job.shape.split_inputs(*as_parts(inputs))
        network.to(rows.device).fit(numbers, places, targets)
    if start.job is not None and start.reading is not None:
        is_same = job.target is None or start.reading.target == job.table.index.target
        new = take_table_weights(network, start.job, is_target_same=is_same)
        event_log.message(describe_initial_weights(model.pretrained, new))
    return network


def _is_small(model: TabularNetwork, training: Training) -> bool:
    rows = LARGEST if training.batch_size == "auto" else training.batch_size
    # Two operations per product and sum, once forward and twice backward.
    parameters = model.num_members * sum(p.numel() for p in model.parameters())
    return 6 * rows * parameters <= SMALL_STEP_FLOPS


def _batch_of_ensemble(num_train: int, *, num_ranks: int) -> int:
    size = choose_ensemble_batch(num_train)
    if num_ranks == 1:
        return size
    return spread_over_ranks(size, num_ranks=num_ranks, num_train=num_train)


def _tune_batch_size(
    spec: TabularSpec,
    order: Order,
    model: TabularNetwork,
    loss: Loss,
    rows: ResidentRows,
    shape: TableShape,
    *,
    device: torch.device,
    event_log: EventLog,
) -> None:
    num_train = rows.num("train")
    asked = spec.training.batch_size
    tune_batch_size(
        Probe(model, loss, partial(_first_rows, rows), spec.training, device),
        num_train=num_train,
        key=tabular_architecture(spec.model, shape),
        remembered=Remembered.on(device, order.paths.cache_dir),
        event_log=event_log,
        num_ranks=order.num_ranks,
    )
    taken = spec.training.batch_size
    if asked not in ("auto", taken):
        message = f"batch_size is {taken}, not {asked}: the training split has no more rows"
        event_log.warning("batch_size_reduced", message)


def _first_rows(rows: ResidentRows, num: int) -> Batch:
    """Return a batch of `num` rows, repeating them if there are fewer."""
    train = rows.rows["train"]
    places = torch.arange(num, device=train.device) % len(train)
    return rows.get_batch(train[places])


def _exportable(
    network: TabularNetwork, job: TableJob, model: TabularModel, *, temperature: float = 1.0
) -> Exportable:
    exportable = make_table_exportable(
        network,
        job.shape,
        job.preparation,
        target=job.target,
        architecture=tabular_architecture(model, job.shape),
        temperature=temperature,
    )
    return exportable if job.table.labels is None else give_probabilities(exportable)
