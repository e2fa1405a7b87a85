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


def test_the_problems_after_the_last_line_are_counted():
    problems = [problem(f"value {number // 2}", f"row {number}") for number in range(50)]
    assert len(list_problems(problems)) == 20
    assert count_unlisted(problems) == 10
