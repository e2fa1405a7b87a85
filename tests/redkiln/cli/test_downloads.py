from pathlib import Path

import pytest

JOB_ID = "job_0123456789abcdefghijkl"


def test_all_files_go_into_a_folder_named_after_the_job(redkiln):
    done = redkiln("download", "last")
    assert done.code == 0
    assert "2 files in out/flowers/, sha256 verified" in done.out
    names = sorted(path.name for path in Path("out/flowers").iterdir())
    assert names == ["job.json", "model.onnx", "report.md"]


def test_only_the_named_files_are_downloaded(redkiln):
    assert redkiln("download", "last", "report.md", "-o", "x").code == 0
    assert not Path("x/model.onnx").exists()


def test_an_onnx_file_is_downloaded_with_the_file_of_its_weights(redkiln, fake):
    fake.task = "script"
    fake.files = {
        "deep/m.onnx": ("model", b"1"),
        "deep/m.onnx.data": ("file", b"2"),
        "other.onnx.data": ("file", b"3"),
    }
    assert "2 files in x/" in redkiln("download", "last", "deep/m.onnx", "-o", "x").out
    assert Path("x/deep/m.onnx.data").read_bytes() == b"2"
    both = redkiln("download", "last", "deep/m.onnx", "deep/m.onnx.data", "-o", "y")
    assert "2 files in y/" in both.out


def test_an_unknown_name_lists_the_known_ones(redkiln):
    done = redkiln("download", "last", "model.pt")
    assert done.code == 2
    assert "model.onnx, report.md" in done.err


def test_a_corrupted_file_has_its_own_exit_status(redkiln, fake):
    fake.corrupt = True
    done = redkiln("download", "last")
    assert done.code == 6
    assert "was corrupted in transit" in done.err


def test_a_job_without_artifacts_says_so(redkiln, fake):
    fake.status = "failed"
    done = redkiln("download", "last")
    assert done.code == 2
    assert "flowers" in done.err
    assert "has no artifacts" in done.err


def test_an_unverified_model_is_fetched_and_reported(redkiln, fake):
    fake.is_verified = False
    done = redkiln("download", "last")
    assert done.code == 5
    assert Path("out/flowers/model.onnx").exists()


def test_files_in_folders_stay_in_their_folders(redkiln, fake):
    fake.task, fake.files = "script", {"adapter/weights.bin": ("file", b"1234")}
    assert redkiln("download", "last").code == 0
    assert Path("out/flowers/adapter/weights.bin").read_bytes() == b"1234"


@pytest.mark.parametrize(
    "name", ["../up.bin", "/tmp/up.bin", "a/../../up.bin", "job.json", "JOB.json", ".profile"]
)
def test_a_name_that_leads_out_of_the_folder_is_refused_before_writing(redkiln, fake, name):
    fake.task = "script"
    fake.files = {"good.bin": ("file", b"1"), name: ("file", b"1234")}
    done = redkiln("download", "last", "-o", "deep/er")
    assert done.code == 6
    assert "cannot be used as a file name here" in done.err
    assert not list(Path.cwd().rglob("*"))
