"""A quarter of the tests inside the onnx wheel; `python -m bench onnx_in` runs all of them."""

from collections import Counter

import pytest

from bench.onnx_in.suite import judge, list_cases


@pytest.mark.filterwarnings("ignore:index_reduce:UserWarning")
def test_no_case_of_the_onnx_wheel_is_wrong():
    verdicts = [judge(case) for number, case in enumerate(list_cases()) if number % 4 == 0]
    wrong = {verdict.case.name: verdict.reason for verdict in verdicts if verdict.kind == "wrong"}
    assert wrong == {}
    assert Counter(verdict.kind for verdict in verdicts)["right"] > 380
