"""Messages about columns of mostly numbers that also have other values."""

import pytest


@pytest.mark.parametrize(
    ("others", "advice"),
    [
        (
            ["10,2", "11,2"],
            "; write 10.2 instead of 10,2 (2 values); or leave these fields empty, or",
        ),
        (["10,2", "unknown"], "; leave these fields empty, list all words that mean a missing"),
    ],
)
def test_decimal_commas_alone_are_to_be_written_as_points(look, others, advice):
    lines = ["temp_c,x,label", *(f"{i}.5,{i},{'ab'[i % 2]}" for i in range(30))]
    lines += [f'"{other}",7,a' for other in others]
    (error,) = look("\n".join(lines)).errors
    assert error.code == "mixed_types"
    assert advice in error.message
