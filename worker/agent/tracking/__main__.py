"""The process that follows an attempt's events and reports them to an MLflow server.

The file of events is the buffer: while the server is unreachable, the process only remembers how
far it has read. `follower` starts it, and puts the server and the credentials into its environment,
where MLflow's client finds them.
"""

import os
import select
import sys
import time

from mlflow.tracking import MlflowClient

from worker.agent.backoff import Backoff
from worker.agent.tracking.messages import Ending, RunFacts
from worker.agent.tracking.run import MlflowAway, TrackedRun

BATCH_SECONDS = 2.0
RETRY_SECONDS = 0.5
"""Pause between two tries while the agent waits."""
NICENESS = 5
"""Training comes first where both need the same core."""


def main() -> None:
    """Report an attempt until the agent writes its ending, or is gone."""
    os.nice(NICENESS)
    # What libraries print goes to the log; only the answer goes to the agent.
    answer = os.dup(1)
    os.dup2(2, 1)
    with open(0, "rb", buffering=0) as inbox:
        run = TrackedRun(MlflowClient(), RunFacts.model_validate_json(inbox.readline()))
        backoff = Backoff(cap_seconds=30.0)
        seconds = 0.0
        while not select.select([inbox], [], [], seconds)[0]:
            seconds = BATCH_SECONDS
            try:
                run.follow()
                backoff.reset()
            except MlflowAway as error:
                sys.stderr.write(f"MLflow is unreachable; retrying: {error}\n")
                seconds = backoff.next_seconds()
        if line := inbox.readline():
            os.write(answer, (end(run, Ending.model_validate_json(line)) or "").encode())


def end(run: TrackedRun, ending: Ending) -> str | None:
    """Report the end of an attempt; return a warning about what did not arrive."""
    give_up_at = time.monotonic() + ending.timeout_seconds
    while True:
        try:
            run.follow()
            run.end(ending)
            return run.refusal and f"MLflow refused some of the run's data: {run.refusal}"
        except MlflowAway as error:
            if time.monotonic() > give_up_at:
                return f"MLflow did not accept everything in time: {error}"
            time.sleep(RETRY_SECONDS)


if __name__ == "__main__":
    main()
