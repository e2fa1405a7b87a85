"""Trainers and exports of a session, each a fork of one process that is already warm.

A new trainer needs 3 s of CPU time before its first step, a new export 5 s before its file; a fork
needs neither. The agent starts a client (`list_commands`), which looks to it like the process: it
has its output and status, passes SIGTERM on, and takes it with it when it is killed. The code of
users gets the real command, because a fork would leave its bounds. The real commands stay proved by
test_trainer_process, test_ranks, test_native and the containers.
"""

import contextlib
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_ORDER_BYTES = 262_144
STREAMS = 3
CLIENT = """
import json, os, signal, socket, sys
where, module, *words = sys.argv[1:]
if "PYTHONSAFEPATH" in os.environ:
    os.execv(sys.executable, [sys.executable, "-m", module, *words])
channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
channel.connect(where)
signal.signal(signal.SIGTERM, lambda *_: channel.send(b"stop"))
order = {"module": module, "words": words, "folder": os.getcwd(), "environ": dict(os.environ)}
socket.send_fds(channel, [json.dumps(order).encode()], [0, 1, 2])
status = int(channel.recv(16) or -9)
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)
"""


def list_commands(path):
    """The settings of a worker whose trainers and exports are forks of the server at this path."""
    client = [sys.executable, "-S", "-c", CLIENT, str(path)]
    return {
        f"REDKILN_{name.upper()}_COMMAND": json.dumps([*client, module])
        for name, module in (("trainer", "worker.trainer"), ("export", "worker.export"))
    }


@contextlib.contextmanager
def serving(path):
    """Run a server, and yield its process; clients wait for it until it is warm."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "REDKILN_PARENT_PID": str(os.getpid())}
    command = [sys.executable, "-m", "tests.integration.warm_forks", str(path)]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout.readline() == b"listening\n"
            yield server
        finally:
            server.kill()


def serve(path):
    """Fork for each client until this process is killed."""
    from worker.process.lifetime import die_with_parent

    die_with_parent(int(os.environ["REDKILN_PARENT_PID"]))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(path))
    listener.listen()
    sys.stdout.write("listening\n")
    sys.stdout.flush()
    warm_up()
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ, lambda: start(listener, selector))
    while True:
        # A client that asks and an end that is seen at once: the end comes last.
        for key, _ in selector.select():
            key.data()


def warm_up():
    """Import and export like waiting processes, and leave no thread that a fork would lack.

    It makes no backward pass, after which torch could make none in a fork.
    """
    from redkiln.imports import collector_off

    with collector_off():
        from tqdm import tqdm

        import worker.tasks.export
        import worker.tasks.image_classification
        import worker.tasks.train  # noqa: F401
        from worker.export import spare

        tqdm.monitor_interval = 0  # torch's exporter shows a bar, which starts a thread
        for step in spare.WARM_UP:
            step()
    assert len(list(Path("/proc/self/task").iterdir())) == 1


def start(listener, selector):
    """Fork for the next client; send it the status, and end the fork if it asks or is gone."""
    channel, _ = listener.accept()
    order, streams = b"", []
    with contextlib.suppress(ConnectionResetError):  # killed before it said what it wants
        order, streams, _, _ = socket.recv_fds(channel, MAX_ORDER_BYTES, STREAMS)
    if not order:
        channel.close()
        return
    pid = os.fork()
    if pid == 0:
        become(json.loads(order), streams)
    for stream in streams:
        os.close(stream)
    pidfd = os.pidfd_open(pid)
    is_over = False

    def on_exit():
        nonlocal is_over
        is_over = True
        _, status = os.waitpid(pid, 0)
        selector.unregister(pidfd)
        with contextlib.suppress(KeyError):
            selector.unregister(channel)
        with contextlib.suppress(OSError):
            channel.send(str(os.waitstatus_to_exitcode(status)).encode())
        channel.close()
        os.close(pidfd)

    def on_client():
        if is_over:
            return
        wish = b""
        with contextlib.suppress(ConnectionResetError):
            wish = channel.recv(16)
        os.kill(pid, signal.SIGTERM if wish else signal.SIGKILL)
        if not wish:
            selector.unregister(channel)

    selector.register(pidfd, selectors.EVENT_READ, on_exit)
    selector.register(channel, selectors.EVENT_READ, on_client)


def become(order, streams):
    """Run in a fork what the client stands for."""
    from worker.process.lifetime import leave

    os.setsid()
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
    os.closerange(STREAMS, os.sysconf("SC_OPEN_MAX"))
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environ"], REDKILN_PARENT_PID=str(os.getppid()))
    try:
        status = importlib.import_module(f"{order['module']}.__main__").main(order["words"])
    except SystemExit as error:
        status = error.code
    leave(status)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
