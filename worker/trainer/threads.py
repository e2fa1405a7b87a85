"""How this process's compute threads wait for each other. Imports no torch: it must come first."""

import os

ENVIRONMENT = {"GOMP_SPINCOUNT": "1000"}
"""Read by libgomp when torch loads it.

By default a thread that has finished its share spins for milliseconds until the others have. On a
host whose cores also run a service, an export or another job, the spinning keeps the very thread
from running that is waited for: the step of amdnet took 350 to 470 ms instead of 51 to 150 ms
(2 cores of an EPYC 7003 shared with a load of 5, torch 2.13, November 2026). A thousand turns are
some 20 microseconds, longer than an undisturbed wait.
"""


def yield_while_waiting() -> None:
    """Have threads sleep soon when they wait, unless the environment says otherwise."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
