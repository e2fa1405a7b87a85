import pytest
import torch

from redkiln.views.self_test import SelfTestReport
from worker.hardware.doctor.gather import SystemPaths
from worker.hardware.selftest.__main__ import main


def test_a_correct_cpu_exits_with_0_and_reports_that_no_gpu_was_tested(capsys):
    assert main(["--quick", "--device", "cpu"], environ={}) == 0
    printed = capsys.readouterr().out
    assert "21 of 21 passed" in printed
    assert "no GPU was tested" in printed
    assert "gemm tall skinny" in printed


def test_stdout_is_only_json_and_stderr_names_the_tests(capsys):
    environ = {"TORCH_BLAS_PREFER_HIPBLASLT": "0", "SECRET": "x"}
    assert main(["--quick", "--json", "--device", "cpu"], environ=environ) == 0
    printed = capsys.readouterr()
    report = SelfTestReport.model_validate_json(printed.out)
    assert report.status == "passed"
    assert report.settings == {"TORCH_BLAS_PREFER_HIPBLASLT": "0"}
    assert report.versions["torch"] == torch.__version__
    assert "fp32 sgd" in printed.err.splitlines()


def test_wrong_numbers_exit_with_1_and_are_listed(capsys, monkeypatch):
    monkeypatch.setattr(
        "worker.hardware.selftest.run.allowed_error", lambda *_args, **_kwargs: 1e-12
    )
    assert main(["--quick", "--device", "cpu"], environ={}) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "gemm in fp32, 256x256x256 nn: error 2" in printed
    assert "0 of 21 passed" in printed


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch sees a GPU here")
def test_a_missing_device_exits_with_2_and_an_explanation(capsys, monkeypatch, tmp_path):
    # Tests of containers create devices on this machine for a while.
    paths = SystemPaths(root=tmp_path)
    monkeypatch.setattr("worker.hardware.selftest.__main__.SystemPaths", lambda: paths)
    environ = {"CUDA_VISIBLE_DEVICES": "-1"}
    assert main(["--json", "--device", "cuda:0"], environ=environ) == 2
    report = SelfTestReport.model_validate_json(capsys.readouterr().out)
    assert (report.status, report.results) == ("error", [])
    assert "unset CUDA_VISIBLE_DEVICES" in report.cause


def test_an_unusable_device_exits_with_2_and_its_error(capsys, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise RuntimeError("HIP error: invalid device function")

    monkeypatch.setattr("torch.zeros", refuse)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert main(["--json", "--device", "cuda:0"], environ={}) == 2
    report = SelfTestReport.model_validate_json(capsys.readouterr().out)
    assert "invalid device function" in report.cause


def test_a_report_is_reused_until_again_is_given(capsys, tmp_path, monkeypatch):
    arguments = ["--quick", "--json", "--device", "cpu", "--cache-dir", str(tmp_path)]
    reports = []
    for more in ([], [], ["--again"]):
        assert main([*arguments, *more], environ={}) == 0
        reports.append(SelfTestReport.model_validate_json(capsys.readouterr().out))
    assert reports[0].at == reports[1].at < reports[2].at


def test_a_report_without_a_pci_address_is_not_reused(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.zeros", lambda *_args, **_kwargs: None)
    monkeypatch.setattr(
        "worker.hardware.selftest.__main__.describe_device",
        lambda device: {"name": "a card", "gfx": "gfx1100", "pci_address": None},
    )
    monkeypatch.setattr(
        "worker.hardware.selftest.__main__.run_self_test",
        lambda blank, **_kwargs: blank.model_copy(update={"status": "passed"}),
    )
    arguments = ["--json", "--device", "cuda:0", "--cache-dir", str(tmp_path)]
    assert main(arguments, environ={}) == 0
    assert list(tmp_path.iterdir()) == []
