"""Programs of users through the real queue: what they say and leave, and how they end."""

import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import psutil
import pytest

from redkiln.client.bundle import open_bundle
from redkiln.errors import NotAuthorized
from redkiln.status import JobStatus
from worker.hardware.health.death_book import DeathBook

pytestmark = pytest.mark.integration

TRAIN = """
import os, sys, time, redkiln
steps = int(sys.argv[1])
state = os.path.join(os.environ["REDKILN_CHECKPOINTS"], "state")
first = int(open(state).read()) if redkiln.is_resumed() else 0
print("from", first, flush=True)
for step in range(first + 1, steps + 1):
    time.sleep(0.05)
    redkiln.log(step=step, steps=steps, loss=1 / step)
    if step % 5 == 0:
        with open(state + ".tmp", "w") as file:
            file.write(str(step))
        os.replace(state + ".tmp", state)
os.makedirs(os.path.join(os.environ["REDKILN_OUT"], "adapter"), exist_ok=True)
with open(os.path.join(os.environ["REDKILN_OUT"], "adapter", "weights.bin"), "wb") as file:
    file.write(b"weights")
"""


@pytest.fixture
def run(scripts, tmp_path):
    """Submit a command with a folder's code; what ended, its log and its artifacts' names."""

    def submit(*command, files=None, **script):
        sha256 = None
        if files:
            folder = tmp_path / "code"
            folder.mkdir(exist_ok=True)
            for name, text in files.items():
                (folder / name).write_text(text)
            sha256 = scripts.client.push_bundle(open_bundle(folder).package)
        full = {"command": list(command), "bundle": sha256, **script.pop("script", {})}
        return scripts.client.submit({"task": "script", "script": full, **script}).id

    return submit


def log_of(site, job_id):
    return b"".join(site.client.logs(job_id)).decode(errors="replace")


def names(site, job_id):
    return {item.name for item in site.client.artifacts(job_id)}


def warnings(job):
    return {warning.code for warning in job.warnings}


def test_a_script_is_watched_and_its_files_are_kept(scripts, run):
    job = scripts.wait_for_end(run("python", "train.py", "8", files={"train.py": TRAIN}))
    assert job.status is JobStatus.SUCCEEDED
    assert (job.progress.step, job.progress.steps) == (8, 8)
    assert "adapter/weights.bin" in names(scripts, job.id)
    (series,) = scripts.client.metrics(job.id, names=["loss"])
    assert series.steps == list(range(1, 9))
    assert "from 0" in log_of(scripts, job.id)


def test_a_killed_script_resumes_from_its_checkpoints(scripts, run):
    job_id = run("python", "train.py", "300", files={"train.py": TRAIN})
    scripts.wait_for(lambda: scripts.committed_steps(job_id))
    scripts.trainer_of().send_signal(signal.SIGKILL)
    job = scripts.wait_for_end(job_id)
    assert job.status is JobStatus.SUCCEEDED
    assert len(job.attempts) == 2
    assert "from 0" not in log_of(scripts, job_id)
    assert (job.progress.step, job.progress.fraction) == (300, 1.0)


def test_corrected_code_starts_with_the_checkpoints_of_the_failed_job(scripts, run):
    broken = TRAIN + 'raise ValueError("a bug")\n'
    failed = scripts.wait_for_end(run("python", "train.py", "10", files={"train.py": broken}))
    assert failed.status is JobStatus.FAILED
    start = {"start_from": f"job:{failed.id}"}
    corrected = run("python", "train.py", "12", files={"train.py": TRAIN}, script=start)
    job = scripts.wait_for_end(corrected)
    assert job.status is JobStatus.SUCCEEDED
    assert "from 10" in log_of(scripts, job.id)


