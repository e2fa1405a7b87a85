"""Fine-tunes the best network with int8 rounding, after its training: quantisation-aware training.

Each of its checkpoints is the last one of the training, with the tensors `quantize/*` added. So a
run resumes as if its training had just ended, and then continues the fine-tuning. Its steps are
counted on from those of the training.
"""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from redkiln.events import EventKind
from redkiln.spec.exports import Export
from redkiln.spec.image_training import Quantize
from redkiln.spec.optimizers import AdamW
from redkiln.status import Phase
from redkiln.tasks.image_classification import ImageTraining
from redkiln.views.job import Progress
from worker.checkpoints.checkpoint import Checkpoint, CheckpointStore
from worker.export.rehearsal import is_rehearsed, keep_verdict, rehearsal_key
from worker.jobdir import JobDir, Order
from worker.process.event_log import EventLog
from worker.process.lifetime import Stopped, StopSignal
from worker.qat.network import load_state, prepare
from worker.trainer.loop.saving import report_diverged
from worker.trainer.optim.optimizer import (
    build_optimizer,
    load_optimizer_tensors,
    optimizer_tensors,
)
from worker.trainer.ranks.distributed import Ranks
from worker.trainer.setup import TrainingSetup

PREFIX = "quantize"
"""Prefix of the tensors that the fine-tuning adds to a checkpoint."""
DONE = "fine_tuned_steps"
"""Entry of a checkpoint's state: steps of fine-tuning that it contains."""
TRAINED = "trained_steps"
"""Entry of a checkpoint's state: steps of the training before it."""
REMEDY = "Try a lower training.quantize.lr."


def is_asked(export: Export) -> bool:
    """Return whether a job writes a file that needs the fine-tuning."""
    return any(variant.name == "int8-qat" for variant in export.variants)


def rehearse_fine_tuning(order: Order, setup: TrainingSetup, event_log: EventLog) -> None:
    """Make the int8 form of the untrained network if the job asks for it.

    Raises:
        TrainingFailed: It cannot be made.
    """
    gate = setup.spec.export
    if not is_asked(gate):
        return
    exportable, cache_dir = setup.make_exportable(), order.paths.cache_dir
    key = f"{rehearsal_key(exportable.architecture, gate)}-qat"
    if is_rehearsed(key, cache_dir=cache_dir):
        return
    # Imported here, because it loads the exporter's libraries.
    from worker.export.variants.fine_tuned import rehearse_fine_tuned

    event_log.enter(Phase.REHEARSING)
    state = torch.get_rng_state()
    rehearse_fine_tuned(exportable, opset=gate.opset, threads=order.threads)
    torch.set_rng_state(state)
    keep_verdict(key, cache_dir=cache_dir, facts={})
    event_log.message("export rehearsal passed for int8-qat")


def fine_tune(
    order: Order,
    setup: TrainingSetup,
    job_dir: JobDir,
    ranks: Ranks,
    stop: StopSignal,
    event_log: EventLog,
) -> bool:
    """Fine-tune the best network for int8 if the job asks for it; return whether that was done.

    Raises:
        Stopped: A stop was requested; the newest state is in a checkpoint.
        TrainingFailed: The fine-tuning diverged.
    """
    training = setup.spec.training
    if not is_asked(setup.spec.export) or order.is_finishing:
        return False
    if not ranks.is_alone:
        message = "int8-qat is left out, because the fine-tuning uses only one GPU; use gpus: 1"
        event_log.warning("not_fine_tuned", message)
        return False
    assert isinstance(training, ImageTraining)
    store = CheckpointStore(job_dir.checkpoints_dir, keep_last=training.keep_checkpoints)
    FineTuning(setup, training.quantize, store, event_log, lambda: stop.requested).run()
    return True


