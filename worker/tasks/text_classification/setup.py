"""The task `text-classification`."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from redkiln.spec.job_spec import JobSpec
from redkiln.spec.schedule import FALLING_WARMUP, warmup_fraction
from redkiln.tasks.text_classification import (
    FROM_SCRATCH_LR,
    NGRAMS,
    PRETRAINED_LR,
    TextClassificationSpec,
    TextTraining,
)
from worker.export.exportable import Exportable
from worker.export.labelling import calibrate_labels, give_probabilities
from worker.export.scoring.classification import Classification
from worker.export.target import ExportTarget, Scoring
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.text_classification.baselines import list_baselines
from worker.tasks.text_classification.card import write_text_texts
from worker.tasks.text_classification.companion import TextCompanion
from worker.tasks.text_classification.exported import (
    TextSamples,
    make_text_exportable,
    preprocessing_of_texts,
)
from worker.tasks.text_classification.previews import MOST_CHARACTERS, build_text_preview
from worker.trainer.autotune.batch_size import reference_batch_size, scale_rate
from worker.trainer.autotune.opened import measure_open
from worker.trainer.autotune.probing import Probe
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.devices import autocast_of, device_facts
from worker.trainer.insight.shortened import shorten
from worker.trainer.models.backbone import build_freezer
from worker.trainer.optim.label_losses import build_label_loss
from worker.trainer.optim.losses import Loss, build_classifier_loss
from worker.trainer.plan import plan_training
from worker.trainer.precision import deny, resolve_precision
from worker.trainer.scoring.evaluate import evaluate_classifier
from worker.trainer.scoring.labels import LABEL_METRICS, evaluate_labels, is_better_labeller
from worker.trainer.scoring.validation import build_evaluation, is_better_classifier
from worker.trainer.setup import TrainingSetup
from worker.trainer.text.batches import LengthBatches, ResidentTexts, padding_multiple
from worker.trainer.text.initial_weights import TextStart, open_start
from worker.trainer.text.network import TextClassifier, build_network
from worker.trainer.text.table import TextTable, open_text_table
from worker.trainer.text.trial_reading import check_ends, check_reading, takes_prepared_mask

EVALUATION_BATCH = 128
DEFAULT_RATES = (FROM_SCRATCH_LR, PRETRAINED_LR)
EXAMPLE_CHARACTERS = 120
"""Characters of the text in the code of the report."""
METRICS = ("val/loss", "val/accuracy", "val/macro_f1")


def prepare(
    order: Order,
    spec: JobSpec,
    *,
    device: torch.device,
    event_log: EventLog,
    reading: str | None = None,
) -> TrainingSetup:
    """Tokenise the data, resolve the spec, and build the model on the device.

    Raises:
        TrainingFailed: the data or the spec cannot be trained.
    """
    assert isinstance(spec, TextClassificationSpec)
    fraction = spec.training.validation_fraction
    table = open_text_table(order.required_dataset, validation_fraction=fraction)
    start = open_start(spec, table, order, event_log=event_log, reading=reading)
    resolved = spec.model_copy(deep=True, update={"model": start.model})
    training, config = resolved.training, start.model.config
    max_length = _max_length(resolved)
    _warn_of_texts(start, max_length=max_length, event_log=event_log)
    torch.manual_seed(training.seed)
    model = start.build(say=event_log.message)
    if start.model.name == NGRAMS and start.job is None:
        model.network.learn_rarity(
            map(torch.from_numpy, start.tokens.iter_rows(table.rows["train"]))
        )
    vocabulary_size = int(config["vocab_size"])
    check_reading(model, max_length=max_length, vocabulary_size=vocabulary_size)
    check_ends(model, start.tokens, table)
    texts = ResidentTexts(
        start.tokens,
        table.labels.astype(np.float32) if table.has_labels else table.labels,
        rows=table.rows,
        device=device,
        multiple=padding_multiple(device.type),
        is_mask_prepared=takes_prepared_mask(
            model, max_length=max_length, vocabulary_size=vocabulary_size
        ),
    )
    model = model.to(device)
    loss = _build_loss(training, table, device)
    _tune(resolved, model, texts, loss, order=order, device=device, event_log=event_log)
    assert training.batch_size != "auto"
    autocast = partial(autocast_of, device, training.precision)
    return TrainingSetup(
        spec=resolved,
        plan=plan_training(training, num_train=texts.num("train")),
        model=model,
        batches=LengthBatches(texts, batch_size=training.batch_size, seed=training.seed),
        loss=loss,
        evaluate=build_evaluation(
            model,
            texts,
            evaluate_labels if table.has_labels else evaluate_classifier,
            batch_size=EVALUATION_BATCH,
            autocast=autocast,
            names=LABEL_METRICS if table.has_labels else METRICS,
        ),
        is_better=is_better_labeller if table.has_labels else is_better_classifier,
        make_exportable=partial(_exportable, model, table, config=config, max_length=max_length),
        counts={split: texts.num(split) for split in ("train", "validation", "test")},
        data_bytes=texts.size_bytes,
        preview=build_text_preview(model, texts, table, autocast=autocast),
        freezer=build_freezer(model, epochs=training.freeze_backbone_epochs, say=event_log.message),
        reading=start.reading,
    )


def open_target(
    order: Order,
    spec: JobSpec,
    *,
    weights: Mapping[str, torch.Tensor],
    event_log: EventLog,
    reading: str | None = None,
) -> ExportTarget:
    """Return the trained network with the texts that it is scored on.

    Raises:
        TrainingFailed: the data set is missing or has changed.
    """
    assert isinstance(spec, TextClassificationSpec)
    fraction = spec.training.validation_fraction
    table = open_text_table(order.required_dataset, validation_fraction=fraction)
    start = open_start(spec, table, order, event_log=event_log, reading=reading)
    network = build_network(spec.model.config)
    network.load_state_dict(weights)
    max_length, classes = _max_length(spec), table.index.classes
    exportable = _exportable(network, table, config=spec.model.config, max_length=max_length)
    samples = TextSamples(start.tokens)
    scoring: Scoring = Classification(classes)
    if table.has_labels:
        exportable, scoring = calibrate_labels(
            exportable, samples, table.labels, classes=classes, validation=table.rows["validation"]
        )
    preprocessing = preprocessing_of_texts(
        start.tokens,
        column=table.index.columns[0].name,
        target=table.index.target,
        max_length=max_length,
        output=exportable.output,
        labels_separator=table.index.labels_separator,
        encoding=table.index.encoding,
        lowercase=spec.model.options.lowercase if spec.model.pretrained is None else None,
    )
    companion = TextCompanion(table, start.reading, preprocessing, len(classes))
    return ExportTarget(
        spec=spec,
        exportable=exportable,
        samples=samples,
        targets=table.labels,
        rows=table.rows,
        scoring=scoring,
        preprocessing=preprocessing,
        companion=companion if spec.model.interface == "embedded" else None,
        texts=write_text_texts(
            spec.model.model_dump(),
            num_classes=len(classes),
            preprocessing=preprocessing,
            facts=start.tokens.facts.model_dump(),
            example=shorten(next(table.iter_some(table.rows["test"]), ""), EXAMPLE_CHARACTERS),
        ),
        notes=table.index.notes,
        held_out_test=table.index.held_out_test,
        baselines=list_baselines(table),
        files={"tokenizer.json": start.reading.encode()},
        reading=start.reading,
        describe_rows=lambda places: [
            shorten(text, MOST_CHARACTERS) for text in table.iter_some(places)
        ],
    )


def _build_loss(training: TextTraining, table: TextTable, device: torch.device) -> Loss:
    classes, labels = table.index.classes, table.labels[table.rows["train"]]
    if table.has_labels:
        counts = labels.sum(axis=0, dtype=np.int64).tolist()
        return build_label_loss(
            training, classes=classes, counts=counts, num=len(labels), device=device
        )
    counts = np.bincount(labels, minlength=len(classes)).tolist()
    return build_classifier_loss(training, classes=classes, counts=counts, device=device)


def _exportable(
    network: TextClassifier, table: TextTable, *, config: dict[str, Any], max_length: int
) -> Exportable:
    exportable = make_text_exportable(network, config=config, max_length=max_length)
    return give_probabilities(exportable) if table.has_labels else exportable


def _max_length(spec: TextClassificationSpec) -> int:
    assert spec.model.options.max_length != "auto"
    return spec.model.options.max_length


def _warn_of_texts(start: TextStart, *, max_length: int, event_log: EventLog) -> None:
    facts = start.tokens.facts
    if facts.num_truncated:
        event_log.warning(
            "texts_cut",
            f"{facts.num_truncated:,} of {facts.num_rows:,} texts are longer than {max_length} "
            "tokens and were truncated; raise model.options.max_length to read more of them",
        )
    if facts.num_empty:
        event_log.warning(
            "texts_empty",
            f"{facts.num_empty:,} of {facts.num_rows:,} texts have no token that the tokenizer "
            "knows; the model cannot read them; remove them, or use another pretrained model",
        )


def _tune(
    resolved: TextClassificationSpec,
    model: TextClassifier,
    texts: ResidentTexts,
    loss: Loss,
    *,
    order: Order,
    device: torch.device,
    event_log: EventLog,
) -> None:
    """Resolve the remaining `auto` values, by rules or by measuring texts of typical length."""
    training = resolved.training
    num_train = texts.num("train")
    length = texts.usual_length
    remembered = Remembered.on(device, order.paths.cache_dir)
    config = resolved.model.config
    # The number of classes makes no difference, and it varies between data sets.
    shape = {name: value for name, value in config.items() if name != "num_labels"}
    key = {"model": shape, "length": length}
    make_batch = partial(texts.make_up, length=length, vocabulary=int(config["vocab_size"]))
    probe = Probe(model, loss, make_batch, training, device)
    asked = training.batch_size
    usual: int = reference_batch_size(num_train) if asked == "auto" else asked
    training.schedule.warmup_fraction = warmup_fraction(training.schedule, falling=FALLING_WARMUP)
    if training.compile == "auto":
        # Batches have many shapes, and each would be compiled separately.
        training.compile = "off"

    is_open = training.precision == "auto"
    facts = deny(device_facts(device, patches=order.patches), order.denied)
    training.precision = resolve_precision(training.precision, device=facts)
    measure_open(
        probe,
        order,
        num_train=num_train,
        is_precision_open=is_open,
        key=key,
        remembered=remembered,
        event_log=event_log,
    )
    assert training.batch_size != "auto"
    if asked == "auto" and training.optimizer.lr in DEFAULT_RATES:
        training.optimizer.lr = scale_rate(
            training.optimizer.lr, batch_size=training.batch_size, reference=usual
        )
        event_log.message(f"lr is {training.optimizer.lr:g}, scaled with the batch size")
    if asked not in ("auto", training.batch_size):
        taken = training.batch_size
        message = f"batch_size is {taken}, not {asked}: the training split has no more texts"
        event_log.warning("batch_size_reduced", message)
    if training.precision == "fp16" and device.type == "cpu":
        message = "fp16 on a CPU takes many times as long as fp32; use fp32, or auto"
        event_log.warning("fp16_on_cpu", message)
