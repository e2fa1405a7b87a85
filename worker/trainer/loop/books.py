"""What a loop keeps of a run besides the weights: its state, checkpoints, time and losses."""

from dataclasses import dataclass

from worker.checkpoints.checkpoint import CheckpointStore
from worker.checkpoints.history import LossCurve
from worker.trainer.insight.insight import Insight
from worker.trainer.loop.account import Account
from worker.trainer.loop.losses import Losses
from worker.trainer.loop.saving import Saving
from worker.trainer.loop.state import TrainingState
from worker.trainer.loop.step import Stepper
from worker.trainer.loop.trainer_process import TrainerProcess
from worker.trainer.setup import TrainingSetup


@dataclass(frozen=True)
class Books:
    """The records of a run.

    Attributes:
        state: Everything that the next step depends on.
        saving: Writes it into checkpoints.
        account: Speed, progress and metrics.
        losses: Losses of the newest steps, read together.
    """

    state: TrainingState
    saving: Saving
    account: Account
    losses: Losses


def open_books(
    setup: TrainingSetup,
    process: TrainerProcess,
    stepper: Stepper,
    *,
    store: CheckpointStore,
    insight: Insight,
) -> Books:
    """Open the records of a run that has made no step yet."""
    event_log, ranks = process.event_log, process.ranks
    state = TrainingState(
        model=setup.model,
        optimizer=stepper.optimizer,
        scaling=stepper.scaling,
        curve=LossCurve(steps=setup.plan.steps),
        ema=stepper.ema,
        device=process.device,
        reading=setup.reading,
    )
    saving = Saving(
        setup,
        state,
        store=store,
        event_log=event_log,
        insight=insight,
        is_writer=ranks.is_first,
    )
    account = Account(setup.plan, state, event_log=event_log, insight=insight)
    losses = Losses(state, ranks=ranks, pace=setup.batches.pace, account=account, store=store)
    return Books(state, saving, account, losses)
