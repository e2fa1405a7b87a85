import pytest

from redkiln.cli.arguments.specfile import SpecSource, parse_spec_text
from redkiln.cli.problems import UsageError


def read(text):
    return parse_spec_text(text, name="s.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-3", 0.001),
        ("1E3", 1000.0),
        ("5e-4", 0.0005),
        (".5", 0.5),
        ("1.", 1.0),
        ("3", 3),
        ("-3", -3),
        ("true", True),
        ("null", None),
        ("~", None),
        ("no", "no"),
        ("on", "on"),
        ("2026-01-01", "2026-01-01"),
        ("1:30", "1:30"),
        ("0x10", "0x10"),
        ("'3'", "3"),
        ("resnet18", "resnet18"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text, expected):
    value = read(f"key: {text}\n").value["key"]
    assert value == expected
    assert type(value) is type(expected)


def test_json_is_read_too():
    assert read('{"dataset": "a", "training": {"epochs": 3}}').value["training"]["epochs"] == 3


def test_every_part_has_its_line():
    source = read("dataset: a\nresources:\n  arch:\n  - gfx1100\n  - gfx1030\n")
    assert source.locate("/resources/arch/1") == "s.yaml:5"
    assert source.locate("/resources/device") == "s.yaml:2"
    assert source.locate("/nothing") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2\n", r"s\.yaml:2:1: 'a' is given twice\n  a: 2"),
        ("a: 1\n1: 2\n", r"s\.yaml:2:1: the key 1 is not a string"),
        ("- a\n", "a spec must be a mapping"),
        ("", "a spec must be a mapping"),
        ("a: !!python/object:os.system {}\n", r"s\.yaml:1:4: could not determine a constructor"),
        ("a: *b\n", r"s\.yaml:1:4: found undefined alias"),
        ("a: &x [*x]\n", "s.yaml"),
        ("[" * 5000, r"s\.yaml"),
        ("a: " + "9" * 5000, "s.yaml"),
    ],
)
def test_an_invalid_spec_file_is_reported_with_its_line(text, words):
    with pytest.raises(UsageError, match=words):
        read(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "training:\n  optimizer: {lr: 0,05}\n",
            "2:21: write the number 0.05 with a point, not with a comma\n    optimizer: {lr: 0,05}",
        ),
        ("a:\n  b: 1\n    c: 2\n", "3:6: the colon is not expected here; check the indentation"),
        ("a:\n  b: 1\n c: 2\n", "3:2: the indentation fits no line above"),
        ("a:\n\tb: 1\n", "2:1: the line is indented with a tab; use spaces"),
        ("a: [1\nb: 3\n", "2:2: a list is not closed above or here"),
        ("a: {b: 1\nc: 2\n", "2:2: a group is not closed above or here"),
        ("a: 'x\n", "the file ends within quotes"),
        ("a: @x\n", "1:4: a value cannot begin with this character; put the value in quotes"),
        ("a:\n- x\nb\n", "this line is not a field"),
    ],
)
def test_a_mistake_in_yaml_is_shown_with_its_place_and_what_to_write(text, message):
    with pytest.raises(UsageError) as refused:
        read(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("training.epochs", "write it as key=value"),
        ("=3", "write it as key=value"),
        ("training..epochs=3", "write it as key=value"),
        ("epochs=3", "Did you mean --set training.epochs=3"),
        ("lr=0.1", "Did you mean --set training.optimizer.lr=0.1"),
        ("optimizer.lr=0.1", "Did you mean --set training.optimizer.lr=0.1"),
        ("trainng.epochs=3", "Did you mean --set training.epochs=3"),
        ("priority.x=3", "'priority' is a value"),
        ("training.epochs=[", "the value is not valid YAML"),
    ],
)
def test_a_wrong_assignment_suggests_the_right_one(assignment, words):
    source = SpecSource({"dataset": "a", "priority": 1})
    with pytest.raises(UsageError, match=words.replace(".", r"\.").replace("[", r"\[")):
        source.assign([assignment])


def test_assignments_create_missing_groups():
    source = SpecSource({"dataset": "a"})
    source.assign(["training.optimizer.name=sgd", "training.optimizer.lr=1e-2", "name=x"])
    assert source.value == {
        "dataset": "a",
        "training": {"optimizer": {"name": "sgd", "lr": 0.01}},
        "name": "x",
    }
    assert source.locate("/training/optimizer/lr") == "--set training.optimizer.lr=1e-2"
