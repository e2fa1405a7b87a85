import json
import re
import signal

import pytest

from redkiln.failure import FailureCode
from redkiln.tasks.script import Guard, ScriptSpec
from redkiln.views.hardware import GpuTelemetry
from worker.hardware.health.deaths import CAUSES
from worker.jobdir import LocalDataset
from worker.script.bounds.gpu_guard import GpuGuard
from worker.script.ending import explain_exit
from worker.script.program.packages import Environment, explain, find_pins
from worker.script.program.program import build_program, open_data


@pytest.mark.parametrize(
    ("status", "tail", "code", "words"),
    [
        (1, "Traceback\nValueError: no", FailureCode.SCRIPT_FAILED, "status 1: ValueError: no"),
        (1, "", FailureCode.SCRIPT_FAILED, "it printed nothing"),
        (127, "redkiln: x cannot be run: No such file", FailureCode.BAD_INPUT, "does not exist"),
        (-signal.SIGSEGV, "", FailureCode.CRASHED, "segmentation fault"),
        (128 + signal.SIGSEGV, "", FailureCode.CRASHED, "segmentation fault"),
        (-signal.SIGKILL, "", FailureCode.KILLED, "SIGKILL"),
        (1, "torch.OutOfMemoryError: HIP out of memory.", FailureCode.OUT_OF_MEMORY, "memory"),
        (1, "RuntimeError: No HIP GPUs are available", FailureCode.NO_GPU, "not visible"),
    ],
)
def test_an_exit_is_explained_by_its_cause(status, tail, code, words):
    failure = explain_exit(status, tail=tail, oom_kills=0)
    assert failure.code == code
    assert words in failure.message


@pytest.mark.parametrize(
    ("words", "code", "row", "fix"),
    [
        ("RuntimeError: HIP error: invalid device function", "no_gpu", 1, "`redkiln doctor`"),
        ("hipErrorNoBinaryForGpu: Unable to find code object", "no_gpu", 1, "`redkiln doctor`"),
        ("torch.OutOfMemoryError: HIP out of memory.", "out_of_memory", 16, "smaller batches"),
        ("Memory access fault by GPU node-1", "gpu_fault", 9, "HSA_OVERRIDE_GFX_VERSION"),
        ("LLVM ERROR: Cannot select: f32 = fdot2.bf16", "bad_input", 20, "fp16 or fp32"),
    ],
)
def test_a_known_error_in_a_scripts_output_becomes_its_failure(words, code, row, fix):
    tail = f"epoch 1\n{words}\nsome more"
    failure = explain_exit(1, tail=tail, oom_kills=0)
    assert (failure.code, failure.details["doctor_row"]) == (code, row)
    assert fix in failure.details["fix"]
    assert failure.message.endswith(failure.details["fix"])
    assert failure.details["line"] == words
    assert (failure.details["exit_status"], failure.details["tail"]) == (1, tail)


WORDS = {
    "gpu_out_of_memory": "HIP out of memory",
    "no_bf16": "LLVM ERROR: fdot2.bf16",
    "illegal_instruction": "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION",
    "compiler_died": "LLVM ERROR: out of registers",
    "host_out_of_memory": "MemoryError",
}


def test_a_library_that_a_scripts_package_needs_is_not_called_a_fault_of_torch():
    words = "ImportError: libGL.so.1: cannot open shared object file: No such file or directory"
    failure = explain_exit(1, tail=words, oom_kills=0)
    assert failure.code == "script_failed"
    assert "libGL.so.1" in failure.message
    assert "doctor_row" not in failure.details
    assert "torch" not in failure.message


def test_the_advice_for_scripts_names_no_field_of_a_trainers_spec():
    fields = re.compile(r"training\.|batch_size|extra `worker`")
    of_trainers = {cause.name for cause in CAUSES if fields.search(cause.fix)}
    assert of_trainers == {*WORDS, "broken_installation"}
    for name, words in WORDS.items():
        failure = explain_exit(1, tail=words, oom_kills=0)
        assert failure.details["cause"] == name
        assert not fields.search(failure.message)


@pytest.mark.parametrize(
    "line",
    [
        "ModuleNotFoundError: No module named 'einops'",
        "ImportError: cannot import name 'a' from 'b'",
    ],
)
def test_a_missing_package_is_the_scripts_fault_and_the_advice_is_to_require_it(line):
    failure = explain_exit(1, tail=f"Traceback\n{line}\n", oom_kills=0)
    assert (failure.code, failure.retryable) == (FailureCode.SCRIPT_FAILED, False)
    assert line in failure.message
    assert "--requirements" in failure.details["fix"]


@pytest.mark.parametrize(
    "words",
    [
        "RuntimeError: No HIP GPUs are available",
        "AssertionError: Torch not compiled with CUDA enabled",
        "Unable to open /dev/kfd read-write: Permission denied",
    ],
)
def test_a_script_that_uses_an_unleased_gpu_is_advised_to_request_one(words):
    failure = explain_exit(1, tail=words, oom_kills=0, has_gpu=False)
    assert (failure.code, failure.retryable) == (FailureCode.SCRIPT_FAILED, False)
    assert "--gpus 1" in failure.message
    assert "doctor_row" not in failure.details
    assert explain_exit(1, tail=words, oom_kills=0).code == FailureCode.NO_GPU


def test_an_oom_kill_is_reported_as_such():
    failure = explain_exit(-signal.SIGKILL, tail="", oom_kills=1)
    assert failure.code == FailureCode.HOST_OUT_OF_MEMORY


