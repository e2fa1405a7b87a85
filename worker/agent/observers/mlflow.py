"""An attempt as a run of an MLflow server, through its REST interface.

    GET  experiments/get-by-name, POST experiments/create    the experiment, created if missing
    POST runs/search, runs/create                            one run for all attempts of a job
    POST runs/log-batch, runs/update                         parameters, metrics, tags, status
    PUT  mlflow-artifacts/artifacts/<path>                   files, if the server stores them

Source: mlflow.org/docs/latest/rest-api.html; limits of a batch: 1000 metrics, 100 parameters, 1 MB.
Allowed names: mlflow `utils/validation.py` (all releases; newer ones also allow `:`).
"""

import hashlib
import json
import math
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from redkiln.tls import tls_for

API = "/api/2.0/mlflow"
FILES = "/api/2.0/mlflow-artifacts/artifacts"
TIMEOUT = httpx.Timeout(connect=5.0, read=20.0, write=60.0, pool=20.0)
MAX_METRICS, MAX_PARAMS = 1000, 100
MAX_VALUE = 500
"""Characters of a parameter's value that servers of every release accept."""
MAX_NAME = 250
"""Characters of the name of a parameter, a metric or a tag that servers accept."""
PASSING = {408, 425, 429, 500, 502, 503, 504}
JOB_TAG = "redkiln.job_id"


class MlflowAway(Exception):  # noqa: N818  # the name states the fault
    """The server is unreachable or cannot answer now."""


class MlflowRefused(Exception):  # noqa: N818
    """The server understood the request and refused it."""


@dataclass(frozen=True)
class Metric:
    """A point of a series; `at_ms` is milliseconds since 1970."""

    key: str
    value: float
    step: int
    at_ms: int