def test_a_killed_program_of_a_script_resumes_too(scripts, run):
    job_id = run("python", "train.py", "300", files={"train.py": TRAIN})
    scripts.wait_for(lambda: scripts.committed_steps(job_id))
    program = next(p for p in scripts.children_of() if cmdline(p).endswith("train.py 300"))
    program.kill()
    job = scripts.wait_for_end(job_id)
    assert job.status is JobStatus.SUCCEEDED
    assert [attempt.resumed_from_step is None for attempt in job.attempts] == [True, False]
    assert "from 0" not in log_of(scripts, job_id)


def test_a_file_is_there_as_soon_as_it_is_closed_and_the_command_shows_the_output_live(
    scripts, tmp_path
):
    code = """
        import os, time
        out = os.environ["REDKILN_OUT"]
        print("begun", flush=True)
        with open(out + "/first.txt", "w") as file:
            file.write("first")
        with open(out + "/second.txt", "w") as file:
            file.write("half")
            file.flush()
            while not os.path.exists("go"):
                time.sleep(0.05)
    """
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(dedent(code))
    command = [
        sys.executable,
        "-m",
        "redkiln",
        "run",
        "--output",
        "left",
        "--",
        "python",
        "train.py",
    ]
    stack = scripts.stack
    own = {
        "REDKILN_URL": stack.url,
        "REDKILN_KEY": stack.admin_key,
        "PYTHONPATH": str(Path(__file__).parents[3]),
    }
    with subprocess.Popen(
        command, cwd=folder, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True
    ) as shown:
        assert any(line.strip() == "begun" for line in shown.stdout)
        (job,) = [job for job in scripts.client.jobs() if not job.is_terminal]
        scripts.wait_for(lambda: "first.txt" in names(scripts, job.id))
        assert "second.txt" not in names(scripts, job.id)
        assert not scripts.client.job(job.id).is_terminal
        # Other tests may have left folders of workers that were killed.
        (attempt,) = scripts.client.job(job.id).attempts
        (code_dir,) = stack.state_dir.glob(f"worker*/jobs/{attempt.id}/script/code")
        (code_dir / "go").touch()
        assert shown.wait(60) == 0
    assert {path.name for path in (folder / "left").iterdir()} >= {"first.txt", "second.txt"}
    scripts.wait_for(lambda: not code_dir.parent.exists())


def test_a_pause_uploads_the_checkpoints_and_resuming_restores_them(scripts, run):
    job_id = run("python", "train.py", "300", files={"train.py": TRAIN})
    scripts.wait_for(lambda: (p := scripts.client.job(job_id).progress) and p.step > 10)
    scripts.client.pause(job_id)
    scripts.wait_for(lambda: scripts.client.job(job_id).status is JobStatus.PAUSED)
    scripts.client.resume(job_id)
    job = scripts.wait_for_end(job_id)
    assert job.status is JobStatus.SUCCEEDED
    assert "from 0" not in log_of(scripts, job_id)


def test_a_retry_of_a_failed_script_resumes_from_its_checkpoints(scripts, run):
    code = """
        import os, sys
        state = os.environ["REDKILN_CHECKPOINTS"] + "/state"
        if not os.path.exists(state):
            open(state, "w").write("seven")
            sys.exit("no such luck")
        print("continues from", open(state).read(), os.environ["REDKILN_RESUME"])
    """
    job_id = run("python", "-c", dedent(code))
    job = scripts.wait_for_end(job_id)
    assert (job.status, job.reason.code) == (JobStatus.FAILED, "script_failed")
    assert "no such luck" in job.reason.message
    scripts.client.retry(job_id)
    job = scripts.wait_for_end(job_id)
    assert job.status is JobStatus.SUCCEEDED
    assert "continues from seven 1" in log_of(scripts, job_id)


def test_a_script_that_ignores_sigterm_ends_within_its_grace_with_all_it_started(scripts, run):
    command = "trap '' TERM; (setsid sleep 4711 &); echo up; while true; do sleep 0.1; done"
    job_id = run("bash", "-c", command, script={"grace_seconds": 0.5})
    scripts.wait_for(lambda: "up" in log_of(scripts, job_id))
    scripts.client.cancel(job_id)
    assert scripts.wait_for_end(job_id, seconds=30).status is JobStatus.CANCELLED
    left = [process for process in psutil.process_iter() if "4711" in cmdline(process)]
    assert not left


