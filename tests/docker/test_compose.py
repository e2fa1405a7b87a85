"""The compose files as text; what Compose makes of them is an acceptance test."""

import re
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from service.settings import Settings
from worker.settings import WorkerSettings

ROOT = Path(__file__).parents[2]


def test_every_variable_of_the_compose_files_is_explained():
    used = set()
    for path in ROOT.glob("compose*.yaml"):
        text = path.read_text()
        uncommented = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
        used |= set(re.findall(r"\$\{([A-Z_]+)[}:]", uncommented))
        used |= set(re.findall(r"^ +((?:REDKILN|HF|ROCR)_[A-Z_]+):$", text, re.MULTILINE))
    explained = set(re.findall(r"^#([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    # REDKILN_KEY is ./rk's own: the key that it read from the service
    assert used - {"REDKILN_KEY"} == explained - {"COMPOSE_FILE"}


def test_every_setting_can_be_set_or_is_fixed_by_the_image():
    text = (ROOT / "compose.yaml").read_text()
    named = set(re.findall(r"^ +REDKILN_([A-Z_]+):", text, re.MULTILINE))
    commands = {name for name in WorkerSettings.model_fields if name.endswith("_command")}  # image
    fixed = {
        "page_dir",
        "worker_dir",
        "kernel_cache_dir",
        "lock_dir",
        "topology_dir",
        "drm_dir",
        "broker_url",
        "worker_key",
        "poll_seconds",
        "cpu_ranks",
    }  # image, secret, service, tests
    wanted = set(Settings.model_fields) | set(WorkerSettings.model_fields) - commands
    assert {field for field in wanted if field.upper() not in named} <= fixed


OF_CONTAINERS = {"REDKILN_BIND", "REDKILN_SERVICE_URL", "REDKILN_NOTICE_URLS"}
"""Whose line shows an address on the host, or an example."""


@pytest.mark.parametrize("settings", [Settings, WorkerSettings])
def test_the_example_shows_the_defaults(settings):
    text = (ROOT / ".env.example").read_text()
    shown = dict(re.findall(r"^#(REDKILN_[A-Z_]+)=(.*)$", text, re.MULTILINE))
    wrong = {}
    for name, field in settings.model_fields.items():
        variable = f"REDKILN_{name.upper()}"
        if variable in shown.keys() - OF_CONTAINERS and field.default is not None:
            value = TypeAdapter(field.annotation).validate_strings(shown[variable])
            if value != field.default:
                wrong[variable] = shown[variable], field.default
    assert not wrong


@pytest.mark.parametrize("name", ["cuda", "cdi", "wsl", "vulkan"])
def test_the_first_line_of_a_compose_file_says_that_it_never_ran_on_hardware(name):
    first = (ROOT / f"compose.{name}.yaml").read_text().splitlines()[0]
    assert first.startswith("# NOT TESTED")


def test_the_defaults_of_dockerfile_and_compose_are_the_same():
    compose = (ROOT / "compose.yaml").read_text()
    for name in ("service", "worker"):
        dockerfile = (ROOT / "docker" / f"{name}.Dockerfile").read_text()
        for base in re.findall(
            r"^ARG (?:(?:SLIM_)?BASE|NODE)_IMAGE=(\S+)$", dockerfile, re.MULTILINE
        ):
            assert f":-{base}}}" in compose
            assert re.search(r":[\w.-]*\d", base), "a pinned tag"


def test_a_worker_gets_the_users_variables_of_rocm_from_a_file_that_may_be_missing():
    worker = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["worker"]
    assert worker["env_file"] == [{"path": "worker.env", "required": False}]
    assert "/worker.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_every_container_has_limits_of_memory_processes_and_files():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for name, service in services.items():
        assert {"mem_limit", "pids_limit"} <= service.keys(), name
        assert service["ulimits"]["nofile"]["hard"] == 16384, name
    assert all("cpus" in services[name] for name in ("redis", "service", "worker"))


def test_the_file_for_vulkan_gives_the_worker_only_the_graphics_devices():
    class Loader(yaml.SafeLoader):
        """Reads a list behind a tag of Compose as the list."""

    Loader.add_constructor("!override", lambda loader, node: loader.construct_sequence(node))
    text = (ROOT / "compose.vulkan.yaml").read_text()
    worker = yaml.load(text, Loader)["services"]["worker"]
    assert worker["devices"] == ["/dev/dri"]
    assert worker["image"].startswith("redkiln-worker:vulkan-")
    arguments = worker["build"]["args"]
    assert arguments["EXTRAS"].split()[0] == "vulkan"
    assert arguments["TORCH_INDEX"].endswith("/cpu}")
