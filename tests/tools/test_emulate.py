"""What of `make emulated` runs without Docker: its refusals, and the program that it emulates."""

import subprocess
from pathlib import Path

import pytest

from tools.three_steps import STEPS, train

SCRIPT = Path(__file__).parents[2] / "tools" / "emulate.sh"


@pytest.fixture
def refuse(tmp_path):
    """The message of the script on a machine that has only these commands."""

    def build(*arguments, commands=("uname", "dirname", "git")):
        for name in commands:
            (tmp_path / name).symlink_to(f"/usr/bin/{name}")
        done = subprocess.run(
            ["/bin/sh", str(SCRIPT), *arguments],
            env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 1
        return done.stderr

    return build


def test_without_docker_it_says_what_to_install(refuse):
    assert "Docker is missing: install Docker Engine 25 or newer." in refuse("gfx1100")


def test_an_engine_that_does_not_answer_is_named(refuse, tmp_path):
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    assert "Docker does not answer" in refuse("gfx1100")


def test_an_unknown_target_is_refused_before_anything_is_fetched(refuse):
    assert "The emulator has no target gfx803." in refuse("gfx803")


def test_the_emulated_program_trains_three_steps(tmp_path):
    assert train("cpu", tmp_path) == STEPS
