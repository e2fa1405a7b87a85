"""The fixtures of `tests.worker.training`, for the tests of this room."""

from tests.worker.training import fake_device, make_event_log, run_out_of_memory, start

__all__ = ["fake_device", "make_event_log", "run_out_of_memory", "start"]
