"""Children that are forked from a process which has imported their modules already.

A child that starts cold imports for 0.3 to 3 s of CPU time before its first line. A forked one is
also a separate process and a child of this one, with its session, folder, streams and environment.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[1]
PYTHON = sys.executable
PR_SET_CHILD_SUBREAPER = 36
SERVE = "import sys; from tests.forked import serve; serve(int(sys.argv[1]), sys.argv[2:])"


class WarmProcess:
    """A process that has imported modules and forks children that run them.

    Args:
        modules: Names for `python -m` that are run warm.
        more: Further modules that they import later.
        environ: Variables that they read when they are imported.
    """

    def __init__(self, modules, more=(), environ=None):
        self._environ = environ or {}
        self.modules = frozenset(modules)
        self._imports = [*(n if _is_module(n) else f"{n}.__main__" for n in modules), *more]
        self._lock = threading.Lock()
        self._process = None

        class Popen(subprocess.Popen):
            def _execute_child(child, args, *rest):  # noqa: N805
                if not self._fork(child, args, *rest):
                    super()._execute_child(args, *rest)

        self.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": Popen})
        """Replaces the module `subprocess` in a module that starts children."""

    def _fork(self, child, args, *rest):
        """Start a child of `subprocess.Popen`; False if its command has to start cold."""
        cwd, env, new_session = rest[4], rest[5], rest[20]
        stdin, _, _, stdout, _, stderr = rest[9:15]
        if args[:2] != [PYTHON, "-m"] or args[2] not in self.modules:
            return False
        request = {
            "argv": args[2:],
            "cwd": str(cwd or Path.cwd()),
            "env": env,
            "parent": os.getpid(),
            "is_leader": new_session,
        }
        with self._lock:
            if self._process is None:
                self._start()
            # The child's first parent ends at once, so that this process becomes its parent.
            _adopt_orphans(True)
            try:
                message = json.dumps(request).encode()
                socket.send_fds(self._socket, [message], [stdin, stdout, stderr])
                child.pid = int(self._socket.recv(32))
            finally:
                _adopt_orphans(False)
        child._child_created = True
        child._close_pipe_fds(*rest[9:15])
        return True

    def _start(self):
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [PYTHON, "-c", SERVE, str(theirs.fileno()), *self._imports],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "OMP_NUM_THREADS": "1",
                    **self._environ,
                },
            )

    def close(self):
        if self._process is not None:
            self._socket.close()
            self._process.wait()


def serve(fd, modules):
    """Import modules; fork a child for each request, until the tests end."""
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=fd) as requests:
        while True:
            message, fds, _, _ = socket.recv_fds(requests, 1 << 16, 3)
            if not message:
                return
            first = os.fork()
            if first == 0:
                if os.fork() == 0:
                    _run(json.loads(message), fds, requests)
                os._exit(0)
            os.waitpid(first, 0)
            for each in fds:
                os.close(each)


def _run(request, fds, requests):
    while os.getppid() != request["parent"]:
        time.sleep(0.0005)
    if request["is_leader"]:
        os.setsid()
    for number, given in enumerate(fds):
        os.dup2(given, number)
        os.close(given)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    requests.send(str(os.getpid()).encode())
    requests.close()
    module, *sys.argv[1:] = request["argv"]
    status = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ending:
        is_number = isinstance(ending.code, int)
        status = ending.code if is_number else int(ending.code is not None)
        if status and not is_number:
            sys.stderr.write(f"{ending.code}\n")
    except:  # noqa: E722  as at the end of any program
        sys.excepthook(*sys.exc_info())
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _is_module(name):
    return (ROOT / f"{name.replace('.', '/')}.py").exists()


def _adopt_orphans(is_wanted):
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(is_wanted), 0, 0, 0)
