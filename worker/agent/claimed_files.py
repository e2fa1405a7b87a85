"""Files that a claim names beside data set and checkpoints, brought into the job directory."""

from collections.abc import Callable
from functools import partial

from redkiln.protocol import ClaimResponse
from worker.agent.client import AttemptClient, Refused
from worker.agent.stopping import StopSignal
from worker.agent.transfer import WrongDigest, fetch_file
from worker.jobdir import JobDir


def fetch_bundle(
    claim: ClaimResponse, jobdir: JobDir, client: AttemptClient, stop: StopSignal
) -> str | None:
    """The code of a script; its path.

    Raises:
        ServiceError: see `worker.agent.client`.
        Stopped: the attempt was asked to stop meanwhile.
        WrongDigest: see `fetch_file`; likewise `OSError`.
    """
    if claim.bundle is None:
        return None
    path = jobdir.root / "bundle.tar"
    opener = client.open_bundle
    fetch_file(lambda start: opener(start=start), path, sha256=claim.bundle.sha256, stop=stop)
    return str(path)


def fetch_initial(
    claim: ClaimResponse,
    jobdir: JobDir,
    client: AttemptClient,
    stop: StopSignal,
    *,
    warn: Callable[[str], None],
) -> str | None:
    """The weights of the job that this one starts from; their path, or None and a warning.

    Raises:
        ServiceError: see `worker.agent.client`; but for a refusal.
        Stopped: the attempt was asked to stop meanwhile.
    """
    initial = claim.initial
    if initial is None:
        return None
    path = jobdir.root / "initial.safetensors"
    opener = partial(client.open_blob, initial.sha256)
    try:
        fetch_file(lambda start: opener(start=start), path, sha256=initial.sha256, stop=stop)
    except (Refused, WrongDigest) as error:
        warn(f"the weights of {initial.job_id} were not had: {error}")
        return None
    return str(path)
