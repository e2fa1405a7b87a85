"""docs/first-hour.md, from its first command to its last."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PAGE = ROOT / "docs" / "first-hour.md"
BLOCK = re.compile(r"^(```+)(\w+)\n(.*?)^\1$", re.M | re.S)
NUMBER = re.compile(r"(\d+ (h|min) )?\d[\d.,]*(e-?\d+)?")

PIP = "import sys, importlib.metadata as m; [m.version(name) for name in sys.argv[2:]]"
"""Stands for `pip install`: fails if a package is not installed here, and downloads nothing."""


def words_of(text):
    """A text without its numbers, which vary (`15 s`, `1 min 02 s`), and its columns' widths."""
    return " ".join(NUMBER.sub("N", text).split())


@pytest.fixture
def shell(real_site, tmp_path):
    """Runs commands in one shell after another, which share their folder; what they print."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for name, words in (("redkiln", "-m redkiln"), ("python3", ""), ("pip", f"-c '{PIP}'")):
        program = bin_dir / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{bin_dir}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "REDKILN_URL": real_site.stack.url,
        "REDKILN_KEY": real_site.stack.admin_key,
        "COLUMNS": "200",
    }

    def run(commands):
        done = subprocess.run(
            ["bash", "-euc", commands],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}"
        return done.stdout

    return run


def test_every_command_of_the_first_hour_works_and_prints_what_the_page_shows(shell, tmp_path):
    blocks = [found[1:] for found in BLOCK.findall(PAGE.read_text())]
    assert [kind for kind, _ in blocks].count("sh") == 7
    printed = ""
    for kind, text in blocks:
        if kind == "python":
            name = re.match(r"# (\S+)\n", text)[1]
            Path(tmp_path, name).write_text(text)
        elif kind == "sh":
            printed = words_of(shell(text))
        else:
            for line in text.splitlines():
                assert line == "..." or words_of(line) in printed, f"{line}\n\n{printed}"
