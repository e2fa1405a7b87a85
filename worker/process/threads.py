"""How this process's compute threads wait for each other. Imports no torch: it must come first."""

import os

ENVIRONMENT = {"GOMP_SPINCOUNT": "10000"}
"""Read by libgomp when torch loads it.

By default a thread that has finished its share spins for milliseconds until the others have. On a
host whose cores also run a service, an export or another job, the spinning keeps the very thread
from running that is waited for; sleeping at once costs a wake-up at each of a step's hundred waits.
The step of amdnet, batch 64, in ms by turns of the spin, first alone and then beside four busy
processes: 1,000 turns 42 to 46 and 148; 10,000 turns, some 0.2 ms, 34 to 36 and 167; 300,000 turns,
the default, 34 to 35 and 368 (2 cores of an EPYC 7003, torch 2.13, November 2026).
"""


def yield_while_waiting() -> None:
    """Have threads sleep soon when they wait, unless the environment says otherwise."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
