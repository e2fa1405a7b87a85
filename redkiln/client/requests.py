"""The base class of all parts of the client: how they send requests."""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from redkiln.client import calls
from redkiln.client.calls import View
from redkiln.client.connection import Connection, RetryPolicy
from redkiln.errors import DatasetWarning
from redkiln.views.dataset import DatasetStatus, DatasetView
from redkiln.views.job import JobSummary

_NO_DATASET_NAME = ("ds_", "builtin:")


class Requests:
    """A connection, and the two ways to read from it: one object, or pages of a list.

    Attributes:
        warns_of_data: Whether a data set with warnings is a `DatasetWarning`, once a client.
    """

    warns_of_data: bool = True
    _connection: Connection
    _policy: RetryPolicy
    _warned_of: set[str]

    def _get(self, path: str, view: type[View], params: Mapping[str, Any] | None = None) -> View:
        return self._connection.send(calls.get(path, view, params))

    def _pages(
        self, path: str, view: type[View], params: Mapping[str, Any] | None = None
    ) -> Iterator[View]:
        after: str | None = None
        while True:
            page = self._connection.send(calls.get_page(path, view, params, after=after))
            yield from page.data
            if not page.has_more or page.last_id is None:
                return
            after = page.last_id

    def _warn_of_data(self, dataset: DatasetView) -> None:
        """Warn the caller of a method of the client, once for each data set."""
        if self.warns_of_data:
            warn_of_data(dataset, self._warned_of, stacklevel=4)

    def _job_id(self, named: str) -> str:
        """Return the id of a job: `named` if it is one, else that of the newest of this name.

        A name that no job has is returned as it is, quoted, so that the service refuses it.
        """
        if calls.is_job_id(named):
            return named
        jobs = self._pages("/v1/jobs", JobSummary, calls.search(named))
        return next((job.id for job in jobs if job.name == named), quote(named, safe=""))

    def _dataset_id(self, named: str) -> str:
        """Return the id of a data set: `named` if it is one, else that of a set of this name.

        It is the newest that is not invalid, as in job specs: a refused push hides no good data
        set. A name that no data set has is returned as it is, quoted, so that the service
        refuses it.
        """
        if named.startswith(_NO_DATASET_NAME):
            return named
        found = list(self._pages("/v1/datasets", DatasetView, {"name": named}))
        usable = [one for one in found if one.status != DatasetStatus.INVALID]
        return next((one.id for one in usable + found), quote(named, safe=""))


def warn_of_data(dataset: DatasetView, warned_of: set[str], *, stacklevel: int) -> None:
    """Issue a `DatasetWarning` if the data set has warnings, unless its id is in `warned_of`."""
    if dataset.warnings and dataset.id not in warned_of:
        warned_of.add(dataset.id)
        warnings.warn(DatasetWarning(dataset), stacklevel=stacklevel)
