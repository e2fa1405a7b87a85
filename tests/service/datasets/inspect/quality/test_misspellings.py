import pytest

from service.datasets.inspect.quality.classes import check_classes
from service.datasets.inspect.quality.misspellings import find_misspellings


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("retruned", "returned"),
        ("returnd", "returned"),
        ("returneed", "returned"),
        ("returmed", "returned"),
        ("Retruned", "returned"),
        ("small_retruned", "small_returned"),
    ],
)
def test_one_typing_mistake_in_a_far_smaller_class_is_found(name, right):
    assert find_misspellings({name: 85, right: 1700, "lost": 57}) == {name: right}
    assert find_misspellings({name: 86, right: 1700, "lost": 57}) == {}


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("a1", "a2"),
        ("low", "slow"),
        ("lost", "last"),
        ("horse", "house"),
        ("class_1", "class_2"),
        ("sample1000", "sample100"),
        ("class_a", "class_b"),
        ("stage_i", "stage_ii"),
        ("typical", "atypical"),
        ("abnormal", "normal"),
        ("invalid", "valid"),
        ("trainee", "trainer"),
        ("hypertension", "hypotension"),
        ("returned", "Returned"),
        ("not returned", "returned"),
    ],
)
def test_names_of_different_things_are_no_misspellings(name, other):
    assert find_misspellings({name: 10, other: 2000}) == {}
    assert find_misspellings({other: 10, name: 2000}) == {}


def test_a_misspelt_class_is_named_and_does_not_count_as_the_rare_one():
    counts = {"returned": 1692, "retruned": 6, "returnd": 4, "lost": 57}
    found = {one.code: one.message for one in check_classes({"train": counts})}
    assert "returnd (4) may be a misspelling of returned (1,692)" in found["few_samples"]
    assert found["misspelt_classes"] == (
        "retruned (6) may be a misspelling of returned (1,692); if so, correct the name and push "
        "the data again"
    )
    assert "and lost has 57: a model that ignores lost" in found["imbalance"]
    only = check_classes({"train": {"returned": 1692, "retruned": 6}})
    assert [one.code for one in only] == ["misspelt_classes"]
