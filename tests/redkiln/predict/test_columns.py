import numpy as np

from redkiln.predict.columns import name_inputs, split_columns


def test_inputs_are_named_like_their_columns_unless_another_one_has_the_name():
    columns = ["size", "value", "value_", "numbers", "two words"]
    assert name_inputs(columns) == {
        "size": "size",
        "value": "value__",
        "value_": "value_",
        "numbers": "numbers_",
        "two words": "two words",
    }


def test_a_block_of_a_table_becomes_its_columns():
    parts = [
        {"name": "numbers", "columns": ["size", "value"]},
        {"name": "codes", "columns": ["colour"], "categories": {"colour": ["red", "blue"]}},
    ]
    names = name_inputs(["size", "value", "colour"])
    feed = {
        "numbers": np.array([[1, 2], [3, np.nan]], np.float32),
        "codes": np.array([[1], [-1]]),
    }
    found = split_columns(feed, {"inputs": parts, "columns": names})
    assert list(found) == ["size", "value_", "colour"]
    np.testing.assert_array_equal(found["value_"], np.array([2, np.nan], np.float32))
    assert found["colour"].tolist() == ["blue", ""]
