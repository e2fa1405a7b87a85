import pytest
import torch

from redkiln.tasks.benchmark import Measure
from redkiln.views.benchmark import Machine
from worker.hardware.benchmark.card import render_card
from worker.hardware.benchmark.comparison import skip_contest
from worker.hardware.benchmark.plan import DeviceFacts, resolve_measure
from worker.hardware.benchmark.run import BenchmarkSetup
from worker.hardware.benchmark.session import LEFT_OUT, Listener, Session, run_session

FACTS = DeviceFacts("cpu", free_bytes=2**23)
MACHINE = Machine(
    hostname="bench", kind="cpu", device="a CPU", cpu="a CPU", num_cores=2, num_threads=2
)


class Clock:
    def __init__(self, step):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.fixture
def story():
    return []


@pytest.fixture
def listener(story):
    return Listener(
        begin=lambda title, number, total, left: story.append((number, total, title, left)),
        alive=lambda: None,
        say=lambda text: story.append(text),
    )


@pytest.fixture
def make_session(monkeypatch):
    monkeypatch.setattr("worker.hardware.benchmark.timing.SAMPLE_SECONDS", 0.0)

    def make(*, clock=None, contests=(), notes=(), **asked):
        measure = resolve_measure(
            Measure(**{"tests": ["matmul", "memory", "allreduce"], "sizes": [32], **asked}), FACTS
        )
        bench = BenchmarkSetup(torch.device("cpu"), lambda _: None, None, rounds=3)
        if clock is not None:
            bench = BenchmarkSetup(torch.device("cpu"), lambda _: None, None, rounds=3, clock=clock)
        return Session(measure, FACTS, MACHINE, bench, notes, contests, {})

    return make


def test_a_session_reports_each_part_and_each_number(make_session, listener, story):
    skipped = skip_contest("patches", "The patches", "there is no GPU")
    result = run_session(make_session(contests=[skipped], notes=["a note"]), listener)
    begun = [item[:3] for item in story if isinstance(item, tuple)]
    assert begun == [
        (0, 4, "matrix product 32 x 32"),
        (1, 4, "memory bandwidth"),
        (2, 4, "all-reduce"),
        (3, 4, "The patches"),
    ]
    assert "The patches: there is no GPU" in story
    assert any(isinstance(line, str) and line.startswith("matrix product 32, fp32: ")
               for line in story)  # fmt: skip
    assert result.find("matmul/32/fp32")
    assert result.find("memory/copy")
    (gradients, _) = [m for m in result.measurements if m.test == "allreduce"]
    assert gradients.skipped == "needs several GPUs; this job has a CPU"
    assert result.comparisons == [skipped]
    assert result.notes == ["a note"]


def test_parts_without_time_are_skipped_and_listed(make_session, listener, story):
    session = make_session(clock=Clock(1.0), seconds=5.0, precisions=["fp32"])
    result = run_session(session, listener)
    assert result.find("matmul/32/fp32")
    assert {m.skipped for m in result.measurements if m.test == "memory"} == {LEFT_OUT}


def test_the_report_has_recommendations_and_every_number(make_session, listener):
    skipped = skip_contest("patches", "The patches", "there is no GPU")
    result = run_session(make_session(contests=[skipped], notes=["a note"]), listener)
    card = render_card(result, title="bench-1")
    assert card.startswith("# bench-1\n\na CPU, measured 2")
    assert card.index("## Recommendations") < card.index("## Matrix products")
    for words in (
        "a note",
        "| matrix product 32, fp32 | ",
        "| copy within the memory | ",
        "needs several GPUs",
        "Not compared: there is no GPU.",
        "![benchmark](benchmark.png)",
    ):
        assert words in card
