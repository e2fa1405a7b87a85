"""What a training loop needs to know about the process that it runs in."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from worker.process.event_log import EventLog
from worker.trainer.ranks.distributed import ALONE, Ranks


@dataclass(frozen=True)
class TrainerProcess:
    """The process that trains, or one of several.

    Attributes:
        device: Device that it trains on.
        event_log: Its event log.
        should_stop: Returns whether somebody asked it to stop.
        ranks: The processes that share each batch.
    """

    device: torch.device
    event_log: EventLog
    should_stop: Callable[[], bool]
    ranks: Ranks = ALONE
