"""Errors of a target that the user did not name."""

import pytest


@pytest.mark.parametrize(
    ("label", "options", "code"),
    [
        (lambda i: "", {}, "bad_target"),
        (lambda i: "" if i in (5, 9) else i * 0.7, {}, "bad_target"),
        (lambda i: "a" if i == 5 else i * 0.7, {"task": "tabular-regression"}, "bad_target"),
        (lambda i: f"word{i}", {"task": "tabular-regression"}, "bad_target"),
        (lambda i: "abc"[i % 3], {"classes": ["a", "b"]}, "bad_target"),
        (lambda i: "a", {}, "one_class"),
        (lambda i: 5, {"task": "tabular-regression"}, "constant_target"),
        (lambda i: f"user{i}", {"task": "tabular-classification"}, "too_many_classes"),
    ],
)
def test_errors_of_a_guessed_target_say_why_it_was_taken(look, rows, label, options, code):
    content = rows(120, header="x,size,joy", label=label)
    error = look(content, **options).errors[0]
    assert error.code == code
    assert "taken" in error.message
    assert "because it is the last one; " in error.message
    assert "target=NAME" in error.message
    named = look(content, **options, target="joy").errors[0]
    assert named.code == code
    assert "because it is" not in named.message
    assert "target=NAME" not in named.message
