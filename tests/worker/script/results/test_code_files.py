import pytest

from worker.script.results.code_files import CodeFiles


@pytest.fixture
def code_files(paths):
    (paths.code_dir / "lib").mkdir()
    (paths.code_dir / "train.py").write_text("print()")
    (paths.code_dir / "lib" / "net.py").write_text("")
    return CodeFiles(paths.code_dir)


def write(paths, *names):
    for name in names:
        path = paths.code_dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("new content")


def test_code_that_stays_as_it_was_causes_no_warning(paths, code_files, event_log, events):
    write(paths, "__pycache__/net.pyc", "lib/__pycache__/net.pyc", ".cache")
    code_files.warn_of_written(event_log)
    assert events("warning") == []


def test_new_and_changed_files_are_named_with_what_to_do(paths, code_files, event_log, events):
    write(paths, "model.onnx", "lib/net.py")
    code_files.warn_of_written(event_log)
    (warning,) = events("warning")
    assert warning["code"] == "files_next_to_code"
    assert "wrote 2 files next to its code" in warning["message"]
    assert "lib/net.py, model.onnx. Write results to {out} (REDKILN_OUT)" in warning["message"]


def test_of_many_files_the_first_three_are_named(paths, code_files, event_log, events):
    write(paths, *(f"{letter}.txt" for letter in "edcba"))
    code_files.warn_of_written(event_log)
    (warning,) = events("warning")
    assert "a.txt, b.txt, c.txt and 2 more. " in warning["message"]
