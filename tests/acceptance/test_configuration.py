"""Every combination of the compose files, as Compose reads it."""

import json
import os
import re
import subprocess
from itertools import chain

import pytest

from service.settings import Settings
from tests.acceptance.stack import ROOT
from worker.settings import WorkerSettings

pytestmark = [pytest.mark.acceptance, pytest.mark.usefixtures("engine")]

COMPOSE = ["docker", "compose", "--env-file", "/dev/null", "--profile", "*"]
OVERRIDES = ["cpu", "cuda", "cdi", "wsl", "vulkan"]
COMBINATIONS = [
    *([base] for base in ("compose.yaml", "compose.worker.yaml")),
    *(
        [base, f"compose.{name}.yaml"]
        for base in ("compose.yaml", "compose.worker.yaml")
        for name in OVERRIDES
    ),
]


def read(*files, **variables):
    """The configuration as Compose merges it, with no .env but these variables."""
    done = subprocess.run(
        [*COMPOSE, *chain.from_iterable(("-f", file) for file in files), "config", "--format=json"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


WORKER_ALONE = {"REDKILN_SERVICE_URL": "http://workstation:8321", "REDKILN_WORKER_KEY": "rk_1"}


@pytest.mark.parametrize("files", COMBINATIONS, ids="+".join)
def test_every_combination_is_valid_and_hardened(files):
    config = read(*files, **WORKER_ALONE)
    for name, service in config["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert "privileged" not in service, name
        published = service.get("ports", [])
        assert bool(published) == (name == "service"), name


@pytest.mark.parametrize("files", COMBINATIONS, ids="+".join)
def test_the_worker_gets_the_devices_of_its_file_and_no_other(files):
    worker = read(*files, **WORKER_ALONE)["services"]["worker"]
    devices = [device["source"] for device in worker.get("devices", [])]
    expected = {
        "cpu": ([], "none"),
        "cuda": ([], "none"),
        "cdi": (["amd.com/gpu=all"], "amd"),
        "wsl": (["/dev/dxg"], "wsl"),
        "vulkan": (["/dev/dri"], "vulkan"),
    }.get(files[-1].split(".")[1], (["/dev/kfd", "/dev/dri"], "amd"))
    assert (devices, worker["environment"]["REDKILN_DEVICES"]) == expected


def test_a_worker_alone_shares_nothing_but_urls_and_its_key():
    config = read("compose.worker.yaml", **WORKER_ALONE)
    worker = config["services"]["worker"]
    assert set(config["services"]) == {"worker"}
    assert "depends_on" not in worker
    assert "secrets" not in {mount["source"] for mount in worker["volumes"]}
    assert not [name for name in worker["environment"] if name.endswith("_FILE")]


def test_a_worker_alone_asks_for_what_it_needs():
    done = subprocess.run(
        ["docker", "compose", "--env-file", "/dev/null", "-f", "compose.worker.yaml", "config"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "the URL of the service" in done.stderr or "worker key" in done.stderr


@pytest.mark.parametrize(
    ("bind", "host_ip", "port"),
    [
        (None, "127.0.0.1", "8321"),
        ("127.0.0.1:9000", "127.0.0.1", "9000"),
        ("0.0.0.0:8321", "0.0.0.0", "8321"),
        ("[::1]:8400", "::1", "8400"),
    ],
)
def test_one_variable_sets_the_published_address_and_the_access_mode(bind, host_ip, port):
    service = read("compose.yaml", **({"REDKILN_BIND": bind} if bind else {}))["services"][
        "service"
    ]
    (published,) = service["ports"]
    assert (published["host_ip"], published["published"]) == (host_ip, port)
    environment = service["environment"]
    settings = Settings(bind=environment["REDKILN_BIND"],
                        public_bind=environment["REDKILN_PUBLIC_BIND"])  # fmt: skip
    assert settings.needs_keys == (host_ip == "0.0.0.0")
    assert settings.port == published["target"]


@pytest.mark.parametrize(("arch", "target"), [(None, None), ("gfx1100", "slim")])
def test_an_arch_chooses_the_slim_worker(arch, target):
    worker = read("compose.yaml", **({"REDKILN_ARCH": arch} if arch else {}))["services"]["worker"]
    assert worker["build"].get("target") == target
    assert worker["build"]["args"]["ARCH"] == (arch or "")
    assert worker["image"] == f"redkiln-worker:{arch or 'rocm'}-local"


def test_docker_waits_longer_than_the_worker_takes_to_stop():
    worker = read("compose.yaml")["services"]["worker"]
    minutes, seconds = re.fullmatch(r"(?:(\d+)m)?(\d+)s", worker["stop_grace_period"]).groups()
    grace = float(worker["environment"]["REDKILN_SHUTDOWN_GRACE_SECONDS"])
    assert int(minutes or 0) * 60 + int(seconds) > grace
    assert grace == WorkerSettings.model_fields["shutdown_grace_seconds"].default


def test_no_secret_is_written_in_the_configuration():
    for service in read("compose.yaml")["services"].values():
        environment = service.get("environment") or {}
        assert not [name for name, value in environment.items() if value and "KEY" in name
                    and not name.endswith("_FILE")]  # fmt: skip