def cmdline(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def test_the_failure_of_a_known_exception_says_what_to_do(scripts, run):
    code = "raise RuntimeError('HIP out of memory. Tried to allocate 2.00 GiB')"
    job = scripts.wait_for_end(run("python", "-c", code))
    assert (job.status, job.reason.code) == (JobStatus.FAILED, "out_of_memory")
    assert "Use smaller batches in the script" in job.reason.message
    assert len(job.attempts) == 1
    death = DeathBook(scripts.stack.worker_dir()).load()[-1]
    assert (death.attempt_id, death.row) == (job.attempts[0].id, 16), "the doctor learns of it"


def test_children_left_running_are_ended_and_reported(scripts, run):
    job = scripts.wait_for_end(run("bash", "-c", "(setsid sleep 4712 &); sleep 0.3"))
    assert job.status is JobStatus.SUCCEEDED
    assert "processes_left" in warnings(job)
    assert not [process for process in psutil.process_iter() if "4712" in cmdline(process)]


def test_a_script_that_fills_its_disk_is_ended_with_the_bound(scripts, run):
    code = """
        import os, time
        for number in range(1000):
            with open(os.path.join(os.environ["REDKILN_OUT"], f"{number}.bin"), "wb") as file:
                file.write(bytes(200_000))
            time.sleep(0.02)
    """
    limits = {"limits": {"disk_bytes": 2 * 1024**2}}
    job_id = run("python", "fill.py", files={"fill.py": dedent(code)}, script=limits)
    job = scripts.wait_for_end(job_id)
    assert job.reason.code == "over_limit"
    assert "disk_bytes" in job.reason.message


def dedent(code):
    lines = code.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


def test_a_million_lines_and_binary_bytes_arrive(scripts, run):
    code = "import sys; sys.stdout.buffer.write(bytes(range(256))); print()\n"
    code += "sys.stdout.write(''.join(f'line {n}\\n' for n in range(1_000_000)))"
    job = scripts.wait_for_end(run("python", "-c", code))
    assert job.status is JobStatus.SUCCEEDED
    log = b"".join(scripts.client.logs(job.id))
    assert log == bytes(range(256)) + b"\n" + b"".join(b"line %d\n" % n for n in range(10**6))


def test_thousands_of_warnings_do_not_fail_a_script(scripts, run):
    code = "import sys, warnings\nfor n in range(2000): warnings.warn_explicit('HIP', UserWarning, "
    code += "'x', n)"
    assert scripts.wait_for_end(run("python", "-c", code)).status is JobStatus.SUCCEEDED


def test_the_failure_of_a_missing_package_quotes_the_installer(scripts, run):
    job_id = run("true", script={"requirements": ["no-such-package-of-anybody"]})
    job = scripts.wait_for_end(job_id)
    assert job.reason.code == "bad_input"
    assert "no-such-package-of-anybody" in job.reason.message


def test_a_missing_program_is_reported(scripts, run):
    job = scripts.wait_for_end(run("no-such-program"))
    assert job.reason.code == "bad_input"
    assert "no-such-program" in job.reason.message


def test_an_exception_is_the_reason_and_its_files_are_kept(scripts, run):
    code = (
        "import os; open(os.environ['REDKILN_OUT'] + '/half', 'w').close(); raise ValueError('no')"
    )
    job = scripts.wait_for_end(run("python", "-c", code))
    assert job.reason.code == "script_failed"
    assert "ValueError: no" in job.reason.message
    assert "half" in names(scripts, job.id)
    assert len(job.attempts) == 1


@pytest.mark.parametrize("odd", ["../x", "link"])
def test_a_bundle_that_leads_out_is_refused(scripts, odd):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        info = tarfile.TarInfo(odd)
        if odd == "link":
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    sha256 = push(scripts.client, packed.getvalue())
    spec = {"task": "script", "script": {"command": ["true"], "bundle": sha256}}
    job = scripts.wait_for_end(scripts.client.submit(spec).id)
    assert job.reason.code == "bad_input"
    assert odd in job.reason.message


def push(client, data):
    sha256 = hashlib.sha256(data).hexdigest()
    headers = {"Content-Type": "application/x-tar"}
    client._connection.request("PUT", f"/v1/bundles/{sha256}", content=data, headers=headers)
    return sha256


def test_a_script_reads_its_data_set_and_none_of_the_workers_files(scripts, run):
    state = scripts.stack.state_dir
    code = "import os, sys\nprint(sorted(os.listdir(os.environ['REDKILN_DATA'])))\n"
    code += f"print('SEEN' if os.access({str(state)!r} + '/keys', os.R_OK) else 'hidden')\n"
    code += f"open({str(state / 'keys' / 'worker.key')!r})"
    job = scripts.wait_for_end(run("python", "-c", code, dataset="builtin:digits"))
    assert "index.json" in log_of(scripts, job.id)
    refusals = ("PermissionError", "FileNotFoundError")  # the latter in separate namespaces
    assert any(refusal in job.reason.message for refusal in refusals)


def test_an_onnx_that_it_leaves_is_run_and_compared(scripts, run):
    code = """
        import os
        import numpy as np, onnx
        from onnx import TensorProto, helper
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 3])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", 3])
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
        opset = [helper.make_opsetid("", 20)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=10)
        out = os.environ["REDKILN_OUT"]
        onnx.save(model, out + "/checked.onnx")
        onnx.save(model, out + "/plain.onnx")
        sample = np.array([[-1, 0, 1]], dtype=np.float32)
        np.savez(out + "/checked.npz", x=sample, y=np.maximum(sample, 0))
    """
    job = scripts.wait_for_end(run("python", "m.py", files={"m.py": dedent(code)}))
    assert job.status is JobStatus.SUCCEEDED
    verified = {item.name: item.verified for item in scripts.client.artifacts(job.id)}
    assert (verified["checked.onnx"], verified["plain.onnx"]) == (True, None)


def test_where_scripts_are_switched_off_none_is_run(site):
    with pytest.raises(NotAuthorized, match="REDKILN_SCRIPTS=on"):
        site.client.submit({"task": "script", "script": {"command": ["true"]}})


def test_a_result_that_becomes_a_link_publishes_nothing_of_the_workers(scripts, run, tmp_path):
    key = scripts.stack.state_dir / "keys" / "worker.key"
    code = f"""
        import os, time
        path = os.path.join(os.environ["REDKILN_OUT"], "a.txt")
        open(path, "w").close()
        time.sleep(2.5)
        os.remove(path)
        os.symlink({str(key)!r}, path)
    """
    job = scripts.wait_for_end(run("python", "link.py", files={"link.py": dedent(code)}))
    assert job.status is JobStatus.SUCCEEDED
    scripts.client.download_all(job.id, tmp_path / "left")
    left = b"".join(p.read_bytes() for p in (tmp_path / "left").rglob("*") if p.is_file())
    assert key.read_bytes().strip() not in left


def test_what_a_shell_started_has_its_grace_to_save(scripts, run):
    code = """
        import os, signal, sys, time
        def save(*_):
            time.sleep(1)
            with open(os.path.join(os.environ["REDKILN_CHECKPOINTS"], "saved"), "w") as file:
                file.write("yes")
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("up", flush=True)
        while True:
            time.sleep(0.1)
    """
    files = {"slow.py": dedent(code)}
    job_id = run("bash", "-c", "python slow.py; true", files=files, script={"grace_seconds": 20})
    scripts.wait_for(lambda: "up" in log_of(scripts, job_id))
    scripts.client.pause(job_id)
    scripts.wait_for(lambda: scripts.client.job(job_id).status is JobStatus.PAUSED)
    assert scripts.committed_steps(job_id)
    scripts.client.cancel(job_id)