def test_exit_status_0_is_a_success_whatever_was_printed():
    assert explain_exit(0, tail="UserWarning: HIP out of memory", oom_kills=0) is None


class TestGuard:
    def guard(self, clock, *readings, minutes=1.0):
        told = iter(readings)
        last = []

        def read():
            nonlocal last
            last = next(told, last)
            return last

        return GpuGuard(Guard(minutes=minutes), read, clock=clock)

    def look(self, guard, clock, *, torch_bytes=None, times=40):
        for _ in range(times):
            clock.now += 2.0
            problem = guard.look(torch_bytes=torch_bytes)
            if problem:
                return problem
        return None

    def idle(self, used=10):
        return [GpuTelemetry(vram_used_bytes=used * 2**20, busy_ratio=0.0)]

    def test_an_idle_gpu_is_reported_once_the_time_is_up(self, clock):
        guard = self.guard(clock, self.idle())
        assert "has not used it" in self.look(guard, clock)
        assert guard.is_sure
        assert clock.now == pytest.approx(60.0)
        assert self.look(guard, clock) is None, "it is said once"

    @pytest.mark.parametrize(
        "reading",
        [
            GpuTelemetry(vram_used_bytes=200 * 2**20, busy_ratio=0.0),
            GpuTelemetry(vram_used_bytes=10 * 2**20, busy_ratio=0.5),
        ],
    )
    def test_memory_or_busy_time_counts_as_use(self, clock, reading):
        guard = self.guard(clock, self.idle(), [reading])
        assert self.look(guard, clock) is None
        assert guard.is_used

    def test_memory_of_torch_counts_as_use_without_driver_files(self, clock):
        guard = self.guard(clock, [])
        assert self.look(guard, clock, torch_bytes=1) is None
        assert guard.is_used

    def test_unused_torch_memory_alone_is_not_certain(self, clock):
        guard = self.guard(clock, [])
        assert "torch has allocated no memory" in self.look(guard, clock, torch_bytes=0)
        assert not guard.is_sure

    def test_without_any_reading_nothing_is_reported(self, clock):
        guard = self.guard(clock, [])
        assert self.look(guard, clock) is None
        assert not guard.is_used


class TestProgram:
    def build(self, paths, *, spec=None, num_gpus=0, data=None, environ=None, **options):
        script = {"command": ["python", "train.py", "--out={out}"], **(spec or {})}
        full = {"task": "script", "script": script, **options}
        return build_program(
            ScriptSpec.model_validate(full),
            paths=paths,
            environment=Environment(),
            data=data,
            is_resumed=False,
            num_gpus=num_gpus,
            torch_settings=None,
            environ=environ or {"PATH": "/usr/bin"},
        )

    def test_the_command_gets_its_folders(self, paths):
        program = self.build(paths)
        assert program.words == ["python", "train.py", f"--out={paths.out_dir}"]
        assert program.environ["REDKILN_OUT"] == str(paths.out_dir)
        assert program.environ["PATH"].endswith(":/usr/bin")

    def test_several_gpus_get_a_process_each(self, paths):
        program = self.build(paths, num_gpus=2, spec={"grace_seconds": 90.5})
        words = program.words
        assert words[:4] == ["python", "-m", "torch.distributed.run", "--standalone"]
        assert words[4:7] == ["--nproc-per-node", "2", "--no-python"]
        assert words[7:9] == ["python", "train.py"]
        assert program.environ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "92", "over the grace"

    def test_no_credential_of_the_worker_is_passed_on(self, paths):
        environ = {"HF_TOKEN": "t", "REDKILN_KEY": "k", "HSA_X": "1", "PATH": "/bin"}
        program = self.build(paths, environ=environ, spec={"env": {"MINE": "1"}})
        assert not {"HF_TOKEN", "REDKILN_KEY"} & set(program.environ)
        assert (program.environ["HSA_X"], program.environ["MINE"]) == ("1", "1")

    def test_torch_is_watched_if_a_gpu_was_requested(self, paths):
        assert "REDKILN_WATCH_GPU" not in self.build(paths).environ
        program = self.build(paths, resources={"device": "gpu"})
        assert program.environ["REDKILN_WATCH_GPU"] == str(paths.events_path)

    def test_data_is_a_folder_a_file_or_an_archive_unpacked_once(self, tmp_path):
        import zipfile

        archive = tmp_path / "data.zip"
        with zipfile.ZipFile(archive, "w") as packed:
            packed.writestr("a/x.txt", "x")
        dataset = LocalDataset(name="d", kind="archive", path=str(archive), fingerprint="f" * 64)
        folder = open_data(dataset, cache_dir=tmp_path / "cache", say=print)
        assert (folder / "a" / "x.txt").read_text() == "x"
        inode = folder.stat().st_ino
        assert open_data(dataset, cache_dir=tmp_path / "cache", say=print).stat().st_ino == inode
        table = tmp_path / "rows.csv"
        table.write_text("a,b\n1,2\n")
        single = LocalDataset(name="t", kind="archive", path=str(table), fingerprint="e" * 64)
        assert open_data(single, cache_dir=tmp_path, say=print) == table
        assert open_data(None, cache_dir=tmp_path, say=print) is None


def test_torch_is_pinned_to_the_installed_version():
    import torch

    assert any(pin == f"torch=={torch.__version__}" for pin in find_pins())


def test_a_conflict_over_torch_is_explained():
    said = "ERROR: Cannot install torch==1.0 because these package versions have conflicting ..."
    assert "is never replaced" in explain(said)
    assert "is never replaced" not in explain("ERROR: No matching distribution found for zz")
    json.dumps(explain(said))
