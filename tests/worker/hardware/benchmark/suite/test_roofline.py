from tests.redkiln.views.test_suite import make_result
from worker.hardware.benchmark.suite.roofline import draw_roofline, find_place, find_roof


def test_the_roof_is_the_lower_limit():
    result = make_result(peak_tflops=100.0, peak_bytes_per_second=1e12)
    assert find_roof(result, 10.0) == 10.0
    assert find_roof(result, 1000.0) == 100.0
    assert find_roof(make_result(), 10.0) is None


def test_a_workload_lies_at_its_intensity():
    result = make_result()
    assert find_place(result.tests[0]) == (50.0, result.tests[0].tflops)


def test_the_picture_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    draw_roofline(make_result(peak_tflops=100.0, peak_bytes_per_second=1e12), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
