import pytest

from worker.trainer.insight.shortened import shorten, wrap


def narrow(line):
    return len(line) <= 10


def test_a_short_text_is_only_put_on_one_line():
    assert shorten("  two\n words ", 12) == "two words"


def test_the_middle_of_a_long_text_is_left_out_between_words():
    text = "the service was slow but the food that we had at the end was very good"
    assert shorten(text, 40) == "the service was slow but … very good"


@pytest.mark.parametrize(
    "text",
    [
        "非常好的服务我们非常喜欢这个地方下次还会再来" * 9,
        "บริการดีมากเราชอบที่นี่มากครับ" * 9,
        "e\u0301" * 200,
        "👩\u200d🚀" * 99,
        "a" * 500,
    ],
)
@pytest.mark.parametrize("most", [12, 40, 41, 42, 43])
def test_a_text_without_blanks_is_cut_between_letters_with_their_marks(text, most):
    head, tail = shorten(text, most).split(" … ")
    assert len(head) + len(tail) + 3 <= most
    assert text.startswith(head)
    assert text.endswith(tail)
    for first in (text[len(head)], tail[0]):
        assert first not in "\u0301\u200d\u0e31\u0e34\u0e35\u0e48"


def test_lines_end_after_words_and_after_the_marks_inside_names():
    assert wrap("golden_retriever dog", " 98%", fits=narrow, most_lines=9) == [
        "golden_", "retriever", "dog 98%",
    ]  # fmt: skip


def test_a_word_that_is_wider_than_a_line_is_broken():
    assert wrap("x" * 25, " 5%", fits=narrow, most_lines=3) == ["x" * 10, "x" * 10, "xxxxx 5%"]


def test_a_text_of_too_many_lines_loses_its_middle_and_keeps_its_end():
    lines = wrap("one two three four five six seven eight", " 98%", fits=narrow, most_lines=3)
    assert lines[0].startswith("one")
    assert lines[-1].endswith("98%")
    assert "…" in " ".join(lines)
    assert len(lines) <= 3


def test_letters_that_never_fit_are_a_line_each():
    assert wrap("ab", "", fits=lambda line: not line, most_lines=5) == ["a", "b"]
