from pathlib import Path

import pytest

from native import up
from native.__main__ import main


@pytest.fixture
def started(monkeypatch):
    """The calls that would start a stack."""
    calls = []
    monkeypatch.setattr(
        up, "run_up", lambda state_dir, *, settings: calls.append((state_dir, settings)) or 0
    )
    for name in ("REDKILN_STATE_DIR", "REDKILN_BIND"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_without_options_the_stack_keeps_its_state_in_data(started):
    assert main(["up"]) == 0
    assert started == [(Path("data"), {})]


def test_options_choose_port_state_and_scripts(started):
    assert main(["up", "--port", "8400", "--state", "elsewhere", "--scripts"]) == 0
    settings = {"REDKILN_BIND": "127.0.0.1:8400", "REDKILN_SCRIPTS": "on"}
    assert started == [(Path("elsewhere"), settings)]


def test_options_take_precedence_over_variables(started, monkeypatch):
    monkeypatch.setenv("REDKILN_STATE_DIR", "theirs")
    monkeypatch.setenv("REDKILN_BIND", "0.0.0.0:80")
    main(["up"])
    main(["up", "--port", "8400", "--state", "ours"])
    assert started == [(Path("theirs"), {}), (Path("ours"), {"REDKILN_BIND": "0.0.0.0:8400"})]


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_wrong_port_is_refused_with_the_range(started, capsys, port):
    with pytest.raises(SystemExit):
        main(["up", f"--port={port}"])
    assert "is not a port; give a number below 65536" in capsys.readouterr().err
    assert not started


def test_the_help_of_up_teaches_port_state_and_scripts(capsys):
    with pytest.raises(SystemExit):
        main(["up", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for part in ("--port PORT", "--state FOLDER", "--scripts", "redkiln run", "docs/settings.md"):
        assert part in shown
