from types import SimpleNamespace

import torch

from worker.hardware.torch_settings import apply_settings

SETTINGS = {
    "torch.backends.cudnn.benchmark": "True",
    "torch.backends.cuda.preferred_blas_library": "cublas",
    "torch.backends.cuda.enable_flash_sdp": "False",
    "torch.backends.cuda.enable_mem_efficient_sdp": "False",
    "torch.backends.cuda.enable_math_sdp": "True",
}


def state():
    cuda = torch.backends.cuda
    return (
        torch.backends.cudnn.benchmark,
        str(cuda.preferred_blas_library()),
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
    )


def test_settings_of_the_real_torch_are_set_and_restored():
    before = state()
    undo, problems = apply_settings(torch, SETTINGS)
    changed = state()
    undo()
    assert problems == {}
    assert changed == (True, "_BlasBackend.Cublas", False, False, True)
    assert state() == before


def test_a_torch_without_one_setting_gets_the_others():
    backends = SimpleNamespace(cudnn=SimpleNamespace(benchmark=False), cuda=SimpleNamespace())
    fake = SimpleNamespace(backends=backends)
    undo, problems = apply_settings(fake, SETTINGS)
    assert backends.cudnn.benchmark is True
    assert set(problems) == set(SETTINGS) - {"torch.backends.cudnn.benchmark"}
    undo()
    assert backends.cudnn.benchmark is False


def test_choosing_a_library_does_not_open_the_gpus():
    calls = []

    def preferred_blas_library(value=None):
        assert value is not None, "torch looks at every GPU to answer"
        calls.append(value)

    cuda = SimpleNamespace(preferred_blas_library=preferred_blas_library)
    fake = SimpleNamespace(backends=SimpleNamespace(cuda=cuda))
    undo, problems = apply_settings(fake, {"torch.backends.cuda.preferred_blas_library": "cublas"})
    assert (calls, problems) == (["cublas"], {})
    undo()
    assert calls == ["cublas", "default"]


def test_a_refused_value_is_reported_as_a_problem():
    wanted = {"torch.backends.cuda.preferred_blas_library": "no-such-library"}
    _, problems = apply_settings(torch, wanted)
    assert (
        "this torch does not support it" in problems["torch.backends.cuda.preferred_blas_library"]
    )
