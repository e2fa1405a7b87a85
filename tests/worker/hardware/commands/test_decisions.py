import json

from worker.hardware.__main__ import main
from worker.hardware.facts.targets import load_targets


def test_all_targets_are_in_one_table(capsys):
    assert main(["decisions", "--all"]) == 0
    out = capsys.readouterr().out
    assert all(gfx in out for gfx in load_targets())
    assert "This project has measured none of this on a GPU" in out


def test_as_json_each_target_is_an_object(capsys):
    assert main(["decisions", "--all", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["gfx"] for each in told] == list(load_targets())


def test_without_a_gpu_all_is_offered(monkeypatch, capsys):
    monkeypatch.setattr("worker.hardware.commands.decisions.discover_gpus", list)
    assert main(["decisions"]) == 1
    assert "--all" in capsys.readouterr().err
