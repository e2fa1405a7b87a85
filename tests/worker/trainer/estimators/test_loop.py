import pytest
import torch

from redkiln.tasks import parse_spec
from worker.checkpoints.checkpoint import CheckpointStore
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped
from worker.trainer.estimators.loop import EstimatorLoop
from worker.trainer.estimators.setup import EstimatorSetup

LOSSES = [5.0, 3.0, 2.0, 2.5, 2.6, 2.7, 1.0, 1.1]


class Rounds:
    """An estimator whose validation losses are known before."""

    def __init__(self, losses):
        self.num_rounds = 0
        self.losses = losses
        self.portions = []

    def grow(self, rounds):
        self.portions.append(rounds)
        first, self.num_rounds = self.num_rounds, self.num_rounds + rounds
        return [{"train/loss": 1.0, "val/loss": x} for x in self.losses[first : self.num_rounds]]

    def cut(self, rounds):
        self.num_rounds = rounds

    def tensors(self, rounds):
        return {"rounds": torch.tensor([rounds])}

    def load(self, tensors):
        self.num_rounds = int(tensors["rounds"])

    def count(self, rounds):
        return 10 * rounds


@pytest.fixture
def make_loop(tmp_path, make_event_log):
    def make(*, losses=LOSSES, stop_after=None, patience=None, is_finishing=False, seconds=60.0):
        stopping = None if patience is None else {"patience": patience}
        spec = parse_spec(
            {
                "task": "tabular-regression",
                "dataset": "toy",
                "model": "gradient-boosting",
                "training": {
                    "steps": len(losses),
                    "early_stopping": stopping,
                    "checkpoint_seconds": seconds,
                },
            }
        )
        model = Rounds(losses)
        setup = EstimatorSetup(
            spec=spec,
            rounds=len(losses),
            estimator=model,
            is_better=lambda metrics, best: metrics["val/loss"] < best["val/loss"],
            counts={"train": 10},
            reading="how rows are read",
        )
        loop = EstimatorLoop(
            setup,
            store=CheckpointStore(tmp_path / "checkpoints"),
            event_log=make_event_log(),
            should_stop=lambda: stop_after is not None and model.num_rounds >= stop_after,
            is_finishing=is_finishing,
        )
        return loop, CheckpointStore(tmp_path / "checkpoints")

    return make


def rounds_of(store, manifest):
    return int(store.load(manifest.name).tensors["model/rounds"])


def test_the_best_and_the_last_round_are_kept(make_loop):
    loop, store = make_loop()
    loop.run()
    assert (loop.step, loop.best_step, loop.best_metrics) == (8, 7, {"val/loss": 1.0})
    best, last = store.manifests()
    assert (best.step, best.is_best, last.step, last.is_best) == (7, True, 8, False)
    assert (rounds_of(store, best), rounds_of(store, last)) == (7, 8)
    assert store.load(best.name).reading == "how rows are read"
    assert loop.history.series["val/loss"] == list(enumerate(LOSSES, start=1))


def test_early_stopping_ends_at_its_round_whatever_the_portions_were(make_loop):
    loop, store = make_loop(patience=2)
    loop.run()
    assert (loop.step, loop.best_step) == (5, 3)
    assert [manifest.step for manifest in store.manifests()] == [3, 5]
    assert len(loop.history.series["val/loss"]) == 5


def test_a_stopped_run_continues_from_its_rounds(make_loop):
    loop, store = make_loop(stop_after=1)
    with pytest.raises(Stopped):
        loop.run()
    (saved,) = store.manifests()
    assert 1 <= saved.step < 8
    resumed, store = make_loop()
    resumed.restore(store.load(saved.name))
    resumed.run()
    assert (resumed.step, resumed.best_step) == (8, 7)
    assert resumed.history.series["val/loss"] == list(enumerate(LOSSES, start=1))


def test_finishing_exports_the_best_round_without_growing(make_loop):
    loop, store = make_loop(stop_after=1, losses=[3.0, 1.0, 2.0, 2.0, 2.0, 2.0, 0.5])
    with pytest.raises(Stopped):
        loop.run()
    finishing, store = make_loop(is_finishing=True)
    finishing.restore(store.load(store.manifests()[-1].name))
    finishing.run()
    assert finishing.best_step == 2
    best = store.find_best()
    assert (best.step, rounds_of(store, best)) == (2, 2)


def test_checkpoints_are_written_between_portions(make_loop):
    loop, store = make_loop(seconds=1.0)
    loop._saved_at -= 10
    loop.run()
    assert len(store.manifests()) >= 2


def test_a_loss_that_is_not_a_number_fails_the_job(make_loop):
    loop, _ = make_loop(losses=[1.0, float("nan")])
    with pytest.raises(TrainingFailed, match="val/loss is nan after iteration 2"):
        loop.run()
