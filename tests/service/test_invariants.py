"""Invariants of jobs and attempts, whatever happens in whatever order."""

import hashlib
import itertools
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from redkiln.events import Event
from redkiln.protocol import (
    ArtifactCommit,
    CheckpointCommit,
    ClaimRequest,
    FinishRequest,
    ReportRequest,
)
from redkiln.status import AttemptStatus, JobStatus
from service.artifacts.models import Artifact
from service.attempts.checkpoints import commit_checkpoint
from service.attempts.fencing import renew_all
from service.attempts.models import ATTEMPT, Attempt, Checkpoint
from service.attempts.report import take_report
from service.database import database_now, read_now
from service.datasets.rules import ensure_builtins
from service.errors import Conflict, NotFound, Superseded
from service.housekeeping import collect_blobs, reap_expired
from service.http.access import LOCAL
from service.jobs.models import Job, JobEvent
from service.jobs.removal import delete_job
from service.jobs.steering import cancel, pause, resume, retry
from service.jobs.submit import submit
from service.workers.rules import hello
from tests.service.ground import WORKERS, Ground, Held, open_services

ENDS = ("succeeded", "failed", "cancelled")
OUTCOMES = ["succeeded", "failed", "released", "paused", "cancelled"]


@pytest.fixture(scope="module", autouse=True)
def _template(tmp_path_factory):
    """A migrated state folder, copied for each run."""
    state_dir = tmp_path_factory.mktemp("template")
    services = open_services(state_dir)
    services.database.write(ensure_builtins)
    services.database.close()
    Machine.template = state_dir


