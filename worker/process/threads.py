"""Sets how compute threads wait for each other. Imports no torch, because it must run before it."""

import os

ENVIRONMENT = {"GOMP_SPINCOUNT": "10000"}
"""Environment variables read by libgomp when torch loads it.

By default a thread that has finished its share spins for milliseconds until the others finish. If
the host's cores also run a service, an export or another job, spinning takes the core from the very
thread that is waited for; but sleeping at once costs a wake-up at each of a step's hundred waits.
Step time of amdnet, batch 64, by spin count, alone and next to four busy processes: 1,000 spins 42
to 46 ms and 148 ms; 10,000 spins, about 0.2 ms, 34 to 36 ms and 167 ms; 300,000 spins, the default,
34 to 35 ms and 368 ms (2 cores of an EPYC 7003, torch 2.13, November 2026).
"""


def yield_while_waiting() -> None:
    """Make waiting threads sleep soon, unless the environment says otherwise."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
