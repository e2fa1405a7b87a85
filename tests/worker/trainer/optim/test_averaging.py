from torch import nn

from worker.trainer import building
from worker.trainer.optim.averaging import share_weights
from worker.trainer.ranks.distributed import ALONE


def test_every_rank_starts_with_the_first_ranks_weights(rank_pair, tmp_path):
    ours, theirs = rank_pair.share_weights(tmp_path / "store")
    assert ours == theirs
    assert ours[-1] == 7


def test_a_single_process_keeps_its_weights():
    model = nn.Linear(2, 2)
    before = model.weight.clone()
    share_weights(model, ALONE)
    assert model.weight.equal(before)


def test_a_job_copies_its_models_weights_to_all_ranks(make_job, start, monkeypatch):
    shared = []
    monkeypatch.setattr(building, "share_weights", lambda model, _ranks: shared.append(model))
    _, setup = start(make_job())
    assert shared == [setup.model]
