"""A server for the commands of a run: it imports the libraries once, and forks a process for each command.

Importing PyTorch, pandas and seaborn takes longer than most jobs of a small model. `serve` starts a server and a
program, usually Snakemake; `begin` starts a server for a group of jobs on a cluster. A command asks the server to
run it in a fork (`ask`). The fork takes over the folder, the environment and the open files of the process that
asked, and ends with it.
"""

import gc
import json
import os
import select
import shutil
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import chdir
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

ADDRESS = "FORM_INVARIANCE_JOB_SERVER"
"""The environment variable that names the server's socket and, after a colon, the package that it has imported."""
THREADS = "OMP_NUM_THREADS"
"""Libraries read it when they are imported, so a command that needs several threads does not run in a fork."""
MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
"""glibc then keeps freed memory for the next tensor. To get it from the kernel anew costs a fifth of the time."""
LIBRARIES = (
    *("pyarrow.pandas_compat", "matplotlib.backends.backend_pdf"),
    "transformers.models.auto.tokenization_auto",
)
"""Modules that commands import only where they need them."""
KILLED = 137
_begun: list["subprocess.Popen[bytes]"] = []
"""Servers of this process. This reference keeps their standard input open, at whose end they stop."""
_PACKAGE = Path(__file__).resolve().parents[1]
_SIZE = struct.Struct("!Q")


def ask(argv: Sequence[str]) -> int | None:
    """Let the server run a command and wait for it; None if the environment names no server for it.

    Returns:
        The command's exit status, `KILLED` if it was killed.
    """
    server_name = os.environ.get(ADDRESS, "")
    if not server_name.endswith(f":{_PACKAGE}") or os.environ.get(THREADS) != "1":
        return None
    address = Path(server_name.removesuffix(f":{_PACKAGE}"))
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            # The path of a socket has at most 107 bytes, so it is only a name in the working folder.
            with chdir(address.parent):
                connection.connect(address.name)
        except OSError:
            return None
        request = json.dumps([list(argv), os.getcwd(), dict(os.environ)]).encode()
        try:
            socket.send_fds(connection, [_SIZE.pack(len(request))], [0, 1, 2])
            connection.sendall(request)
            status = connection.recv(1)
        except ConnectionError:  # The fork ended before it had read the request.
            return KILLED
    return status[0] if status else KILLED


def serve(program: Sequence[str]) -> int:
    """Run a program, with a server for the commands that it starts. Returns the program's exit status."""
    import subprocess

    server, address = _start()
    try:
        process = subprocess.Popen([*program], env={**os.environ, ADDRESS: address})
        # Ctrl-C reaches the program, too, and the program decides what to do.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        return process.wait()
    finally:
        server.communicate()


def begin() -> None:
    """Start a server, if there is none, for the commands that this process starts. It ends with this process."""
    if ADDRESS not in os.environ:
        server, os.environ[ADDRESS] = _start()
        _begun.append(server)


def _start() -> tuple["subprocess.Popen[bytes]", str]:
    """Start a server, which stops at the end of its standard input. Returns it, and the value of `ADDRESS`."""
    import subprocess
    from tempfile import mkdtemp

    folder = Path(mkdtemp(prefix="jobs-"))
    with socket.socket(socket.AF_UNIX) as listener:
        with chdir(folder):
            listener.bind("socket")
        # Commands wait here until the libraries are imported.
        listener.listen(1024)
        code = f"import sys; sys.path.insert(0, {str(_PACKAGE.parent)!r}); "
        code += "from form_invariance.workflow import job_server; "
        code += f"job_server.listen({listener.fileno()}, {str(folder)!r})"
        # torch makes a folder for compiled code when it is imported.
        job_environment = {THREADS: "1", "MPLBACKEND": "agg", "TORCHINDUCTOR_CACHE_DIR": str(folder)}
        server = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, **MEMORY, **job_environment},
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    return server, f"{folder / 'socket'}:{_PACKAGE}"


def listen(descriptor: int, folder: str) -> None:
    """The server: import everything that commands need, then fork for each request, until standard input ends.

    At the end it removes `folder`, which contains the socket.
    """
    try:
        _listen(descriptor)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _listen(descriptor: int) -> None:
    from form_invariance.model.files import resolve
    from form_invariance.model.loading import load
    from form_invariance.workflow import job_usage

    for path in sorted(_PACKAGE.rglob("*.py")):
        if path.stem != "__main__":
            import_module(".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts))
    for name in LIBRARIES:
        import_module(name)
    # The first model that transformers reads makes it import and prepare much.
    load(resolve("embedded:embedded-shared"))
    # The garbage collector in a fork then skips the imported objects.
    gc.freeze()
    # The kernel removes forks that have ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    used: list[dict[str, Any]] = []
    here, forks = socket.socketpair(type=socket.SOCK_DGRAM)
    with socket.socket(fileno=descriptor) as listener:
        while True:
            ready, _, _ = select.select([listener, sys.stdin, here], [], [])
            used = [usage for usage in used + job_usage.receive(here) if not job_usage.correct(usage)]
            if sys.stdin in ready:
                return
            if listener not in ready:
                continue
            connection, _ = listener.accept()
            with connection:
                if not os.fork():
                    here.close()
                    try:
                        os._exit(_run(connection, forks))
                    finally:  # After any error: a fork that returned would remove the server's folder.
                        os._exit(KILLED)


def _run(connection: socket.socket, server: socket.socket) -> int:
    """Run the command that a connection asks for, in this process, and send its exit status.

    The time and memory that it used go to `server`.
    """
    import traceback
    from threading import Thread

    from form_invariance.cli import main
    from form_invariance.workflow import job_usage

    began = time.time()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, files, _, _ = socket.recv_fds(connection, _SIZE.size, 3, socket.MSG_WAITALL)
    (size,) = _SIZE.unpack(head)
    argv, folder, environment = json.loads(connection.recv(size, socket.MSG_WAITALL))
    for standard_fd, received_fd in enumerate(files):
        os.dup2(received_fd, standard_fd)
        os.close(received_fd)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    Thread(target=_end_with, args=[connection], daemon=True).start()
    try:
        status = main(argv)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if not status:
        job_usage.send(server, began)
    connection.sendall(bytes([status]))
    return status


def _end_with(connection: socket.socket) -> None:
    """End this process at once when the process that asked has ended."""
    connection.recv(1)
    os._exit(KILLED)
