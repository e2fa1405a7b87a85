import os
import subprocess
import sys

ASK = """
import ctypes
import worker.__main__ as entry

class Agent:
    def __init__(self, settings, *, on_fatal):
        pass

    def start(self):
        print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE
        raise OSError("that is all")

entry.Agent = Agent
raise SystemExit(entry.main(["--no-broker"]))
"""


def test_other_programs_cannot_read_the_workers_memory_and_environment(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "REDKILN_WORKER_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[:1] == ["0"], done.stderr
    assert done.returncode == 78
