"""Scripts on a made machine with two GPUs, through the real queue: theirs alone, and used."""

import json

import pytest

from redkiln.status import JobStatus
from tests.integration.conftest import start_site
from tests.integration.made_machine import settings_on
from tests.worker.hardware.trees import RX_6800_XT, put, row_of, write_machine
from worker.hardware.masks import MASKS

pytestmark = pytest.mark.integration

CARDS = row_of(RX_6800_XT, 2)
ON_GPU = {"resources": {"device": "gpu"}}
ON_BOTH = {"resources": {"device": "gpu", "gpus": 2}}
BRIEF = 0.05
"""Minutes that a script may leave its GPU alone."""
PATIENCE_SECONDS = 240
"""With those that import torch, from a slow disk too."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    return write_machine(tmp_path_factory.mktemp("machine"), CARDS)


@pytest.fixture(scope="module")
def shared_gpus(tmp_path_factory, machine):
    settings = settings_on(machine, archs=[(card, "gfx1030") for card in CARDS])
    yield from start_site(tmp_path_factory, REDKILN_SCRIPTS="on", **settings)


@pytest.fixture
def gpus(shared_gpus, machine):
    """A stack with two idle GPUs."""
    set_busy(machine, 0)
    yield shared_gpus
    shared_gpus.cancel_all()


def set_busy(machine, percent):
    for number in range(len(CARDS)):
        put(machine.device_dir(number) / "gpu_busy_percent", f"{percent}\n")


def warnings(job):
    return {warning.code for warning in job.warnings}


def test_two_scripts_at_once_see_and_hold_a_gpu_of_their_own(gpus):
    code = f"""
        import json, os, time
        masks = dict((name, os.environ[name]) for name in {MASKS} if name in os.environ)
        locks = []
        for number in range(3, 100):
            path = "/proc/self/fd/" + str(number)
            if os.path.islink(path) and os.readlink(path).endswith(".lock"):
                locks.append(os.path.basename(os.readlink(path)))
        print(json.dumps([masks, locks]), flush=True)
        time.sleep(600)
    """
    jobs = [gpus.run_script("python", "-c", code, **ON_GPU) for _ in range(2)]
    gpus.wait_for(lambda: all("]" in gpus.log(job_id) for job_id in jobs))
    seen = [json.loads(gpus.log(job_id).strip().splitlines()[-1]) for job_id in jobs]
    by_uuid = {card.uuid: card for card in CARDS}
    shown = [masks.pop("ROCR_VISIBLE_DEVICES") for masks, _ in seen]
    assert set(shown) == set(by_uuid)
    assert [masks for masks, _ in seen] == [{}, {}]
    addresses = [by_uuid[uuid].pci_address for uuid in shown]
    assert [locks for _, locks in seen] == [[f"{address}.lock"] for address in addresses]

    def holders():
        held_by = {gpu.key: gpu.job_id for gpu in gpus.client.gpus()}
        return [held_by[address] for address in addresses]

    gpus.wait_for(lambda: holders() == jobs)


def test_a_script_that_leaves_its_gpu_alone_is_stopped_or_marked(gpus):
    stopped, marked = (
        gpus.run_script("sleep", "9", script={"guard": {"minutes": BRIEF, **guard}}, **ON_GPU)
        for guard in ({}, {"action": "warn"})
    )
    job = gpus.wait_for_end(stopped)
    assert (job.status, job.reason.code) == (JobStatus.FAILED, "gpu_unused")
    assert "has not used it in its first 0.05 minutes" in job.reason.message
    assert len(job.attempts) == 1
    job = gpus.wait_for_end(marked)
    assert job.status is JobStatus.SUCCEEDED
    assert "gpu_unused" in warnings(job)


def test_a_script_whose_gpu_works_is_left_alone(gpus, machine):
    set_busy(machine, 80)
    guard = {"guard": {"minutes": BRIEF}}
    job = gpus.wait_for_end(gpus.run_script("sleep", "6", script=guard, **ON_GPU))
    assert job.status is JobStatus.SUCCEEDED
    assert "gpu_unused" not in warnings(job)


def test_patches_are_there_before_the_first_line_and_in_all_that_it_starts(gpus):
    ask = "import torch; print('torch', torch.backends.cuda.flash_sdp_enabled(), flush=True)"
    code = f"""
        import json, os, subprocess, sys
        print("no torch yet" if "torch" not in sys.modules else "torch was imported")
        print(json.dumps(dict(os.environ)), flush=True)
        for _ in range(2):
            subprocess.run([sys.executable, "-c", {ask!r}], check=True)
    """
    job_id = gpus.run_script("python", "-c", code, **ON_GPU)
    job = gpus.wait_for_end(job_id, seconds=PATIENCE_SECONDS)
    assert job.status is JobStatus.SUCCEEDED, gpus.log(job.id)
    patches = {patch["name"]: patch for patch in job.environment["patches"]}
    assert patches["attention"]["settings"]["torch.backends.cuda.enable_flash_sdp"] == "False"
    lines = gpus.log(job.id).splitlines()
    assert "no torch yet" in lines
    assert lines.count("torch False") == 2
    environ = next(json.loads(line) for line in lines if line.startswith("{"))
    for name in ("allocator", "miopen_log"):
        assert patches[name]["environment"].items() <= environ.items()


def test_ranks_on_two_gpus_train_together_and_the_first_one_tells(gpus):
    code = """
        import os, redkiln, torch
        import torch.distributed as dist
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        total = torch.ones(1) + rank
        dist.all_reduce(total)
        print(f"rank {rank} of {dist.get_world_size()} has {total.item():.0f}", flush=True)
        for step in range(1, 4):
            redkiln.log(step=step, steps=3, rank=rank)
        # One piece: with PYTHONUNBUFFERED each argument is written by itself, between the other's.
        print("shown " + os.environ["ROCR_VISIBLE_DEVICES"], flush=True)
        dist.destroy_process_group()
    """
    job_id = gpus.run_script("python", "-c", code, **ON_BOTH)
    job = gpus.wait_for_end(job_id, seconds=PATIENCE_SECONDS)
    log = gpus.log(job.id)
    assert job.status is JobStatus.SUCCEEDED, log
    assert "rank 0 of 2 has 3" in log
    assert "rank 1 of 2 has 3" in log
    assert log.count("shown " + ",".join(card.uuid for card in CARDS)) == 2
    (series,) = gpus.client.metrics(job.id)
    assert (series.name, series.steps, series.values) == ("rank", [1, 2, 3], [0.0, 0.0, 0.0])
    assert job.progress.fraction == 1.0


def test_each_rank_has_its_grace_to_save(gpus):
    code = """
        import os, signal, sys, time
        def save(*_):
            time.sleep(0.5)
            open(os.environ["REDKILN_OUT"] + "/rank-" + os.environ["RANK"], "w").close()
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("rank", os.environ["RANK"], "is up", flush=True)
        while True:
            time.sleep(0.1)
    """
    job_id = gpus.run_script("python", "-c", code, **ON_BOTH)
    gpus.wait_for(lambda: gpus.log(job_id).count("is up") == 2, seconds=PATIENCE_SECONDS)
    gpus.client.cancel(job_id)
    assert gpus.wait_for_end(job_id).status is JobStatus.CANCELLED
    assert {"rank-0", "rank-1"} <= gpus.artifact_names(job_id)