class MlflowClient:
    """Client of one MLflow server.

    Args:
        uri: Address of the server; may contain a user and a password for it.
        token: Bearer token, used instead of a user and a password.
    """

    def __init__(
        self,
        uri: str,
        *,
        token: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # As for the service: no proxy and no credentials from the environment.
        self._http = httpx.Client(
            base_url=uri.rstrip("/"),
            headers=headers,
            timeout=TIMEOUT,
            trust_env=False,
            transport=transport,
            verify=tls_for(uri),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def find_or_create_experiment(self, name: str) -> str:
        """Return the id of an experiment, which is created if it does not exist.

        Raises:
            MlflowAway, MlflowRefused: See the classes.
        """
        found = self._send("GET", f"{API}/experiments/get-by-name?experiment_name={quote(name)}")
        if found.status_code == 404:
            created = self._send("POST", f"{API}/experiments/create", {"name": name})
            if created.is_success:
                return str(_read(created)["experiment_id"])
            # Another worker may have created it meanwhile.
            found = self._send(
                "GET", f"{API}/experiments/get-by-name?experiment_name={quote(name)}"
            )
        return str(_read(found)["experiment"]["experiment_id"])

    def find_run(self, experiment_id: str, *, job_id: str) -> dict[str, Any] | None:
        """Find the run of a job that an earlier attempt created."""
        body = {
            "experiment_ids": [experiment_id],
            "filter": f"tags.`{JOB_TAG}` = '{job_id}'",
            "max_results": 1,
        }
        runs = _read(self._send("POST", f"{API}/runs/search", body)).get("runs", [])
        return runs[0] if runs else None

    def create_run(
        self, experiment_id: str, *, name: str, tags: Mapping[str, str], at_ms: int
    ) -> dict[str, Any]:
        """Create a run with the status RUNNING."""
        body = {
            "experiment_id": experiment_id,
            "run_name": name,
            "start_time": at_ms,
            "tags": [{"key": key, "value": value} for key, value in tags.items()],
        }
        run: dict[str, Any] = _read(self._send("POST", f"{API}/runs/create", body))["run"]
        return run

    def log(
        self,
        run_id: str,
        *,
        metrics: Sequence[Metric] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Add to a run, in as many requests as necessary.

        Points whose value is not finite are omitted, because JSON cannot represent them.
        """
        finite = [
            {"key": m.key, "value": m.value, "timestamp": m.at_ms, "step": m.step}
            for m in metrics
            if math.isfinite(m.value)
        ]
        parameters = [{"key": k, "value": v[:MAX_VALUE]} for k, v in (params or {}).items()]
        marks = [{"key": k, "value": v} for k, v in (tags or {}).items()]
        bodies: list[dict[str, Any]] = [
            {"params": parameters[start : start + MAX_PARAMS]}
            for start in range(0, len(parameters), MAX_PARAMS)
        ]
        bodies += [
            {"metrics": finite[start : start + MAX_METRICS]}
            for start in range(0, len(finite), MAX_METRICS)
        ]
        if marks:
            bodies.append({"tags": marks})
        for body in bodies:
            _read(self._send("POST", f"{API}/runs/log-batch", {"run_id": run_id, **body}))

    def update_run(self, run_id: str, *, status: str, at_ms: int | None = None) -> None:
        """Set a run's status: RUNNING, FINISHED, FAILED or KILLED."""
        ending = {} if at_ms is None else {"end_time": at_ms}
        _read(
            self._send("POST", f"{API}/runs/update", {"run_id": run_id, "status": status, **ending})
        )

    def put_file(self, folder: str, path: Path) -> None:
        """Store a file in a run's folder, as returned by `find_folder`."""
        with path.open("rb") as file:
            target = f"{FILES}/{quote(folder)}/{quote(path.name)}"
            try:
                response = self._http.put(
                    target, content=file, headers={"Content-Type": "application/octet-stream"}
                )
            except httpx.HTTPError as error:
                raise MlflowAway(repr(error)) from error
        _read(_pass(response))

    def _send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        try:
            response = self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise MlflowAway(repr(error)) from error
        return _pass(response)


def find_folder(run: Mapping[str, Any]) -> str | None:
    """Return the run's folder on the server; None if the server does not accept files."""
    uri = urlsplit(str(run["info"].get("artifact_uri", "")))
    return uri.path.strip("/") if uri.scheme == "mlflow-artifacts" else None


def make_name(name: str) -> str:
    """Return a name that servers accept: unchanged, or its allowed characters and a digest.

    The digest distinguishes names that otherwise become equal, such as `>50K` and `<50K`.
    """
    if _is_name(name):
        return name
    digest = hashlib.sha256(name.encode(errors="backslashreplace")).hexdigest()[:8]
    readable = _NOT_IN_NAMES.sub("_", name)[: MAX_NAME - len(digest) - 1]
    shortened = f"{readable}-{digest}"
    if _is_name(shortened):
        return shortened
    return f"{readable.replace('/', '_').lstrip('.')}-{digest}"


def flatten(spec: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield a resolved spec as parameters: `training.optimizer.lr` -> `0.002`."""
    for key, value in spec.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flatten(value, f"{name}.")
        elif value is not None:
            yield make_name(name), value if isinstance(value, str) else json.dumps(value)


_NOT_IN_NAMES = re.compile(r"[^\w./ -]")


def _is_name(name: str) -> bool:
    """Return whether a server accepts a name; servers may use it as a path."""
    is_path = posixpath.normpath(name) == name != "." and not name.startswith(("..", "/"))
    return is_path and len(name) <= MAX_NAME and not _NOT_IN_NAMES.search(name)


def _pass(response: httpx.Response) -> httpx.Response:
    if response.status_code in PASSING:
        raise MlflowAway(f"status {response.status_code}")
    return response


def _read(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json() if response.content else {}
    except ValueError:
        body = None
    if response.is_success and isinstance(body, dict):
        return body
    what = body.get("message") if isinstance(body, dict) else None
    raise MlflowRefused(f"{what or response.reason_phrase} ({response.status_code})")
