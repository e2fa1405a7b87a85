"""Downloads a claim's files, other than data set and checkpoints, into the job directory."""

from collections.abc import Callable
from functools import partial

from redkiln.protocol import ClaimResponse
from worker.agent.client import AttemptClient, Refused
from worker.agent.data.transfer import WrongDigest, fetch_file
from worker.agent.stopping import StopSignal
from worker.jobdir import JobDir


def fetch_bundle(
    claim: ClaimResponse, jobdir: JobDir, client: AttemptClient, stop: StopSignal
) -> str | None:
    """Download a script's code and return its path.

    Raises:
        ServiceError: See `worker.agent.client`.
        Stopped: The attempt was asked to stop meanwhile.
        WrongDigest: See `fetch_file`.
        OSError: See `fetch_file`.
    """
    if claim.bundle is None:
        return None
    path = jobdir.root / "bundle.tar"
    opener = client.open_bundle
    fetch_file(lambda start: opener(start=start), path, sha256=claim.bundle.sha256, stop=stop)
    return str(path)


def fetch_manifest(
    claim: ClaimResponse, jobdir: JobDir, client: AttemptClient, stop: StopSignal
) -> str | None:
    """Download the manifest of the job that is exported again, and return its path.

    Raises:
        ServiceError: See `worker.agent.client`.
        Stopped: The attempt was asked to stop meanwhile.
        WrongDigest: See `fetch_file`.
        OSError: See `fetch_file`.
    """
    manifest = claim.manifest
    if manifest is None:
        return None
    path = jobdir.root / "source-manifest.json"
    opener = partial(client.open_blob, manifest.sha256)
    fetch_file(lambda start: opener(start=start), path, sha256=manifest.sha256, stop=stop)
    return str(path)


def fetch_initial(
    claim: ClaimResponse,
    jobdir: JobDir,
    client: AttemptClient,
    stop: StopSignal,
    *,
    warn: Callable[[str], None],
) -> str | None:
    """Download the weights of the job that this one starts from.

    Returns:
        The file's path, or None after a warning if the weights could not be fetched.

    Raises:
        ServiceError: See `worker.agent.client`; a refusal becomes a warning instead.
        Stopped: The attempt was asked to stop meanwhile.
    """
    initial = claim.initial
    if initial is None:
        return None
    path = jobdir.root / "initial.safetensors"
    opener = partial(client.open_blob, initial.sha256)
    try:
        fetch_file(lambda start: opener(start=start), path, sha256=initial.sha256, stop=stop)
    except (Refused, WrongDigest) as error:
        warn(f"The weights of {initial.job_id} could not be fetched: {error}")
        return None
    return str(path)
