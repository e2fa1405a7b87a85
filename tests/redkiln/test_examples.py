import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "examples" / "train_and_download.py"


def test_the_client_script_trains_and_downloads(fake, image_folder, tmp_path, capsys):
    main = runpy.run_path(str(SCRIPT))["main"]
    assert main(str(image_folder), tmp_path / "got") == 0
    assert (tmp_path / "got" / "model.onnx").exists()
    assert "verified against torch" in capsys.readouterr().out


def test_the_client_script_says_why_a_job_failed(fake, tmp_path, capsys):
    fake.status, fake.reason = "failed", {"code": "diverged", "message": "the loss is NaN"}
    main = runpy.run_path(str(SCRIPT))["main"]
    assert main("builtin:digits", tmp_path / "got") == 1
    assert "the loss is NaN" in capsys.readouterr().out
