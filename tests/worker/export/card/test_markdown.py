import pytest

from worker.export.card.markdown import escape


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\x85", "\v"])
def test_the_end_of_a_line_in_a_class_name_splits_no_table(end):
    assert escape(f"cat{end}| dog |") == "cat \\| dog \\|"
