from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from redkiln.version import __version__
from redkiln.views.worker import EngineDevice
from service.doctor.checks import GIB, ServiceFacts, WorkerFacts, examine_service, find_skew

AT = datetime(2026, 5, 1, tzinfo=UTC)
USED = EngineDevice(engine="tinygrad", name="RX 580", device="CL:0", slots=[1])
IDLE = EngineDevice(engine="tinygrad", name="Arc", excluded="idle: raise REDKILN_SLOTS")
SOFTWARE = EngineDevice(engine="tinygrad", name="llvmpipe", excluded="x", is_software=True)
WORKER = WorkerFacts("station", __version__, skew_seconds=-0.4)
FINE = ServiceFacts("up", 80 * GIB, GIB, "/state", [WORKER], num_known=1)

RED = [
    ("workers", {"workers": [], "num_queued": 3}, "blocks", "docker compose up --detach worker"),
    ("workers", {"workers": [], "num_known": 0}, "blocks", "make up"),
    ("disk", {"free_bytes": GIB // 2}, "blocks", "redkiln delete"),
    ("disk", {"free_bytes": 3 * GIB}, "slows", "redkiln delete"),
    ("broker", {"broker": "away"}, "slows", "docker compose up --detach redis"),
    ("releases", {"workers": [WorkerFacts("old", "0.0.1")]}, "blocks", "--build"),
    ("releases", {"workers": [WORKER, WorkerFacts("old", "0.0.1")]}, "slows", "--build"),
    ("clocks", {"workers": [replace(WORKER, skew_seconds=-95.0)]}, "slows", "set-ntp"),
    (
        "engines",
        {"workers": [replace(WORKER, engine_devices=[USED, IDLE])]},
        "note",
        "Arc: idle: raise REDKILN_SLOTS",
    ),
]


def checks(**changes):
    return {check.id: check for check in examine_service(replace(FINE, **changes))}


def test_a_service_that_works_is_green():
    assert {check.verdict for check in checks().values()} == {"ok"}
    assert checks(broker="off")["broker"].verdict == "ok"


def test_every_check_can_be_red():
    assert {case[0] for case in RED} == set(checks())


@pytest.mark.parametrize(("name", "changes", "severity", "fix"), RED)
def test_a_failed_check_is_red_and_shows_the_command_that_fixes_it(name, changes, severity, fix):
    check = checks(**changes)[name]
    assert (check.verdict, check.severity) == ("bad", severity)
    assert fix in check.fix
    assert check.cause


def test_gpus_of_other_engines_are_listed_and_software_is_not():
    worker = replace(WORKER, engine_devices=[USED, SOFTWARE])
    check = checks(workers=[worker])["engines"]
    assert (check.verdict, check.evidence) == ("ok", "used: RX 580 (CL:0) on station")
    # A worker of torch reports its GPUs, too, which another engine could open.
    check = checks(workers=[replace(WORKER, engine_devices=[IDLE])])["engines"]
    assert (check.verdict, check.evidence) == ("ok", "none in use")


def test_clocks_are_unknown_until_a_worker_reports_its_time():
    assert checks(workers=[replace(WORKER, skew_seconds=None)])["clocks"].verdict == "unknown"


@pytest.mark.parametrize(
    ("sent", "examined", "skew"),
    [
        ([], None, None),
        ([90.0, 88.0], None, 90.0),
        ([-40.0], 5.0, -40.0),
        ([], 70.0, 70.0),
        ([], -600.0, 0.0),
    ],
)
def test_a_clock_is_compared_by_the_times_its_worker_reported(sent, examined, skew):
    found = find_skew(
        received_at=AT,
        sent_at=[AT + timedelta(seconds=seconds) for seconds in sent],
        examined_at=None if examined is None else AT + timedelta(seconds=examined),
    )
    assert found == skew
