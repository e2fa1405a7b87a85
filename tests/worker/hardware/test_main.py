import subprocess
import sys

import pytest

from worker.hardware.__main__ import COMMANDS, load_command, main


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_module_and_describes_its_arguments(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"python -m worker.hardware {name}" in " ".join(capsys.readouterr().out.split())
    assert callable(load_command(name).run)


def test_the_list_of_commands_imports_none_of_them():
    code = (
        "import sys; from worker.hardware.__main__ import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith('worker.hardware.commands.')])\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["[]", "False"]
    for name in COMMANDS:
        assert name in done.stdout


def test_an_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["fact"])
    assert ended.value.code == 2
    assert "facts" in capsys.readouterr().err


def test_the_help_names_the_self_test_program(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "python -m worker.hardware.selftest" in capsys.readouterr().out
