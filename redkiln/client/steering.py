"""Changing what happens to a job that was submitted."""

from typing import Unpack

from redkiln.client import calls
from redkiln.client.requests import Requests
from redkiln.client.selection import Selection, to_params
from redkiln.spec.job_spec import Engine
from redkiln.views.bulk import BulkChange
from redkiln.views.job import JobView


class Steering(Requests):
    """Client methods that steer jobs."""

    def cancel(self, job_id: str) -> JobView:
        """Cancel a job; it is `cancelling` until its trainer has exited.

        Raises:
            Conflict: It has already ended, other than by being cancelled.
        """
        return self._steer(job_id, "cancel")

    def pause(self, job_id: str) -> JobView:
        """Pause a job; once it is `paused`, its GPU is free.

        Raises:
            Conflict: It has ended, or is being cancelled.
        """
        return self._steer(job_id, "pause")

    def resume(self, job_id: str, *, engine: Engine | None = None) -> JobView:
        """Resume a paused job where it stopped.

        Args:
            job_id: Id of the job, or its name for the newest of that name.
            engine: Engine to continue with; None: the same.

        Raises:
            Conflict: It is not paused.
            Rejected: The engine cannot train the job.
        """
        if engine is None:
            return self._steer(job_id, "resume")
        response = self._connection.request(
            "POST", f"/v1/jobs/{self._job_id(job_id)}/resume", json={"engine": engine}
        )
        return JobView.model_validate_json(response.content)

    def finish(self, job_id: str) -> JobView:
        """Stop training a job now and export its best checkpoint so far.

        Also exports the best checkpoint of a job that was paused or cancelled, or has failed.

        Raises:
            Conflict: It has succeeded, or there is nothing to export yet.
        """
        return self._steer(job_id, "finish")

    def set_priority(self, job_id: str, priority: int) -> JobView:
        """Change the priority of a job that has not ended; higher runs first.

        Args:
            job_id: Id of the job, or its name for the newest of that name.
            priority: From -100 to 100.

        Raises:
            Conflict: It has ended.
        """
        response = self._connection.request(
            "POST",
            f"/v1/jobs/{self._job_id(job_id)}/priority",
            json={"priority": priority},
            repeatable=True,
        )
        return JobView.model_validate_json(response.content)

    def move(self, job_id: str, *, before: str | None = None, after: str | None = None) -> JobView:
        """Move a queued job directly before or after another one, whose priority it gets.

        Args:
            job_id: Id or name of the job to move.
            before: Id or name of the queued job that it is to be ahead of; or
            after: id or name of the queued job that it is to be behind.

        Raises:
            Conflict: One of the jobs is not queued.
            Rejected: Not exactly one other job is named.
        """
        others = {"before": before, "after": after}
        place = {side: self._job_id(job) for side, job in others.items() if job is not None}
        response = self._connection.request(
            "POST", f"/v1/jobs/{self._job_id(job_id)}/move", json=place, repeatable=True
        )
        return JobView.model_validate_json(response.content)

    def retry(self, job_id: str, *, start: str | int = "newest") -> JobView:
        """Run a job again that has failed or was cancelled.

        Args:
            job_id: Id of the job, or its name for the newest of that name.
            start: `newest` or `best` checkpoint, the step of one, or `start` for the beginning.

        Raises:
            Conflict: It has not ended, or has succeeded.
            Rejected: It has no such checkpoint.
        """
        response = self._connection.request(
            "POST", f"/v1/jobs/{self._job_id(job_id)}/retry", json={"from": start}
        )
        return JobView.model_validate_json(response.content)

    def delete(self, job_id: str) -> None:
        """Delete a job that has ended, with its artifacts, events and logs.

        Raises:
            Conflict: It has not ended; cancel it first.
        """
        self._connection.request("DELETE", f"/v1/jobs/{self._job_id(job_id)}")

    def cancel_all(self, *, dry_run: bool = False, **selection: Unpack[Selection]) -> BulkChange:
        """Cancel all jobs that the filters select; without `status`, those that have not ended.

        Args:
            dry_run: Only list the jobs.
            **selection: At least one filter, as in `jobs`: `status` (one or several), `task`,
                `dataset` (an id), `search` or `metadata`.

        Raises:
            Rejected: No filter is given.
        """
        return self._change_all("POST", "/v1/jobs/cancel", selection, dry_run=dry_run)

    def delete_all(self, *, dry_run: bool = False, **selection: Unpack[Selection]) -> BulkChange:
        """Delete all jobs that the filters select; without `status`, those that have ended.

        Args:
            dry_run: Only list the jobs.
            **selection: At least one filter, as in `cancel_all`.

        Raises:
            Rejected: No filter is given.
        """
        return self._change_all("DELETE", "/v1/jobs", selection, dry_run=dry_run)

    def _change_all(
        self, method: str, path: str, selection: Selection, *, dry_run: bool
    ) -> BulkChange:
        if selection.get("status") == []:
            raise ValueError("status is an empty list; leave it out, or name at least one")
        whole = BulkChange(dry_run=dry_run)
        while True:
            options = {"dry_run": "true" if dry_run else None, "after": whole.last_id}
            params = {**to_params(selection), **options}
            response = self._connection.request(method, path, params=params, repeatable=True)
            part = BulkChange.model_validate_json(response.content)
            whole.done += part.done
            whole.refused += part.refused
            if not part.has_more or part.last_id is None:
                return whole
            whole.last_id = part.last_id

    def _steer(self, job_id: str, verb: str) -> JobView:
        return self._connection.send(calls.steer(self._job_id(job_id), verb))
