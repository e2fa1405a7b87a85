import pytest
import torch

from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped
from worker.trainer.ranks.distributed import (
    ALONE,
    Ranks,
    defer_peer_loss,
    is_lost,
    order_of_rank,
    rank_number,
)

RANK = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("num", [8, 9, 64, 100])
def test_the_shares_of_all_ranks_form_the_batch_and_differ_by_at_most_one(size, num):
    shares = [Ranks(rank, size).share(20, 20 + num) for rank in range(size)]
    places = [place for start, stop in shares for place in range(start, stop)]
    assert places == list(range(20, 20 + num))
    sizes = {stop - start for start, stop in shares}
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) == num // size


def test_a_single_process_decides_immediately_and_changes_nothing():
    vote = ALONE.new_vote()
    assert vote(True, False) == (True, False)
    assert ALONE.any(True)
    assert ALONE.broadcast("news") == "news"
    assert ALONE.sum(torch.ones(2)).tolist() == [1.0, 1.0]
    before = torch.get_rng_state()
    ALONE.begin_step(seed=0, step=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_steps_random_numbers_depend_on_seed_rank_and_step():
    def draw(rank, seed, step):
        Ranks(rank, 2).begin_step(seed=seed, step=step)
        return torch.rand(3).tolist()

    assert draw(1, 0, 5) == draw(1, 0, 5)
    different = [draw(0, 0, 5), draw(1, 0, 5), draw(0, 1, 5), draw(0, 0, 6)]
    assert len({tuple(drawn) for drawn in different}) == 4


def test_a_rank_gets_the_order_with_its_own_gpu(make_job):
    order = make_job(order={"num_ranks": 2}).load_order()
    order = order.model_copy(update={"threads": 4})
    assert order_of_rank(order, {}) == order
    assert order_of_rank(order, RANK).threads == 2
    on_gpu = order.model_copy(update={"device": "cuda:0"})
    assert order_of_rank(on_gpu, RANK).device == "cuda:1"
    assert (rank_number({}), rank_number(RANK)) == (0, 1)


LOSSES = [
    RuntimeError("[/pytorch/gloo/transport/tcp/pair.cc:544] Connection closed by peer [127.0.0.1]"),
    RuntimeError("NCCL communicator was aborted on rank 1"),
    torch.distributed.DistBackendError("aborted"),
]


@pytest.mark.parametrize("error", LOSSES)
def test_a_lost_peer_is_distinguished_from_other_errors(error):
    assert is_lost(error)


@pytest.mark.parametrize(
    "error",
    [ValueError("gloo"), RuntimeError("shapes differ"), torch.OutOfMemoryError("NCCL: no memory")],
)
def test_other_errors_are_not_a_lost_peer(error):
    assert not is_lost(error)


def test_a_rank_that_lost_a_peer_waits_and_then_reports_it():
    with (
        pytest.raises(TrainingFailed) as caught,
        defer_peer_loss(lambda: False, device="cpu", seconds=0.01),
    ):
        raise LOSSES[0]
    failure = caught.value.failure
    assert (failure.code, failure.retryable) == ("no_progress", True)
    assert failure.details["lost_rank"]


def test_a_peer_lost_while_stopping_is_not_a_failure():
    with pytest.raises(Stopped), defer_peer_loss(lambda: True, device="cpu", seconds=60):
        raise LOSSES[0]


def test_other_errors_are_raised_immediately():
    with (
        pytest.raises(RuntimeError, match="shapes"),
        defer_peer_loss(lambda: False, device="cpu", seconds=60),
    ):
        raise RuntimeError("shapes differ")
