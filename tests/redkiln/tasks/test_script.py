import pytest

from redkiln.spec.problems import SpecError
from redkiln.tasks import exports_model, needs_dataset, parse_spec
from redkiln.tasks.script import ScriptSpec, fill_in, find_misspelt


def script(**fields):
    return {"task": "script", "script": {"command": ["python", "train.py"], **fields}}


def problems(**fields):
    with pytest.raises(SpecError) as caught:
        parse_spec(script(**fields))
    return {problem.pointer: problem.message for problem in caught.value.problems}


def test_the_shortest_spec_names_a_command():
    spec = parse_spec(script())
    assert isinstance(spec, ScriptSpec)
    assert spec.dataset_reference is None
    assert (needs_dataset("script"), exports_model("script")) == (False, False)


def test_a_script_may_use_data_of_any_task_and_many_gpus():
    spec = parse_spec({**script(), "dataset": "flowers", "resources": {"gpus": 4}})
    assert spec.dataset_reference == "flowers"
    assert spec.reads_any_dataset


@pytest.mark.parametrize(
    ("fields", "pointer", "words"),
    [
        ({"command": []}, "/script/command", "at least 1"),
        ({"command": [" "]}, "/script/command", "name is empty"),
        ({"command": ["a\0b"]}, "/script/command", "NUL"),
        ({"bundle": "main"}, "/script/bundle", "pattern"),
        ({"env": {"A-B": "1"}}, "/script/env", "not a valid variable name"),
        ({"env": {"REDKILN_OUT": "/"}}, "/script/env", "reserved for the worker"),
        ({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, "/script/env", "GPUs that were leased"),
        ({"env": {"HIP_VISIBLE_DEVICES": "0"}}, "/script/env", "resources.gpus"),
        ({"env": {"TMPDIR": "/tmp"}}, "/script/env", "set by the worker"),
        ({"metrics_pattern": "("}, "/script/metrics_pattern", "not a valid regular expression"),
        ({"metrics_pattern": "loss"}, "/script/metrics_pattern", r"(?P<loss>"),
        ({"limits": {"memory": 1}}, "/script/limits/memory", "did you mean 'memory_bytes'"),
        ({"guard": {"action": "kill"}}, "/script/guard/action", "'stop'"),
    ],
)
def test_mistakes_in_a_script_are_reported_with_their_place(fields, pointer, words):
    found = problems(**fields)
    assert list(found) == [pointer]
    assert words in found[pointer]


def test_placeholders_are_replaced_and_other_braces_kept():
    places = {"data": "/d", "out": "/o", "checkpoints": "/c"}
    assert fill_in("--data={data}/x", places) == "--data=/d/x"
    assert fill_in('{"lr": 1}', places) == '{"lr": 1}'
    assert fill_in("{out}{checkpoints}", places) == "/o/c"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("{uot}/a", "{out}"),
        ("--to={checkpoint}", "{checkpoints}"),
        ("{Data}", "{data}"),
        ("{out}", None),
        ("{date}", None),
        ("{}", None),
        ("{i:03}", None),
    ],
)
def test_only_obvious_mistakes_in_placeholders_are_found(word, told):
    found = find_misspelt(["python", "fit.py", word])
    assert (found is None) if told is None else found.endswith(f"did you mean {told}?")
