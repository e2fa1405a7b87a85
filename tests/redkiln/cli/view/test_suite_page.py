import io

from rich.console import Console

from redkiln.cli.view.suite_page import print_suite, print_suites
from tests.redkiln.views.test_suite import make_result, make_test


def shown(draw, *results):
    console = Console(file=io.StringIO(), width=80)
    draw(console, *results)
    return console.file.getvalue()


def test_a_result_has_a_line_for_each_workload_and_its_scores():
    text = shown(print_suite, make_result(make_test(joules=2.5), make_test("b", rate=40.0)))
    assert "per joule" in text
    assert "score: inference 4000, training -" in text


def test_providers_are_columns_and_reasons_are_shown():
    failed = {"MIGraphXExecutionProvider": "Fail: no kernel"}
    test = make_test(providers={"CPUExecutionProvider": 12.0}, provider_errors=failed)
    bad = make_test("b", rate=1.0).model_copy(update={"rate": None, "skipped": "out of memory"})
    text = shown(print_suite, make_result(test, bad, sizes="quick"))
    assert "ORT CPU" in text
    assert "b/inference: out of memory" in text
    assert "MIGraphXExecutionProvider: Fail: no kernel" in text
    assert "means nothing" in text


def test_two_results_are_compared_by_ratio():
    text = shown(print_suites, make_result(make_test(rate=10.0)), make_result(make_test(rate=20.0)))
    assert text.count("2.00x") == 3  # the workload and two scores


def test_other_sizes_are_pointed_out():
    assert "care" in shown(print_suites, make_result(), make_result(sizes="full"))
