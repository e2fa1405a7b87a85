"""Columns of prose in a table with other columns."""

import pytest


def flats(num=120, *, target="rent", describe=None):
    """Rows whose rent depends on the size and on the word `quiet`."""
    lines = [f"size,description,{target}"]
    for i in range(num):
        is_quiet = i % 3 == 0
        text = f"{'quiet' if is_quiet else 'noisy'} flat {'abcde'[i % 5]}x on floor number {i}"
        rent = (i * 7) % 50 + 100 * is_quiet
        lines.append(f"{(i * 7) % 50},{text if describe is None else describe(i)},{rent}.5")
    return "\n".join(lines)


def words_of(looked):
    return [c.derived.word for c in looked.index.columns if c.derived and c.derived.word]


def test_telling_words_of_prose_become_columns_next_to_the_others(look):
    looked = look(flats())
    assert looked.errors == []
    assert looked.report.task == "tabular-regression"
    assert looked.uses()["description"] == "ignored"
    assert set(words_of(looked)[:2]) == {"quiet", "noisy"}
    # "flat" is in every row and each number in one, so neither says anything.
    assert not {"flat", "7"} & set(words_of(looked))
    table = looked.table.to_pylist()
    assert all((row["description.quiet"] == 1) == (row["__target__"] >= 100) for row in table)
    assert any("description is prose" in note and "quiet" in note for note in looked.report.notes)
    assert not any(warning.code == "dropped_columns" for warning in looked.report.warnings)


def test_words_are_chosen_from_training_rows_alone(look):
    texts = dict.fromkeys(range(100, 120), "only here and never again")
    lines = flats(describe=lambda i: texts.get(i, f"{'so' if i % 2 else 'oh'} it is {i}"))
    rows = [
        f"{line},{'test' if i > 100 else 'train' if i else 'split'}"
        for i, line in enumerate(lines.splitlines())
    ]
    looked = look("\n".join(rows), target="rent")
    assert looked.errors == []
    assert set(words_of(looked)) == {"so", "oh"}


def test_an_empty_text_has_no_words(look):
    looked = look(flats(describe=lambda i: "" if i == 5 else f"so it is {i % 2}x and {i}"))
    assert looked.errors == []
    without = [
        row for row in looked.table.to_pylist() if row["description.0x"] == row["description.1x"]
    ]
    assert [row["description.0x"] for row in without] == [0.0]


@pytest.mark.parametrize("use", ["ignored", "categorical"])
def test_the_user_can_keep_prose_out(look, use):
    assert words_of(look(flats(), columns={"description": use})) == []


def test_prose_without_a_frequent_word_is_not_used(look):
    looked = look(flats(describe=lambda i: f"p{i} q{i} r{i} s{i}"))
    assert looked.errors == []
    assert (looked.uses()["description"], words_of(looked)) == ("ignored", [])
    only = look("\n".join(f"p{i} q{i} r{i},{i % 7}.5" for i in range(60)))
    assert only.codes == ["no_features"]


def test_a_regression_can_be_trained_on_prose_alone(look):
    lines = [line.partition(",")[2] for line in flats().splitlines()]
    looked = look("\n".join(lines))
    assert (looked.errors, looked.report.task) == ([], "tabular-regression")
    assert "quiet" in words_of(looked)


def test_a_classification_uses_prose_and_other_columns_on_request(look):
    lines = [
        f"{i * 0.37:.2f},{'good' if i % 2 else 'bad'} and so on {i},{'ab'[i % 2]}"
        for i in range(80)
    ]
    content = "\n".join(["price,review,label", *lines])
    alone = look(content).report
    assert alone.task == "text-classification"
    assert any("also uses the other columns" in note for note in alone.notes)
    both = look(content, task="tabular-classification")
    assert both.uses() | {"review": "ignored", "price": "numeric"} == both.uses()
    assert {"good", "bad"} <= set(words_of(both))


def test_dates_with_named_months_are_not_prose(look):
    lines = [f"{i * 0.5},Jan {1 + i % 28:02} 20{10 + i % 14},{i}.5" for i in range(80)]
    looked = look("\n".join(["x,day,price", *lines]))
    assert words_of(looked) == []
    assert any(column.derived for column in looked.index.columns)
    assert not any("is prose" in note for note in looked.report.notes)