class Machine(Ground, RuleBasedStateMachine):
    """The service's functions over a real database, called by workers that may be outdated."""

    template: Path
    jobs = Bundle("jobs")
    attempts = Bundle("attempts")

    def __init__(self):
        RuleBasedStateMachine.__init__(self)
        Ground.__init__(self, self.template)

    def teardown(self):
        self.close()

    @rule(target=jobs, priority=st.integers(-1, 1), failures=st.integers(0, 2))
    def submits(self, priority, failures):
        body = {
            "dataset": "builtin:digits",
            "priority": priority,
            "retry": {"failures": failures, "lost_workers": 2},
        }
        settings = self.services.settings
        return self.write(
            lambda s: submit(s, settings, body, caller=LOCAL, idempotency_key=None)
        ).job_id

    @rule(target=attempts, worker=st.sampled_from(WORKERS))
    def claims(self, worker):
        self.num_claims += 1
        request = ClaimRequest(
            claim_id=f"c{self.num_claims}",
            worker_id=worker,
            boot_id=str(self.boots[worker]),
            devices=["cpu"],
        )
        best = self.best_queued()
        claimed = self.claim(request)
        if claimed is None:
            assert best is None, "a queued job and a free worker"
            return multiple()
        assert claimed.job_id == best
        committed = self.rows(Checkpoint, Checkpoint.job_id == claimed.job_id)
        newest = max((row.step for row in committed), default=None)
        assert [ref.step for ref in claimed.checkpoints][:1] == [newest][: len(committed)]
        return Held(claimed.attempt_id, claimed.job_id, claimed.fence, claim=request)

    @rule(held=attempts)
    def repeats_a_claim(self, held):
        if not self.rows(Job, Job.id == held.job_id):
            return
        worker = held.claim.worker_id
        if held.claim.boot_id != str(self.boots[worker]):
            with pytest.raises(Superseded):
                self.claim(held.claim)
        else:
            assert self.claim(held.claim).attempt_id == held.id

    @rule(held=attempts, count=st.integers(0, 3), resent=st.integers(0, 2))
    def reports(self, held, count, resent):
        first = max(1, held.seq + 1 - resent)
        num_events = held.seq + 1 - first + count
        now = datetime.now(UTC)
        events = [Event(at=now, kind="message", data={"text": "x"}) for _ in range(num_events)]
        report = ReportRequest(first_seq=first, events=events)
        answer = self.fenced(
            held,
            lambda s: take_report(
                s, self.services.settings, attempt_id=held.id, fence=held.fence, report=report
            ),
        )
        if answer is not None:
            held.seq += count
            assert answer.acked_seq == held.seq
            job = self.job(held.job_id)
            told = {JobStatus.CANCELLING: "cancel", JobStatus.PAUSING: "pause"}
            assert answer.command == told.get(job.status, "continue")

    @rule(held=attempts, is_best=st.booleans())
    def commits_a_checkpoint(self, held, is_best):
        held.steps += 10
        data = f"{held.id} {held.steps}".encode()
        commit = CheckpointCommit(
            step=held.steps,
            sha256=hashlib.sha256(data).hexdigest(),
            size_bytes=len(data),
            is_best=is_best,
            manifest={},
        )

        def run(session):
            self.store(session, held, data)
            return commit_checkpoint(
                session,
                self.services.settings,
                self.services.storage,
                attempt_id=held.id,
                fence=held.fence,
                commit=commit,
            )

        self.fenced(held, run)

    @rule(held=attempts, outcome=st.sampled_from(OUTCOMES))
    def finishes(self, held, outcome):
        data = b"the model"
        sha256 = hashlib.sha256(data).hexdigest()
        artifact = ArtifactCommit(
            name="model.onnx",
            kind="model",
            media_type="application/onnx",
            sha256=sha256,
            size_bytes=len(data),
        )
        artifacts = [artifact] if outcome == "succeeded" else []
        request = FinishRequest(outcome=outcome, last_seq=held.seq, artifacts=artifacts)
        if held.finished:
            return self.finishes_again(held, request)

        def run(session):
            self.store(session, held, data)
            return self.finish(session, held, request)

        answer = self.fenced(held, run)
        if answer is not None:
            held.finished = [request, answer]
        return None

    def finishes_again(self, held, request):
        if not self.rows(Job, Job.id == held.job_id):
            return
        before = self.dump()
        if request == held.finished[0]:
            assert self.write(lambda s: self.finish(s, held, request)) == held.finished[1]
        else:
            with pytest.raises(Conflict):
                self.write(lambda s: self.finish(s, held, request))
        assert self.dump() == before

    @rule(job_id=jobs)
    def cancels(self, job_id):
        status = self.status(job_id)
        run = lambda s: cancel(s, job_id, now=read_now(s)).status  # noqa: E731
        if status is None:
            with pytest.raises(NotFound):
                self.write(run)
        elif status in (JobStatus.SUCCEEDED, JobStatus.FAILED):
            with pytest.raises(Conflict):
                self.write(run)
        else:
            assert self.write(run) in (JobStatus.CANCELLED, JobStatus.CANCELLING)

    @rule(job_id=jobs)
    def pauses(self, job_id):
        status = self.status(job_id)
        run = lambda s: pause(s, job_id, now=read_now(s)).status  # noqa: E731
        if status is None:
            with pytest.raises(NotFound):
                self.write(run)
        elif status == JobStatus.CANCELLING or JobStatus(status).is_terminal:
            with pytest.raises(Conflict):
                self.write(run)
        else:
            assert self.write(run) in (JobStatus.PAUSING, JobStatus.PAUSED)

    @rule(job_id=jobs)
    def resumes(self, job_id):
        status = self.status(job_id)
        run = lambda s: resume(s, job_id, now=read_now(s)).status  # noqa: E731
        if status in (JobStatus.PAUSED, JobStatus.QUEUED):
            assert self.write(run) == JobStatus.QUEUED
        elif status == JobStatus.RUNNING:
            assert self.write(run) == JobStatus.RUNNING
        elif status is not None:
            with pytest.raises(Conflict):
                self.write(run)

    @rule(job_id=jobs, start=st.sampled_from(["newest", "start"]))
    def retries(self, job_id, start):
        status = self.status(job_id)
        run = lambda s: retry(s, job_id, start=start, now=read_now(s)).status  # noqa: E731
        if status in (JobStatus.FAILED, JobStatus.CANCELLED):
            assert self.write(run) == JobStatus.QUEUED
            self.ended.pop(job_id)
            if start == "start":
                assert self.rows(Checkpoint, Checkpoint.job_id == job_id) == []
        elif status is not None:
            with pytest.raises(Conflict):
                self.write(run)

    @rule(job_id=jobs)
    def deletes(self, job_id):
        status = self.status(job_id)
        if status is None:
            return
        if JobStatus(status).is_terminal:
            self.write(lambda s: delete_job(s, job_id))
            self.ended.pop(job_id, None)
        else:
            with pytest.raises(Conflict):
                self.write(lambda s: delete_job(s, job_id))

    @rule(held=attempts)
    def a_lease_runs_out(self, held):
        statement = sa.update(ATTEMPT).where(ATTEMPT.c.id == held.id)
        past = database_now(plus_seconds=-1)
        self.write(lambda s: s.execute(statement.values(lease_until_at=past)))

    @rule()
    def housekeeping_looks(self):
        reap_expired(self.services)
        collect_blobs(self.services)

    @rule(worker=st.sampled_from(WORKERS))
    def a_worker_restarts(self, worker):
        self.boots[worker] += 1
        self.write(lambda s: hello(s, self.greeting(worker)))
        running = self.rows(
            Attempt, Attempt.worker_id == worker, Attempt.status == AttemptStatus.RUNNING
        )
        assert running == []

    @rule()
    def the_service_restarts(self):
        self.services.database.close()
        self.services = open_services(self.state_dir)
        self.write(lambda s: renew_all(s, lease_seconds=90))
        assert reap_expired(self.services) == 0

    @invariant()
    def an_active_job_has_one_live_attempt_and_no_other_has_any(self):
        for job in self.rows(Job):
            running = self.rows(
                Attempt, Attempt.job_id == job.id, Attempt.status == AttemptStatus.RUNNING
            )
            is_active = job.status in (JobStatus.RUNNING, JobStatus.PAUSING, JobStatus.CANCELLING)
            assert len(running) == is_active

    @invariant()
    def fences_rise_with_every_attempt(self):
        for job in self.rows(Job):
            attempts = self.rows(Attempt, Attempt.job_id == job.id)
            fences = [a.fence for a in sorted(attempts, key=lambda a: a.number)]
            assert fences == sorted(set(fences))
            assert job.fence == (fences[-1] if fences else 0)

    @invariant()
    def what_has_ended_never_changes_by_itself(self):
        for job in self.rows(Job):
            if JobStatus(job.status).is_terminal:
                state = (job.status, job.finished_at, job.last_event_seq, job.revision)
                assert self.ended.setdefault(job.id, state) == state

    @invariant()
    def events_are_numbered_without_a_gap_and_an_end_is_the_last(self):
        for job in self.rows(Job):
            events = sorted(self.rows(JobEvent, JobEvent.job_id == job.id), key=lambda e: e.seq)
            assert [e.seq for e in events] == list(range(1, job.last_event_seq + 1))
            told = [e.kind for e in events if e.kind in (*ENDS, "retried")]
            assert (told[-1:] != [] and told[-1] in ENDS) == JobStatus(job.status).is_terminal
            # Between two ends somebody has retried it, and nothing follows an end but that.
            assert all((a in ENDS) != (b in ENDS) for a, b in itertools.pairwise(told))
            after = itertools.pairwise(e.kind for e in events)
            assert all(b == "retried" for a, b in after if a in ENDS)

    @invariant()
    def what_can_be_fetched_is_stored(self):
        for row in [*self.rows(Artifact), *self.rows(Checkpoint)]:
            assert self.services.storage.stat(row.sha256).size_bytes == row.size_bytes
        succeeded = {job.id for job in self.rows(Job, Job.status == JobStatus.SUCCEEDED)}
        assert {row.job_id for row in self.rows(Artifact)} == succeeded


TestInvariants = Machine.TestCase
TestInvariants.settings = settings(
    max_examples=15,
    stateful_step_count=30,
    deadline=None,
    # Histories are short already, and making one shorter still takes minutes.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
