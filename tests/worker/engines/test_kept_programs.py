"""Kernels that tinygrad generates once for all trainers of a worker."""

import os
import subprocess
import sys

from worker.engines.kept_programs import KeptPrograms

KEY = (b"operations", "target", 1)
COMPUTE = """
import sys
from pathlib import Path
from worker.engines.tinygrad_device import open_tinygrad

opened = open_tinygrad(Path(sys.argv[1]))
from tinygrad import codegen

generate, num = codegen.do_to_program, []
codegen.do_to_program = lambda *given: (num.append(1), generate(*given))[1]
tensor = opened.tinygrad.Tensor([1.0, 2.0], device=opened.device).realize()
result = (tensor * 3 + 1).sum().item()
print(len(num), result)
"""


def compute(cache_dir):
    environment = {name: value for name, value in os.environ.items() if name != "CACHEDB"}
    command = [sys.executable, "-c", COMPUTE, str(cache_dir)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.split()


def test_a_second_trainer_generates_no_kernel_again(opened, tmp_path):
    num, result = compute(tmp_path)
    assert (int(num) > 0, float(result)) == (True, 11.0)
    assert compute(tmp_path) == ["0", result]


def test_a_program_is_found_by_its_whole_key(tmp_path):
    KeptPrograms(tmp_path / "device")[KEY] = "program"
    kept = KeptPrograms(tmp_path / "device")
    assert KEY in kept
    assert kept.get(KEY) == kept[KEY] == "program"
    assert (*KEY[:-1], 2) not in kept
    assert kept.get((*KEY[:-1], 2)) is None


def test_a_damaged_program_is_generated_again(tmp_path):
    KeptPrograms(tmp_path)[KEY] = "program"
    (path,) = (path for path in tmp_path.iterdir() if path.is_file())
    path.write_bytes(path.read_bytes()[:-1])
    assert KEY not in KeptPrograms(tmp_path)


def test_the_least_recently_used_programs_make_room(tmp_path):
    kept = KeptPrograms(tmp_path)
    for place in range(3):
        kept[(place,)] = bytes(1_000)
        os.utime(max(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime_ns), (0, place))
    assert (0,) in KeptPrograms(tmp_path), "which marks it as used"
    pruned = KeptPrograms(tmp_path, budget_bytes=2_500)
    assert [(place,) in pruned for place in range(3)] == [True, False, True]


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path):
    kept = KeptPrograms(tmp_path / "device")
    (tmp_path / "device").rmdir()
    kept[KEY] = "program"
    assert kept[KEY] == "program"
    assert KEY not in KeptPrograms(tmp_path / "device")
