"""`./up` on made-up machines."""

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from worker.hardware.facts.targets import find_wheel_target, load_targets

ROOT = Path(__file__).parents[2]
GIB_KIB = 1024**2

RX7900XTX = {"simd_count": 192, "simd_per_cu": 2, "gfx_target_version": 110000}
RX6600 = {"simd_count": 56, "simd_per_cu": 2, "gfx_target_version": 100302}
R9700 = {"simd_count": 128, "simd_per_cu": 2, "gfx_target_version": 120001}
MI210 = {"simd_count": 416, "simd_per_cu": 4, "gfx_target_version": 90010}
RX580 = {"simd_count": 144, "simd_per_cu": 4, "gfx_target_version": 80003}
STEAM_DECK = {"simd_count": 16, "simd_per_cu": 2, "gfx_target_version": 100303}
PHOENIX = {"simd_count": 24, "simd_per_cu": 2, "gfx_target_version": 110003}
MI25_OLD_KERNEL = {"simd_count": 256, "simd_per_cu": 4}
CPU = {"cpu_cores_count": 16, "simd_count": 0, "gfx_target_version": 0}


class Machine:
    """A folder that looks like a host's /sys, /dev and /proc, and a checkout with `up` in it."""

    def __init__(self, folder):
        self.folder = folder
        self.checkout = folder / "checkout"
        for part in ("sys", "dev/dri", "proc/net", "checkout", "bin"):
            (folder / part).mkdir(parents=True)
        shutil.copy(ROOT / "up", self.checkout)
        self.memory(64)
        self.put("proc/version", "Linux version 6.18.0\n")
        self.free_gb = 200
        self.docker = folder / "bin" / "docker"
        self.script("exit 1")

    def put(self, path, text):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def memory(self, gib):
        self.put("proc/meminfo", f"MemTotal:       {gib * GIB_KIB} kB\nMemFree: 1 kB\n")

    def gpus(self, *nodes, driver=True):
        for number, properties in enumerate((CPU, *nodes)):
            text = "".join(f"{name} {value}\n" for name, value in properties.items())
            self.put(f"sys/class/kfd/kfd/topology/nodes/{number}/properties", text)
        if driver:
            self.put("dev/kfd", "")
            self.put("dev/dri/renderD128", "")

    def card(self):
        self.put("sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002\n")
        self.put("sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n")

    def listen(self, *ports):
        lines = [
            f"   {i}: 0100007F:{port:04X} 00000000:0000 0A 0:0 00:0 0 0 0 1 1 0 100 0 0 10 0\n"
            for i, port in enumerate(ports)
        ]
        self.put("proc/net/tcp", "  sl  local_address rem_address   st\n" + "".join(lines))

    def script(self, body):
        """What `docker` does on this machine."""
        self.docker.write_text(f'#!/bin/sh\necho "$@" >> {self.folder}/docker.log\n{body}\n')
        self.docker.chmod(self.docker.stat().st_mode | stat.S_IXUSR)

    def up(self, *arguments):
        return subprocess.run(
            ["sh", "./up", *arguments],
            cwd=self.checkout,
            capture_output=True,
            text=True,
            timeout=30,
            env={
                "PATH": f"{self.docker.parent}:{os.environ['PATH']}",
                "UP_SYS": str(self.folder / "sys"),
                "UP_DEV": str(self.folder / "dev"),
                "UP_PROC": str(self.folder / "proc"),
                "UP_FREE_GB": str(self.free_gb),
            },
        )

    def env(self, *arguments):
        """What `./up --no-start` writes."""
        done = self.up("--no-start", *arguments)
        assert done.returncode == 0, done.stderr
        lines = (self.checkout / ".env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_an_amd_workstation_gets_amds_image(machine):
    machine.gpus(RX7900XTX)
    assert machine.env() == {
        "COMPOSE_FILE": "compose.yaml",
        "REDKILN_ARCH": "",
        "REDKILN_BIND": "127.0.0.1:8321",
        "REDKILN_WORKER_MEMORY": "60g",
    }


@pytest.mark.parametrize(
    ("gpu", "arch"),
    [
        (RX7900XTX, "gfx1100"),
        (RX6600, "gfx1032"),
        (R9700, "gfx1201"),
        (MI210, "gfx90a"),
        (PHOENIX, "gfx1103"),
    ],
)
def test_the_small_worker_is_for_the_arch_that_the_driver_names(machine, gpu, arch):
    machine.gpus(gpu)
    assert machine.env("--slim")["REDKILN_ARCH"] == arch


def arch_of(target, machine, *arguments):
    """What `./up` chooses for a GPU: the arch of the small worker, `full`, or `none`."""
    major, minor, step = re.fullmatch(r"gfx(\d+)(\w)(\w)", target.gfx).groups()
    version = int(major) * 10000 + int(minor, 16) * 100 + int(step, 16)
    machine.gpus({"simd_count": 80, "simd_per_cu": 2, "gfx_target_version": version})
    done = machine.up("--dry-run", *arguments)
    if done.returncode:
        return "none"
    return re.search(r"^REDKILN_ARCH=(.*)$", done.stdout, re.M)[1] or "full"


@pytest.mark.parametrize("target", load_targets().values(), ids=lambda target: target.gfx)
def test_a_gpu_gets_an_image_that_has_its_kernels(machine, target):
    wheel = find_wheel_target(target.gfx)
    slim = wheel.gfx if wheel and not target.blocking else "none"
    is_full = target.in_full_image and not target.blocking
    assert arch_of(target, machine) == ("full" if is_full else slim)
    assert arch_of(target, machine, "--slim") == slim
    assert arch_of(target, machine, "--full") == ("full" if is_full else "none")
    machine.free_gb = 40
    assert arch_of(target, machine) == slim


def test_an_arch_that_nobody_builds_for_downloads_nothing(machine):
    machine.gpus(RX7900XTX | {"gfx_target_version": 130000})
    done = machine.up("--no-start")
    assert done.returncode == 1
    assert "No image has kernels for gfx1300" in done.stderr
    assert "./up --cpu" in done.stderr
    assert not (machine.checkout / ".env").exists()


def test_an_image_of_the_user_may_have_what_amds_image_lacks(machine):
    machine.gpus(RX7900XTX | {"gfx_target_version": 90006})
    assert "REDKILN_BASE_IMAGE" in machine.up("--no-start", "--full").stderr
    machine.put("checkout/.env", "REDKILN_BASE_IMAGE=my/torch:gfx906\n")
    assert machine.env("--full")["REDKILN_ARCH"] == ""


def test_little_disk_chooses_the_small_worker(machine):
    machine.gpus(RX7900XTX)
    machine.free_gb = 40
    assert machine.env()["REDKILN_ARCH"] == "gfx1100"


def test_too_little_disk_says_how_much_is_needed(machine):
    machine.gpus(RX7900XTX)
    machine.free_gb = 12
    done = machine.up("--no-start")
    assert done.returncode == 1
    assert "about 20 GB" in done.stderr
    assert not (machine.checkout / ".env").exists()


def test_too_little_disk_for_the_full_image_offers_the_small_one(machine):
    machine.gpus(RX7900XTX)
    machine.free_gb = 40
    done = machine.up("--no-start", "--full")
    assert done.returncode == 1
    assert "./up --slim" in done.stderr


def test_the_small_worker_is_offered_only_for_a_gpu_that_has_one(machine):
    machine.gpus(MI25_OLD_KERNEL)
    assert "--slim" not in machine.up("--dry-run").stdout
    machine.free_gb = 40
    assert "--slim" not in machine.up("--no-start").stderr
    refused = machine.up("--no-start", "--slim")
    assert refused.returncode == 1
    assert "Remove --slim" in refused.stderr


def test_an_old_kernel_without_archs_gets_the_full_image(machine):
    machine.gpus(MI25_OLD_KERNEL)
    assert machine.env()["REDKILN_ARCH"] == ""


def test_the_largest_of_several_gpus_decides(machine):
    machine.gpus(PHOENIX, RX7900XTX)
    done = machine.up("--dry-run", "--slim")
    assert "REDKILN_ARCH=gfx1100" in done.stdout
    assert "  gfx1103, 12 compute units" in done.stdout
    assert "Several GPUs" in done.stdout


def test_a_gpu_that_trains_wrong_numbers_is_refused(machine):
    machine.gpus(STEAM_DECK)
    done = machine.up("--no-start")
    assert done.returncode == 1
    assert "gfx1033 cannot train" in done.stderr
    assert machine.env("--cpu")["COMPOSE_FILE"] == "compose.yaml:compose.cpu.yaml"


def test_a_card_without_rocm_is_offered_vulkan(machine):
    machine.gpus(RX580)
    done = machine.up("--no-start")
    assert done.returncode == 1
    assert "gfx803 cannot train with ROCm" in done.stderr
    assert "./up --vulkan" in done.stderr
    done = machine.up("--no-start", "--vulkan")
    assert "resources.engine: tinygrad" in done.stdout
    assert machine.env("--vulkan")["COMPOSE_FILE"] == "compose.yaml:compose.vulkan.yaml"


@pytest.mark.parametrize("has_node", [True, False])
def test_a_graphics_card_of_another_vendor_is_offered_vulkan(machine, has_node):
    if has_node:
        machine.put("dev/dri/renderD128", "")
    done = machine.up("--dry-run")
    assert "compose.cpu.yaml" in done.stdout
    assert ("./up --vulkan" in done.stdout) is has_node


def test_wsl_is_reached_through_dxg(machine):
    machine.put("dev/dxg", "")
    assert machine.env()["COMPOSE_FILE"] == "compose.yaml:compose.wsl.yaml"


def test_wsl_without_dxg_is_recognised_by_its_kernel(machine):
    machine.put("proc/version", "Linux version 6.6.87.2-microsoft-standard-WSL2\n")
    assert machine.env()["COMPOSE_FILE"] == "compose.yaml:compose.wsl.yaml"


def test_a_laptop_gets_the_cpu(machine):
    machine.free_gb = 15
    machine.memory(8)
    assert machine.env() == {
        "COMPOSE_FILE": "compose.yaml:compose.cpu.yaml",
        "REDKILN_ARCH": "",
        "REDKILN_BIND": "127.0.0.1:8321",
        "REDKILN_WORKER_MEMORY": "4g",
    }


def test_a_card_without_its_driver_is_not_treated_as_a_laptop(machine):
    machine.card()
    done = machine.up("--no-start")
    assert done.returncode == 1
    assert "modprobe amdgpu" in done.stderr
    assert "./up --cpu" in done.stderr


@pytest.mark.parametrize("choice", ["cpu", "vulkan", "cuda", "cdi", "wsl"])
def test_an_option_overrides_what_was_found(machine, choice):
    machine.gpus(RX7900XTX)
    files = machine.env(f"--{choice}")["COMPOSE_FILE"]
    assert files == f"compose.yaml:compose.{choice}.yaml"
    assert (ROOT / files.split(":")[1]).is_file()


def test_the_users_own_override_file_is_kept(machine):
    machine.put("checkout/compose.override.yaml", "services: {}\n")
    files = machine.env("--cpu")["COMPOSE_FILE"]
    assert files == "compose.yaml:compose.cpu.yaml:compose.override.yaml"


def test_a_taken_port_is_skipped(machine):
    machine.listen(8321, 8322)
    assert machine.env()["REDKILN_BIND"] == "127.0.0.1:8323"


def test_a_running_service_keeps_its_port(machine):
    machine.listen(8321)
    machine.script('[ "$1 $2" = "compose ps" ] && echo service')
    assert machine.env()["REDKILN_BIND"] == "127.0.0.1:8321"


def test_a_second_run_keeps_the_users_lines(machine):
    machine.gpus(RX7900XTX)
    machine.put("checkout/.env", "HF_TOKEN=hf_x\nREDKILN_BIND=0.0.0.0:9000\nREDKILN_ARCH=gfx906\n")
    first = machine.env()
    text = (machine.checkout / ".env").read_text()
    assert first["HF_TOKEN"] == "hf_x"
    assert first["REDKILN_BIND"] == "0.0.0.0:9000"
    assert first["REDKILN_ARCH"] == ""
    machine.env()
    assert (machine.checkout / ".env").read_text() == text


def test_a_dry_run_changes_nothing(machine):
    machine.gpus(RX7900XTX)
    done = machine.up("--dry-run")
    assert "COMPOSE_FILE=compose.yaml\n" in done.stdout
    assert [path.name for path in machine.checkout.iterdir()] == ["up"]


def test_the_service_starts_before_the_large_image_is_built(machine):
    machine.gpus(RX7900XTX)
    machine.script("exit 0")
    done = machine.up()
    assert done.returncode == 0, done.stderr
    calls = (machine.folder / "docker.log").read_text().splitlines()
    ups = [call for call in calls if call.startswith("compose up")]
    assert ups == ["compose up --detach --build service", "compose up --detach --build"]


def test_without_docker_it_says_so(machine):
    machine.gpus(RX7900XTX)
    done = machine.up()
    assert done.returncode == 1
    assert "Docker with Compose v2 is missing" in done.stderr


def test_an_unknown_option_is_refused(machine):
    assert "--help" in machine.up("--gpu").stderr
