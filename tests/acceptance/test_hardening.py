"""What a container may do, looked at from inside and from the host."""

import json
import re
from pathlib import Path

import pytest

from docker.user import REDIS_UID, REDKILN_UID
from tests.acceptance.stack import PARTS, run, wait_until

pytestmark = pytest.mark.acceptance

MIB = 1024**2
UIDS = {"redis": REDIS_UID, "service": REDKILN_UID, "worker": REDKILN_UID}


def processes(stack, part):
    """Every process of a container as the host's kernel knows it: its status file's fields."""
    top = run("docker", "top", stack.container(part), "-eo", "pid").stdout.split()[1:]
    for pid in top:
        try:
            lines = Path("/proc", pid, "status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        yield dict(line.split(":", 1) for line in lines)


@pytest.mark.parametrize("part", PARTS)
def test_nothing_runs_as_root_or_can_become_it(running, part):
    found = list(processes(running, part))
    assert found
    for status in found:
        assert set(status["Uid"].split()) == {str(UIDS[part])}
        assert set(status["Gid"].split()) == {str(UIDS[part])}
        assert int(status["CapEff"], 16) == 0
        assert int(status["CapPrm"], 16) == 0
        assert status["NoNewPrivs"].strip() == "1"
        assert status["Seccomp"].strip() == "2"  # a filter: the engine's default profile


@pytest.mark.parametrize("part", PARTS)
def test_the_root_filesystem_is_read_only(running, part):
    host = running.inspect(part)["HostConfig"]
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert not host["Privileged"]
    assert host["Memory"] > 0
    assert host["PidsLimit"] > 0
    for folder in ("/", "/usr", "/etc", "/opt", "/app"):
        tried = running.execute(part, "sh", "-c", f"touch {folder}/x", check=False)
        assert tried.returncode != 0, f"{part} can write to {folder}"
    written = running.execute(part, "sh", "-c", "mount | grep ' / '").stdout
    assert "ro," in written


def test_only_the_service_publishes_a_port_and_only_here(running):
    for part in PARTS:
        bindings = running.inspect(part)["HostConfig"]["PortBindings"] or {}
        if part == "service":
            address, port = running.variables["REDKILN_BIND"].split(":")
            assert bindings == {"8321/tcp": [{"HostIp": address, "HostPort": port}]}
        else:
            assert bindings == {}


def test_redis_answers_no_one_without_the_password(running):
    assert "NOAUTH" in running.execute("redis", "redis-cli", "ping").stdout
    state = json.dumps(running.inspect("redis")["Config"])
    password = running.execute("redis", "cat", "/secrets/redis.password").stdout.strip()
    assert len(password) == 64
    assert password not in state


def test_redis_persists_evicts_nothing_and_refuses_administration(running):
    def ask(words):
        command = f"REDISCLI_AUTH=$(cat /secrets/redis.password) redis-cli {words}"
        return running.execute("redis", "sh", "-c", command).stdout.split()

    assert "aof_enabled:1" in ask("info persistence")
    assert "maxmemory_policy:noeviction" in ask("info memory")
    for words in ("config get maxmemory", "flushall"):
        assert "NOPERM" in ask(words)


def test_each_part_reads_its_own_secrets_and_no_other(running):
    can = {
        part: {
            name
            for name in ("redis.conf", "redis.password", "broker.url", "keys/worker.key")
            if running.execute(part, "cat", f"/secrets/{name}", check=False).returncode == 0
        }
        for part in PARTS
    }
    assert can == {
        "redis": {"redis.conf", "redis.password"},
        "service": {"broker.url", "keys/worker.key"},
        "worker": {"broker.url", "keys/worker.key"},
    }


def find_trainer(stack):
    """The environment of a trainer, if one runs or waits for the next job."""
    for status in processes(stack, "worker"):
        folder = Path("/proc", status["Pid"].strip())
        if b"\0worker.trainer\0" in (folder / "cmdline").read_bytes():
            entries = (folder / "environ").read_text().split("\0")
            return dict(entry.split("=", 1) for entry in entries if entry)
    return None


def test_a_trainer_gets_the_token_for_models_and_no_secret_of_ours(running):
    trainer = wait_until(lambda: find_trainer(running), seconds=60, what="a trainer waits")
    assert trainer["HF_TOKEN"] == running.variables["HF_TOKEN"]
    assert trainer["HF_HOME"] == "/cache/huggingface"
    assert not [name for name in trainer if "KEY" in name or "BROKER" in name]


def test_compiled_kernels_have_their_own_volume(running, finished_job):
    trainer = wait_until(lambda: find_trainer(running), seconds=60, what="a trainer waits")
    folder = trainer["TORCHINDUCTOR_CACHE_DIR"].removesuffix("/inductor")
    assert re.fullmatch(r"/cache/kernels/cpu/torch-[^/]+-rocm-[^/]+/slot-0", folder)
    assert trainer["TRITON_CACHE_DIR"] == f"{folder}/triton"
    running.execute("worker", "test", "-w", folder)
    mounts = running.inspect("worker")["Mounts"]
    (kernels,) = [each for each in mounts if each["Destination"] == "/cache/kernels"]
    assert kernels["Name"] == running.volume("kernels")


def test_the_worker_sees_neither_the_database_nor_the_admin_key(running):
    mounts = {part: {mount.get("Name") for mount in running.inspect(part)["Mounts"]}
              for part in PARTS}  # fmt: skip
    state = running.volume("state")
    assert [part for part in PARTS if state in mounts[part]] == ["service"]


@pytest.mark.parametrize("part", ["init", *PARTS])
def test_every_volume_has_a_name_so_that_none_is_left_behind(running, part):
    volumes = {each["Name"] for each in running.inspect(part)["Mounts"] if each["Type"] == "volume"}
    own = {name for name in volumes if name.startswith(f"{running.project}_")}
    assert volumes - own <= {running.variables["REDKILN_LOCKS"]}


def test_no_secret_shows_in_what_the_engine_knows(running):
    password = running.execute("redis", "cat", "/secrets/redis.password").stdout.strip()
    key = running.execute("service", "cat", "/secrets/keys/worker.key").stdout.strip()
    for part in PARTS:
        known = json.dumps(running.inspect(part))
        assert password not in known
        assert key not in known


def test_images_add_little_to_their_base(images, tell):
    def size(image):
        return int(run("docker", "image", "inspect", image, "--format", "{{.Size}}").stdout)

    def base(image):
        label = '{{index .Config.Labels "org.opencontainers.image.base.name"}}'
        return run("docker", "image", "inspect", image, "--format", label).stdout.strip()

    added = {
        part: (size(images[part]) - size(base(images[part]))) / MIB
        for part in ("service", "worker")
    }
    told = ", ".join(f"{part} {mib:.0f} MiB" for part, mib in added.items())
    tell(f"images above their base: {told}")
    # Of the service pyarrow, which reads tables, takes 110 MiB, the page 20 MiB, as its large files
    # are kept compressed only, and onnx, which checks uploaded networks, 31 MiB. onnxruntime, which
    # predicts, takes 68 MiB, and tokenizers with what it needs 34 MiB, and cryptography 18 MiB.
    assert added["service"] <= 525
    assert added["worker"] <= 730  # of which torchao, for int8-qat, takes 28 MiB


@pytest.mark.parametrize("part", ["service", "worker", "slim"])
def test_images_say_what_they_are(images, part):
    config = json.loads(run("docker", "image", "inspect", images[part]).stdout)[0]["Config"]
    labels = {name.removeprefix("org.opencontainers.image.") for name in config["Labels"]}
    assert {"title", "description", "licenses", "version", "base.name"} <= labels
    assert config["Healthcheck"]["Test"][0] == "CMD"
    assert config["Entrypoint"][0] == "python"
