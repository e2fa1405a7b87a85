"""Watching a job in a terminal, until it has ended."""

from rich.console import Console

from redkiln.client import Client, Disconnected, Reconnected, Snapshot
from redkiln.job import JobView


def watch_job(client: Client, job_id: str, console: Console) -> JobView:
    """Show a job on the console until it has ended, and return it as it ended.

    Ctrl-C (KeyboardInterrupt) ends the watching, never the job.

    Raises:
        ApiError: the service refused, or does not know the job.
        ConnectionFailed: the service was away for ten minutes.
    """
    for update in client.watch(job_id):
        if isinstance(update, Snapshot):
            continue
        if isinstance(update, Disconnected):
            console.print(f"The connection is lost ({update.reason}); trying again")
        elif isinstance(update, Reconnected):
            console.print("The connection is back")
        else:
            console.print(f"{update.kind} {update.data}", markup=False)
    return client.job(job_id)
