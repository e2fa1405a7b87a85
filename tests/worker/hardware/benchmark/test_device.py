import pytest
import torch

from worker.hardware.benchmark.device import (
    ask_device,
    describe_machine,
    find_gpus,
    read_cpu_flags,
    read_free_memory,
    refuse_precision,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("precision", "kind", "gfx", "flags", "words"),
    [
        ("fp32", "gpu", "gfx1030", (), None),
        ("fp16", "gpu", "gfx1030", (), None),
        ("bf16", "gpu", "gfx1030", (), "gfx1030 has no bf16 arithmetic"),
        ("bf16", "gpu", "gfx1100", (), None),
        ("fp16", "gpu", "gfx9999", (), "gfx9999 has no fp16 arithmetic"),
        ("fp16", "cpu", None, ("avx2",), "this CPU has no fp16 arithmetic"),
        ("fp16", "cpu", None, ("avx512_fp16",), None),
        ("bf16", "cpu", None, ("avx2",), None),
    ],
)
def test_a_type_is_refused_by_known_facts_about_the_device(precision, kind, gfx, flags, words):
    found = refuse_precision(precision, kind=kind, gfx=gfx, cpu_flags=flags)
    assert found is None if words is None else words in found


def test_a_cpu_is_described():
    facts = ask_device(CPU, precisions=["fp32", "bf16"], num_gpus=0)
    assert (facts.kind, facts.num_gpus, facts.refused) == ("cpu", 0, {})
    assert facts.free_bytes > 2**20
    machine = describe_machine(CPU, gpus=find_gpus(CPU, num_gpus=0))
    assert (machine.kind, machine.device, machine.gpus) == ("cpu", machine.cpu, [])
    assert machine.versions["torch"] == torch.__version__


def test_free_memory_is_the_memory_available_without_swapping(tmp_path):
    path = tmp_path / "meminfo"
    path.write_text("MemTotal:  2000 kB\nMemFree:  10 kB\nMemAvailable:   1000 kB\n")
    assert read_free_memory(path) == 1_024_000
    path.write_text("MemTotal:  2000 kB\n")
    with pytest.raises(RuntimeError, match="MemAvailable"):
        read_free_memory(path)


@pytest.mark.parametrize("name", ["flags\t\t", "Features\t"])
def test_the_flags_of_a_cpu_are_read_on_x86_and_on_arm(tmp_path, name):
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor : 0\n{name}: fpu asimdhp fphp\n")
    assert "fphp" in read_cpu_flags(path)
    path.write_text("processor : 0\n")
    assert read_cpu_flags(path) == frozenset()
