import pytest

from tests.redkiln.predict.models import save_colours
from worker.export.variants import loading
from worker.export.variants.loading import check_loads


def test_a_file_that_loads_passes(tmp_path):
    check_loads(save_colours(tmp_path))


def test_the_error_says_why_a_file_is_not_a_model(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ValueError, match=r"cannot load the file: .*model"):
        check_loads(tmp_path / "model.onnx")


def test_a_crash_of_onnxruntime_is_an_error_and_not_the_end_of_the_export(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "PROGRAM", "import os; os.abort()")
    with pytest.raises(ValueError, match=r"crashes when it loads the file \(signal 6\)"):
        check_loads(tmp_path / "model.onnx")
