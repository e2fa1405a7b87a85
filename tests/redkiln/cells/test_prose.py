import pytest

from redkiln.cells.prose import find_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A quiet flat, quiet!", {"a", "quiet", "flat"}),
        ("snake_case & 3rd-floor", {"snake", "case", "3rd", "floor"}),
        ("Größe ÉTÉ", {"größe", "été"}),
        ("とても良い", {"とて", "ても", "も良", "良い"}),
        ("良", {"良"}),
        ("", set()),
    ],
)
def test_words_are_found_in_any_script(text, words):
    assert find_words(text) == words
