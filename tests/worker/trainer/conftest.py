"""The fixtures of `tests.worker.training` for this room, whose tests draw no figures."""

from tests.worker.figures import blank_figures
from tests.worker.training import fake_device, make_event_log, run_out_of_memory, start

__all__ = ["blank_figures", "fake_device", "make_event_log", "run_out_of_memory", "start"]
