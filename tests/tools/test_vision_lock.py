import shutil

import pytest

from tools.vision_lock import FOLDERS, PINS, ROOT, main


@pytest.fixture
def tree(tmp_path):
    """The inputs of the vision tests as they are here, and an unrelated file."""
    for name in (*PINS, "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "worker" / "models.py").write_text("import timm\n")
    (tmp_path / "worker" / "loop.py").write_text("import torch\n")
    assert main("is-passed", tmp_path) == 1
    assert main("write", tmp_path) == 0
    return tmp_path


def test_what_passed_is_not_run_again(tree, capsys):
    assert main("is-passed", tree) == 0
    assert "skipped" in capsys.readouterr().out
    (tree / "worker" / "loop.py").write_text("import torch, math\n")
    (tree / "worker" / "models.py").rename(tree / "worker" / "from_timm.py")
    assert main("is-passed", tree) == 0


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("worker/models.py", "import timm", "import timm, math"),
        ("constraints-vision.txt", "timm==", "timm==9."),
        ("constraints.txt", "onnx==", "onnx==9."),
        ("pyproject.toml", '"timm>=', '"timm>=9.'),
    ],
)
def test_a_changed_input_is_run_again(tree, name, old, new):
    path = tree / name
    path.write_text(path.read_text().replace(old, new))
    assert main("is-passed", tree) == 1


def test_a_change_elsewhere_in_the_project_file_is_not_run_again(tree):
    path = tree / "pyproject.toml"
    path.write_text(path.read_text().replace("line-length = 100", "line-length = 99"))
    assert main("is-passed", tree) == 0
