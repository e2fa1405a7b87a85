"""`python -m worker`: one worker process, until SIGTERM."""

import argparse
import os
import signal
import sys
import threading
import time

from redkiln.imports import collector_off

with collector_off():
    import structlog
    from pydantic import ValidationError

    from worker.agent.agent import Agent
    from worker.agent.inventory import InventoryFailed
    from worker.agent.workdir import FolderInUse
    from worker.app import listen, stop_listening
    from worker.logs import configure_logging
    from worker.script.bounds.processes import hide_memory
    from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)

EXIT_CONFIG = 78
"""Exit status if the worker's configuration is wrong (EX_CONFIG); a restart would not help."""
LINGER_SECONDS = 15.0
"""Time for Celery to leave a broker that hangs, after all attempts are handed back."""


def main(argv: list[str] | None = None) -> int:
    """Run the worker and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m worker", description=__doc__)
    parser.add_argument(
        "--no-broker",
        action="store_true",
        help="find jobs only by polling, even if a broker is set",
    )
    arguments = parser.parse_args(argv)
    hide_memory()  # the environment may hold the worker's key, and scripts run as the same user
    try:
        settings = WorkerSettings()
    except ValidationError as error:
        parser.error(str(error))
    if arguments.no_broker:
        settings = settings.model_copy(update={"broker_url": None})
    configure_logging(settings.log_level)
    agent = Agent(settings, on_fatal=lambda: os.kill(os.getpid(), signal.SIGTERM))
    # Celery replaces these with its own handlers, but the first attempt may start before that.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.ask_to_stop())
    try:
        agent.start()
    except (FolderInUse, InventoryFailed, OSError) as error:
        log.critical("the worker cannot start", reason=str(error))
        return EXIT_CONFIG
    if settings.broker_url is not None:
        threading.Thread(target=_stop_celery_when_done, args=(agent,), daemon=True).start()
        listen(agent, broker_url=settings.broker_url)
    agent.wait_until_stopping()
    agent.join()
    return _exit_status(agent)


def _stop_celery_when_done(agent: Agent) -> None:
    agent.wait_until_stopping()
    # SIGTERM may have arrived before Celery installed its handlers.
    stop_listening()
    agent.join()
    time.sleep(LINGER_SECONDS)
    log.warning("leaving without a reply from the broker")
    os._exit(_exit_status(agent))


def _exit_status(agent: Agent) -> int:
    return EXIT_CONFIG if agent.fatal else 0


if __name__ == "__main__":
    sys.exit(main())
