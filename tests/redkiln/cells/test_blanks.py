import pytest

from redkiln.cells.blanks import lack_blanks


@pytest.mark.parametrize(
    "texts",
    [
        ["质量很好", "很差。不推荐", "一般"],
        ["手机 很好", "这个 iPhone 不错"],
        ["とても良い", "悪い"],
        ["ดีมาก", "แย่"],
        ["\U00010400" * 40],  # letters of a script that is not listed
    ],
)
def test_scripts_without_blanks_are_recognised_however_short_the_texts(texts):
    assert lack_blanks(texts)


@pytest.mark.parametrize(
    "texts",
    [
        ["good", "bad, not recommended"],
        ["아주 좋아요", "별로예요"],
        ["очень хорошо"],
        ["the sign 好 means good"],
        ["", "  "],
        [],
    ],
)
def test_texts_with_blanks_between_words_have_words(texts):
    assert not lack_blanks(texts)
