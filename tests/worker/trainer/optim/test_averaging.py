import json
import subprocess
import sys
from pathlib import Path

from torch import nn

from worker.trainer import building
from worker.trainer.optim.averaging import share_weights
from worker.trainer.ranks.distributed import ALONE

ROOT = Path(__file__).parents[4]
RANK = """
import json, sys
import torch
from torch import distributed, nn
from worker.trainer import building
from worker.trainer.optim.averaging import share_weights
from worker.trainer.ranks.distributed import Ranks

rank = int(sys.argv[2])
distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2)
torch.manual_seed(rank)
model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)).to(memory_format=torch.channels_last)
model[1].num_batches_tracked.fill_(7 + rank)
share_weights(model, Ranks(rank, 2))
print(json.dumps([tensor.tolist() for tensor in model.state_dict().values()]))
distributed.destroy_process_group()
"""


def test_every_rank_starts_with_the_first_ranks_weights(tmp_path):
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(tmp_path / "store"), str(rank)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        for rank in range(2)
    ]
    ours, theirs = (json.loads(rank.communicate(timeout=120)[0]) for rank in ranks)
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
