"""Chooses the network of `model: auto`, by the time that the larger one would take here."""

from collections.abc import Callable
from functools import partial

import torch
from torch.nn import functional

from redkiln.spec.image_models import LARGE_MODEL, SMALL_MODEL, Choice, choose_by_data
from redkiln.spec.quality import Quality
from redkiln.tasks.image_classification import ImageClassificationSpec, Model
from worker.engines.job import uses_engine
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.tasks.image_classification.targets import make_up_images
from worker.trainer.autotune.batch_size import reference_batch_size
from worker.trainer.autotune.estimate import describe_time
from worker.trainer.autotune.layout import FORMATS, choose_memory_format
from worker.trainer.autotune.probing import Probe, measure_speeds
from worker.trainer.autotune.remembered import Remembered
from worker.trainer.autotune.step_trials import drawing_apart, warming
from worker.trainer.devices import device_facts
from worker.trainer.models import build_model
from worker.trainer.plan import count_samples

BUDGET_SECONDS = 600.0
"""Longest training with the larger network that `auto` starts unless it is asked for quality."""
ENOUGH_A_SECOND = 500.0
"""Images per second from which the larger network is chosen however long the training takes: so
much data deserve it, and the machine is made for it."""
TRIED_BATCH = 32
"""Most images per step of the trial; larger steps take longer with the same result."""
TRIED_CLASSES = 10
"""Classes of the network in the trial; their number hardly changes a step's time."""


def choose_model(
    quality: Quality,
    *,
    size: int,
    channels: int,
    num_train: int,
    num_samples: int,
    place: str,
    measure: Callable[[], float | None],
) -> Choice:
    """Choose the network.

    A step of resnet18 takes many times as long as one of a small network. On a GPU that is seconds;
    on a small CPU it can be hours.

    Args:
        quality: `quality` of the spec.
        size: Side of the images in pixels.
        channels: 1 for grey images, 3 for colour.
        num_train: Training images.
        num_samples: Images that training processes in all epochs together.
        place: Device, for people.
        measure: Returns the larger network's training images per second on all devices of the job;
            None if it cannot be measured. Called only if the rest leaves the choice open.
    """
    choice = choose_by_data(quality, size=size, channels=channels, num_train=num_train)
    if choice is not None:
        return choice
    rate = measure()
    if rate is None:
        return Choice(SMALL_MODEL, f"{LARGE_MODEL} cannot be measured on {place}")
    return _choose_by_rate(rate, num_samples=num_samples, place=place)


def _choose_by_rate(rate: float, *, num_samples: int, place: str) -> Choice:
    seconds = num_samples / rate
    took = (
        f"{LARGE_MODEL} trains {rate:,.0f} images a second on {place}, which takes about "
        f"{describe_time(seconds)}"
    )
    if rate >= ENOUGH_A_SECOND or seconds <= BUDGET_SECONDS:
        return Choice(LARGE_MODEL, took)
    limit = describe_time(BUDGET_SECONDS)
    return Choice(SMALL_MODEL, f"{took}, more than {limit}; `quality: best` trains it nevertheless")


def fill_in_model(
    resolved: ImageClassificationSpec,
    order: Order,
    *,
    num_train: int,
    device: torch.device,
    event_log: EventLog,
) -> dict[str, str]:
    """Replace `model: auto` in a spec that is resolved otherwise.

    Returns:
        The reason, for the environment of the job; empty if the user named the model.
    """
    remembered = Remembered.on(device, order.paths.cache_dir)
    known = partial(_find_rate, resolved, order, remembered)
    choose = partial(
        choose_model,
        resolved.quality,
        size=int(resolved.model.options.image_size),
        channels=int(resolved.model.options.channels),
        num_train=num_train,
        num_samples=_count_samples(resolved, num_train),
        place="this CPU" if device.type == "cpu" else "this GPU",
    )
    model = resolved.model
    if model.source != "builtin":
        return {}
    if model.name != "auto":
        return _explain_resumed(model.name, order, lambda: choose(measure=known))
    choice = choose(
        measure=lambda: known() or _measure(resolved, order, remembered, device, event_log)
    )
    event_log.message(f"model auto is {choice.name}: {choice.why}")
    model.name = choice.name
    return {"model_auto": f"{choice.name}: {choice.why}"}


def _explain_resumed(name: str, order: Order, choose: Callable[[], Choice]) -> dict[str, str]:
    """Return the reason for what an earlier attempt chose, which a resumed run keeps."""
    asked = order.spec.get("model", "auto")
    if isinstance(asked, dict) and asked.get("pretrained") is not None:
        return {}
    asked = asked.get("name", "auto") if isinstance(asked, dict) else asked
    if asked != "auto":
        return {}
    choice = choose()
    why = choice.why if choice.name == name else "chosen when the training began"
    return {"model_auto": f"{name}: {why}"}


def _count_samples(spec: ImageClassificationSpec, num_train: int) -> int:
    batch = spec.training.batch_size
    size = reference_batch_size(num_train) if batch == "auto" else batch
    return count_samples(spec.training, num_train=num_train, batch_size=size)


def _key(spec: ImageClassificationSpec, order: Order) -> dict[str, object]:
    options, training = spec.model.options, spec.training
    return {
        "model": LARGE_MODEL,
        "size": options.image_size,
        "channels": options.channels,
        "precision": training.precision,
        "memory_format": training.memory_format,
        "gradient_checkpointing": training.gradient_checkpointing,
        "ranks": order.num_ranks,
    }


def _find_rate(spec: ImageClassificationSpec, order: Order, remembered: Remembered) -> float | None:
    rate: float | None = remembered.find("large_model_rate", _key(spec, order))
    return rate


def _measure(
    spec: ImageClassificationSpec,
    order: Order,
    remembered: Remembered,
    device: torch.device,
    event_log: EventLog,
) -> float | None:
    """Return the images per second of a few real steps; None if memory or torch is missing."""
    if uses_engine(spec):
        return None
    with warming(event_log):
        event_log.message(
            f"timing a training step of {LARGE_MODEL}: if it is fast enough here, `model: auto` "
            "chooses this model"
        )
        try:
            speeds = measure_speeds(
                _build_probe(spec, order, device), [TRIED_BATCH], is_enough=lambda _: True
            )
        except torch.OutOfMemoryError:
            return None
    rate = speeds.rates[TRIED_BATCH] * order.num_ranks
    remembered.save("large_model_rate", _key(spec, order), rate)
    return rate


def _build_probe(spec: ImageClassificationSpec, order: Order, device: torch.device) -> Probe:
    options, training = spec.model.options, spec.training
    training = training.model_copy(update={"accumulation": 1})
    layout = training.memory_format
    if layout == "auto":
        facts = device_facts(device, patches=order.patches)
        layout = choose_memory_format(facts, precision=training.precision)
    with drawing_apart(device):
        large = Model(name=LARGE_MODEL, options=options)
        model = build_model(large, num_classes=TRIED_CLASSES)
    form = FORMATS[layout]
    model = model.to(device=device, memory_format=form)  # type: ignore[call-overload]
    make_batch = partial(make_up_images, options, TRIED_CLASSES, form, device)
    return Probe(model, functional.cross_entropy, make_batch, training, device)
