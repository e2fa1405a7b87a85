import pytest
from pydantic import TypeAdapter, ValidationError

from redkiln.spec.problems import plain_message


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (int, "many", "must be a whole number"),
        (int, 1.5, "must be a whole number"),
        (float, "much", "must be a number"),
        (bool, "perhaps", "must be true or false"),
        (str, 3, "must be a text"),
        (list[int], 3, "must be a list"),
        (dict[str, int], 3, "must be an object with names and values"),
    ],
)
def test_a_value_of_a_wrong_type_is_reported_in_our_words(kind, value, words):
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(kind).validate_python(value)
    assert plain_message(raised.value.errors()[0]["msg"]) == words
