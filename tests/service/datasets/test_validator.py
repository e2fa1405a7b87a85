"""The inspecting process as the service runs it: confined, killed, and run again."""

import gzip
import os
import signal
import subprocess
import time

import pytest

from service.datasets.inspect.limits import Limits
from service.datasets.rules import get_dataset, register_archive, register_folder
from service.datasets.validator import Validator, bound_seconds, bound_turn_seconds, explain_death

MIB = 1024**2


@pytest.fixture
def fork_children():
    """Does nothing: the inspecting process starts as it does in a service."""


@pytest.fixture
def register(services):
    """Registers archives without submitting them to a validator."""

    def register(content, name="pets"):
        stored = services.storage.put([content])
        dataset, _ = services.database.write(
            lambda s: register_archive(s, services.storage, name=name, seed=0, stored=stored)
        )
        return dataset.id

    return register


@pytest.fixture
def validate(services):
    """Runs separate validators until data sets are settled."""
    validators = []

    def validate(*dataset_ids, limits=None, **options):
        validator = Validator(
            services.database, services.storage, services.settings, limits=limits, **options
        )
        validators.append(validator)
        validator.start()
        return wait(*dataset_ids)

    def wait(*dataset_ids):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            rows = [look(dataset_id) for dataset_id in dataset_ids]
            if all(row.status != "validating" for row in rows):
                return rows
            time.sleep(0.02)
        raise AssertionError("still validating")

    def look(dataset_id):
        return services.database.read(lambda s: get_dataset(s, dataset_id))

    yield validate
    for validator in validators:
        validator.close()


def test_inspections_of_a_killed_service_are_repeated_at_the_next_start(
    register, validate, archive
):
    first, second = register(archive), register(b"broken", name="broken")
    settled = []
    rows = validate(first, second, on_settled=lambda _, dataset: settled.append(dataset.id))
    assert [row.status for row in rows] == ["ready", "invalid"]
    assert set(settled) == {first, second}


def test_nothing_is_left_in_the_staging_folder(services, register, validate, archive):
    validate(register(archive))
    deadline = time.monotonic() + 10
    while any(services.storage.work_dir.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(services.storage.work_dir.iterdir()) == []


def test_an_inspection_over_its_time_limit_is_killed_and_reported(register, validate, archive):
    (row,) = validate(register(archive), limits=Limits(cpu_seconds=0))
    assert row.status == "invalid"
    assert [error["code"] for error in row.report["errors"]] == ["limits_exceeded"]


def test_an_upload_may_be_inspected_for_a_time_by_its_size():
    assert bound_seconds(0) == 900
    assert bound_seconds(100 * MIB) == 1700
    assert bound_seconds(10**12) == bound_seconds(None) == 6 * 3600
    assert bound_turn_seconds(64 * MIB) == 124


def test_an_upload_over_its_time_is_killed_and_reported(register, validate, archive, monkeypatch):
    monkeypatch.setattr("service.datasets.validator.bound_seconds", lambda _: 0.0)
    (row,) = validate(register(archive))
    assert [error["code"] for error in row.report["errors"]] == ["limits_exceeded"]


def test_three_slow_small_uploads_do_not_keep_the_next_one_waiting(
    services, register, validate, archive, monkeypatch
):
    monkeypatch.setattr("service.datasets.validator.bound_turn_seconds", lambda _: 0.1)
    monkeypatch.setattr("service.datasets.validator._LOOK_SECONDS", 0.1)
    popen = "service.datasets.validator.subprocess.Popen"
    real = subprocess.Popen
    started = []

    def start(command, **options):
        started.append(command)
        return real(["sleep", "600"] if len(started) <= 3 else command, **options)

    slow = [register(b"slow %d" % number, name=f"slow-{number}") for number in range(3)]
    monkeypatch.setattr(popen, start)
    last = register(archive)
    (row,) = validate(last)
    assert row.status == "ready"
    rows = services.database.read(lambda s: [get_dataset(s, found) for found in slow])
    assert {row.status for row in rows} == {"validating"}, "none of them is refused for it"


def test_an_inspection_over_its_output_limit_is_reported(register, validate, tmp_path):
    content = gzip.compress(os.urandom(MIB))
    (row,) = validate(register(content), limits=Limits(output_bytes=MIB // 2))
    assert [error["code"] for error in row.report["errors"]] == ["too_large"]


def test_the_child_inherits_nothing_of_the_services_environment(
    services, register, validate, monkeypatch
):
    seen = {}
    popen = "service.datasets.validator.subprocess.Popen"
    real = subprocess.Popen

    def spy(command, **options):
        seen.update(options["env"])
        return real(command, **options)

    monkeypatch.setenv("REDKILN_WORKER_KEY", "secret")
    monkeypatch.setattr(popen, spy)
    validate(register(b"broken"))
    assert set(seen) == {"PATH", "PYTHONPATH", "LANG"}


def test_a_set_deleted_during_its_inspection_stays_deleted(
    services, client, register, validate, archive
):
    dataset_id = register(archive)
    other = register(b"broken", name="other")
    assert client.delete(f"/v1/datasets/{dataset_id}").status_code == 204
    validate(other)
    assert client.get(f"/v1/datasets/{dataset_id}").status_code == 404


def test_a_folder_that_is_no_longer_below_a_root_is_invalid(services, validate, folder):
    dataset = services.database.write(
        lambda s: register_folder(s, name="pets", seed=0, path=str(folder))
    )
    (row,) = validate(dataset.id)
    assert row.status == "invalid"
    assert [error["code"] for error in row.report["errors"]] == ["outside_roots"]


def test_closing_kills_the_child_and_leaves_the_set_for_the_next_start(
    services, register, archive, validate, monkeypatch
):
    monkeypatch.setattr(
        "service.datasets.validator.sys.executable", _slow_interpreter(services.settings.state_dir)
    )
    dataset_id = register(archive)
    validator = Validator(services.database, services.storage, services.settings)
    validator.start()
    deadline = time.monotonic() + 20
    while not validator._children and time.monotonic() < deadline:
        time.sleep(0.01)
    (child,) = validator._children
    began = time.monotonic()
    validator.close()
    assert time.monotonic() - began < 5
    assert child.returncode == -signal.SIGKILL
    row = services.database.read(lambda s: get_dataset(s, dataset_id))
    assert row.status == "validating"
    monkeypatch.undo()
    (row,) = validate(dataset_id)
    assert row.status == "ready"


def _slow_interpreter(folder):
    path = folder / "slow"
    path.write_text("#!/bin/sh\nexec sleep 60\n")
    path.chmod(0o700)
    return str(path)


@pytest.mark.parametrize(
    ("returncode", "code"),
    [
        (-signal.SIGXCPU, "limits_exceeded"),
        (-signal.SIGKILL, "limits_exceeded"),
        (-signal.SIGPROF, "image_bomb"),
        (-signal.SIGSEGV, "decoder_died"),
        (-signal.SIGABRT, "decoder_died"),
        (1, "internal"),
    ],
)
def test_a_death_without_a_report_is_explained(returncode, code):
    assert [problem.code for problem in explain_death(returncode).problems] == [code]
