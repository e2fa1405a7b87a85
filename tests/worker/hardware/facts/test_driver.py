import pytest

from worker.hardware.facts.driver import read_driver_version

NVIDIA = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"amdgpu": "6.12.12\n", "kernel": "6.8.0"}, "amdgpu 6.12.12"),
        ({"kernel": "6.18.4-arch1\n"}, "linux 6.18.4-arch1"),
        ({"nvidia": NVIDIA, "kernel": "6.8"}, "nvidia 550.54.15"),
        ({"nvidia": OPEN}, "nvidia 580.82.07"),
        ({}, None),
    ],
)
def test_the_driver_version_is_the_modules_or_the_kernels(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    paths = {name: tmp_path / name for name in ("amdgpu", "nvidia", "kernel")}
    assert read_driver_version(**paths) == expected