@dataclass
class FineTuning:
    """The fine-tuning of one job.

    Attributes:
        setup: The job, whose training has ended.
        quantize: Length and learning rate.
        store: The job's checkpoints.
        should_stop: Returns whether somebody asked the process to stop.
    """

    setup: TrainingSetup
    quantize: Quantize
    store: CheckpointStore
    event_log: EventLog
    should_stop: Callable[[], bool]
    _model: nn.Module = field(init=False)
    _optimizer: torch.optim.Optimizer = field(init=False)
    _base: Checkpoint = field(init=False)
    _saved_at: float = field(init=False, default_factory=time.perf_counter)
    _step: int = 0

    def run(self) -> None:
        """Fine-tune to the end; the newest checkpoint then has the network.

        Raises:
            Stopped: A stop was requested; the newest state is in a checkpoint.
            TrainingFailed: A loss is not finite.
        """
        self.event_log.enter(Phase.TRAINING)
        self._base = self.store.load(self.store.manifests()[-1].name)
        self._build()
        while self._step < self._num_steps:
            if self.should_stop():
                self._save()
                raise Stopped
            self._take_step()
        if self._base.manifest.state.get(DONE) != self._num_steps:
            self._save()

    @property
    def _num_steps(self) -> int:
        return self.quantize.epochs * self.setup.plan.steps_per_epoch

    @property
    def _trained_steps(self) -> int:
        manifest = self._base.manifest
        return int(manifest.state.get(TRAINED, manifest.step))

    def _build(self) -> None:
        """Prepare the best network, and restore what an earlier attempt has done."""
        best = self.store.find_best() or self._base.manifest
        network = copy.deepcopy(self.setup.model)
        network.load_state_dict(self.store.load(best.name).weights)
        images, _ = self._read_batch()
        self._model = prepare(network, images[:2])
        settings = AdamW(lr=self.quantize.lr, weight_decay=0.0)
        self._optimizer = build_optimizer(self._model, settings)  # type: ignore[assignment]
        tensors = self._base.tensors_of(f"{PREFIX}/model")
        if tensors:
            load_state(self._model, tensors)
            moments = self._base.tensors_of(f"{PREFIX}/optimizer")
            load_optimizer_tensors(self._model, self._optimizer, moments)
            self._step = int(self._base.manifest.state[DONE])
        self._model.train()

    def _read_batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the images and targets of the next step."""
        epoch, place = divmod(self._step, self.setup.plan.steps_per_epoch)
        images, targets = self.setup.batches.get(self.setup.plan.epochs + epoch, place)
        assert isinstance(images, torch.Tensor)
        return images.contiguous(), targets

    def _take_step(self) -> None:
        images, targets = self._read_batch()
        # Dropout draws the same numbers in a resumed run.
        torch.manual_seed(self.setup.spec.training.seed + self._trained_steps + self._step)
        loss = self.setup.loss(self._model(images), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._step += 1
        if self.event_log.is_progress_due() or self._is_epoch_over:
            self._report(loss.item())
        if self._is_epoch_over or self._is_save_due:
            self._save()

    @property
    def _is_epoch_over(self) -> bool:
        return self._step % self.setup.plan.steps_per_epoch == 0

    @property
    def _is_save_due(self) -> bool:
        seconds = self.setup.spec.training.checkpoint_seconds
        return time.perf_counter() - self._saved_at >= seconds

    def _report(self, loss: float) -> None:
        step, per_epoch = self._trained_steps + self._step, self.setup.plan.steps_per_epoch
        if not math.isfinite(loss):
            what = f"the loss of the int8 fine-tuning is {loss} at step {step}"
            raise report_diverged(what, step, self.store, remedy=REMEDY)
        steps = self._trained_steps + self._num_steps
        self.event_log.progress(
            Progress(
                epoch=math.ceil(step / per_epoch),
                epochs=math.ceil(steps / per_epoch),
                step=step,
                steps=steps,
                fraction=step / steps,
                activity="fine-tuning for int8",
                metrics={"quantize/loss": loss},
            )
        )
        if self._is_epoch_over:
            done = f"epoch {self._step // per_epoch}/{self.quantize.epochs}"
            self.event_log.log(f"fine-tuning for int8: {done}, loss {loss:.4g}")

    def _save(self) -> None:
        manifest = self._base.manifest
        kept = {k: v for k, v in self._base.tensors.items() if not k.startswith(f"{PREFIX}/")}
        moments = optimizer_tensors(self._model, self._optimizer)
        saved = self.store.save(
            {
                **kept,
                **{f"{PREFIX}/model/{k}": v for k, v in self._model.state_dict().items()},
                **{f"{PREFIX}/optimizer/{k}": v for k, v in moments.items()},
            },
            step=self._trained_steps + self._step,
            epoch=(self._trained_steps + self._step) // self.setup.plan.steps_per_epoch,
            is_best=False,
            metrics={},
            threads=torch.get_num_threads(),
            device=manifest.device,
            state={
                **manifest.state,
                TRAINED: self._trained_steps,
                DONE: self._step,
                "seconds": dict(self.event_log.settle()),
            },
        )
        self._saved_at = time.perf_counter()
        self.event_log.flush_points()
        self.event_log.write(
            EventKind.CHECKPOINT,
            step=saved.step,
            epoch=saved.epoch,
            file=saved.name,
            is_best=False,
            metrics={},
        )
