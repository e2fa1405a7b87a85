from redkiln.advice.places import count_unlisted, list_problems
from redkiln.views.dataset import DatasetProblem


def problem(message, path=None):
    return DatasetProblem(code="bad", message=message, path=path)


def test_places_with_the_same_problem_are_one_line():
    problems = [
        problem("4 of 9 rows cannot be used"),
        problem("has no target", "row 2"),
        problem("has 3 fields", "row 4"),
        *(problem("has no target", f"row {number}") for number in (5, 8)),
    ]
    assert list_problems(problems) == [
        (None, "4 of 9 rows cannot be used"),
        ("row 2, row 5, row 8", "has no target"),
        ("row 4", "has 3 fields"),
    ]
    assert count_unlisted(problems) == 0


def test_many_places_of_a_problem_are_counted():
    problems = [problem("is broken", f"{number}.png") for number in range(24)]
    (line,) = list_problems(problems)
    assert line == ("0.png, 1.png, 2.png, 3.png, 4.png and 19 more", "is broken")
    assert count_unlisted(problems) == 0


def test_lines_of_one_file_name_the_file_once():
    def say(*places):
        problems = [DatasetProblem(code="bad", message="is wrong", path=path) for path in places]
        return list_problems(problems)[0][0]

    lines = [f"labels.csv, line {number}" for number in range(2, 10)]
    assert say(*lines) == "labels.csv, lines 2, 3, 4, 5, 6 and 3 more"
    assert say(*lines[:1]) == "labels.csv, line 2"
    assert say("a.csv, line 2", "b.csv, line 2") == "a.csv, line 2, b.csv, line 2"
    assert say("line 2", "line 3") == "line 2, line 3"


def test_the_problems_after_the_last_line_are_counted():
    problems = [problem(f"value {number // 2}", f"row {number}") for number in range(50)]
    assert len(list_problems(problems)) == 20
    assert count_unlisted(problems) == 10
