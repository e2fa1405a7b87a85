import sys
from types import SimpleNamespace

import pytest

from redkiln.views.hardware import GpuFacts
from worker.hardware.program import (
    TorchFacts,
    ask_torch,
    decide_for_program,
    decide_for_torch,
    find_interpreter,
)

GPUS = [
    GpuFacts(gfx="gfx1031", node=1, uuid="GPU-aa", is_apu=False),
    GpuFacts(gfx="gfx1100", node=2, uuid="GPU-bb", is_apu=False),
    GpuFacts(gfx="gfx1036", node=3, is_apu=True),
]
ROCM = TorchFacts(version="2.10.0", rocm="7.2.1", arch_list=("gfx1030", "gfx1100"), num_gpus=3)
PASSES = [sys.executable, "-c", 'print(\'{"errors": {"product": 0.0}}\')']


@pytest.mark.parametrize(
    ("command", "interpreter"),
    [
        (["/venv/bin/python3.12", "train.py"], "/venv/bin/python3.12"),
        (["python", "-m", "train"], "python"),
        (["torchrun", "train.py"], sys.executable),
        ([], sys.executable),
    ],
)
def test_a_programs_own_interpreter_is_asked(command, interpreter):
    assert find_interpreter(command) == interpreter


def test_the_real_torch_of_this_interpreter_answers():
    hidden = {"CUDA_VISIBLE_DEVICES": "-1", "HIP_VISIBLE_DEVICES": "-1"}
    found = ask_torch(sys.executable, environ=hidden)
    assert found.problem == ""
    assert found.version
    assert found.num_gpus == 0


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("raise ImportError('No module named torch')", "No module named torch"),
        ("", "has no attribute"),
    ],
)
def test_an_interpreter_without_torch_is_reported_as_a_problem(tmp_path, script, problem):
    (tmp_path / "torch.py").write_text(script)
    found = ask_torch(sys.executable, environ={"PYTHONPATH": str(tmp_path)})
    assert problem in found.problem
    assert found.num_gpus == 0


def test_a_missing_interpreter_is_reported_as_a_problem():
    assert "could not be queried" in ask_torch("/no/such/python", environ={}).problem


def decide(tmp_path, environ, *, torch=ROCM, probe=PASSES):
    outcomes = decide_for_program(
        torch, environ=environ, cache_dir=tmp_path, probe_command=probe, gpus=GPUS
    )
    return {outcome.name: outcome for outcome in outcomes}


def test_a_program_gets_an_override_that_passed_its_probe(tmp_path):
    outcomes = decide(tmp_path, {"ROCR_VISIBLE_DEVICES": "0"})
    assert outcomes["gfx_override"].environment == {"HSA_OVERRIDE_GFX_VERSION_1": "10.3.0"}
    crashed = decide(
        tmp_path / "other", {"ROCR_VISIBLE_DEVICES": "0"}, probe=[sys.executable, "-c", "1/0"]
    )
    assert crashed["gfx_override"].outcome == "refused"


@pytest.mark.parametrize(
    ("gpu", "environ", "mask"),
    [
        (GPUS[0], {"HIP_VISIBLE_DEVICES": "1,0"}, "GPU-aa"),
        (GPUS[2], {"ROCR_VISIBLE_DEVICES": "2", "GPU_DEVICE_ORDINAL": "0"}, "2"),
        (GPUS[2], {}, "2"),
    ],
)
def test_an_override_is_probed_on_its_gpu_with_any_mask(tmp_path, gpu, environ, mask):
    says = (
        "import json, os; names = ('ROCR_', 'HIP_', 'CUDA_', 'GPU_');"
        "print(json.dumps({'error': str({n: v for n, v in os.environ.items()"
        " if n.startswith(names)})}))"
    )
    outcomes = decide(tmp_path, environ, probe=[sys.executable, "-c", says])
    candidate = f"{gpu.gfx} with HSA_OVERRIDE_GFX_VERSION_{gpu.node}=10.3.0"
    shown = {"ROCR_VISIBLE_DEVICES": mask}
    assert f"{candidate}: {shown}" in outcomes["gfx_override"].why


def test_a_programs_shapes_count_as_unknown(tmp_path):
    outcomes = decide(tmp_path, {"ROCR_VISIBLE_DEVICES": "1"})
    assert outcomes["convolution_search"].outcome == "skipped"
    assert (
        outcomes["kernel_caches"]
        .environment["TRITON_CACHE_DIR"]
        .startswith(f"{tmp_path}/gfx1100/torch-2.10.0-rocm-7.2.1/")
    )


def test_a_cpu_program_gets_no_gpu_patches(tmp_path):
    outcomes = decide(tmp_path, {}, torch=TorchFacts(version="2.13.0"))
    assert set(outcomes) == {"kernel_caches", "others"}


def test_deciding_for_a_process_does_not_start_hip():
    def forbidden(*_):
        raise AssertionError("this would start HIP")

    cuda = SimpleNamespace(is_available=forbidden, device_count=forbidden, get_arch_list=forbidden)
    torch = SimpleNamespace(
        __version__="2.13.0", version=SimpleNamespace(hip="7.15.26333", rocm="10.0.1"), cuda=cuda
    )
    found = {o.name: o for o in decide_for_torch(torch, environ={}, gpus=GPUS[1:2])}
    assert found["miopen_log"].outcome == "applied"
    assert found["gfx_override"].outcome == "skipped"
