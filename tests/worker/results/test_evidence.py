import pytest

from worker.results.evidence import DeviceWork, describe_work, find_idleness

HONEST = DeviceWork(
    device="cuda:0",
    steps=3,
    wall_seconds=0.5,
    device_seconds=0.49,
    gradient_bytes=1000,
    allocated_bytes=50_000,
    peak_bytes=9000,
    used_bytes=10**9,
    device_operators=400,
    cpu_operators=2,
)

TABLE = [
    ("an honest run", {}, None),
    ("a run too short for an audit", {"device_operators": None, "cpu_operators": None}, None),
    ("nothing ran there", {"device_operators": 0, "cpu_operators": 400}, "none of 400 operators"),
    ("nothing was allocated", {"allocated_bytes": 0, "peak_bytes": 0}, "0 bytes were allocated"),
    ("gradients are elsewhere", {"allocated_bytes": 999}, "less than the 1,000"),
    ("nothing is held", {"peak_bytes": 0}, "were allocated on it in 3 steps"),
    (
        "nothing counts allocations, its driver reports",
        {"allocated_bytes": None, "peak_bytes": 0},
        None,
    ),
    (
        "nothing counts allocations and its driver reports nothing",
        {"allocated_bytes": None, "used_bytes": 10},
        "its driver reports 10 bytes",
    ),
    ("its clock stands still", {"device_seconds": 0.0}, "clock measured 0.0 s"),
    ("its clock is not a number", {"device_seconds": float("nan")}, "clock measured nan s"),
    ("its clock runs backwards", {"device_seconds": -1.0}, "clock measured -1.0 s"),
    ("its clock and the host's differ", {"device_seconds": 0.01}, "0.010 s while the host's"),
]


@pytest.mark.parametrize(
    ("changes", "words"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_an_idle_device_is_detected_with_a_reason(changes, words):
    why = find_idleness(HONEST.model_copy(update=changes))
    assert why is None if words is None else words in why


def test_the_evidence_is_a_sentence():
    text = describe_work(HONEST)
    assert "the first 3 steps ran on cuda:0: 400 operators on it, 2 on the CPU" in text
    assert "0.49 s by its clock" in text
