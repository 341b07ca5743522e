"""Commands that the job server runs in a fork, compared with the same commands run by themselves."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import chdir
from functools import partial
from threading import Thread

import psutil
import pytest
from stub_checkout import ROOT

from form_invariance.cli import main
from form_invariance.workflow import job_server

pytestmark = pytest.mark.slow

ALONE = {"PYTHONPATH": str(ROOT / "src"), job_server.THREADS: "1"}
PROGRAM = f"import os; print(os.environ['{job_server.ADDRESS}'], flush=True); exit(int(input()))"
SMALL = ["heuristic-null", "--expression=a + b", "--seed=0", "--max-operand=8"]
"""A second's work, once the libraries are imported."""
LONG = [*SMALL[:-1], "--max-operand=400"]


def python(*words, folder=None, **more):
    """A process of Python, with pipes to and from it."""
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **ALONE, **more},
        # A shell lets processes in the background ignore SIGINT, and their children inherit this.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        text=True,
        **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE),
    )


call = partial(python, "-m", "form_invariance")
"""The processes that a rule starts."""


def ended(process):
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def temporary(tmp_path_factory):
    """A folder of temporary files whose path is odd; a socket's path has at most 107 bytes."""
    folder = tmp_path_factory.mktemp("odd") / ("a:b c'd\" {x} é" + "t" * 100)
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def outer(temporary):
    process = call("job-server", sys.executable, "-c", PROGRAM, TMPDIR=str(temporary))
    yield process
    process.terminate()
    process.wait(timeout=60)


@pytest.fixture(scope="module")
def server(outer):
    """The variable by which a program finds the server."""
    return {job_server.ADDRESS: outer.stdout.readline().strip()}


def below(outer):
    """The processes below `job-server`: the program, the server, and a fork for each command that runs."""
    return {process.pid for process in psutil.Process(outer.pid).children(recursive=True)}


def test_a_command_by_the_server_writes_what_it_writes_alone(server, temporary, tmp_path):
    with chdir(*temporary.iterdir()), socket.socket(socket.AF_UNIX) as leaving:
        leaving.connect("socket")  # and asks nothing, as if it were killed: others are served as before
    assert main([*SMALL, f"--output={tmp_path}/alone"]) == 0
    assert ended(call(*SMALL, "--output=served", folder=tmp_path, **server))[0] == 0
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "served").read_bytes()


def test_no_other_user_reaches_the_server(server, temporary):
    (folder,) = temporary.iterdir()
    assert server[job_server.ADDRESS].startswith(f"{folder}/socket:")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("words", [["--version"], ["verdicts", "missing.parquet"], ["verdicts"]])
def test_status_and_messages_are_those_of_the_command_alone(server, words, tmp_path):
    served, alone = (call(*words, folder=tmp_path, **address) for address in (server, {}))
    assert ended(served) == ended(alone)


@pytest.fixture
def running(outer, server, tmp_path):
    """A command that runs for long, and its fork."""
    before = below(outer)
    process = call(*LONG, f"--output={tmp_path}/null.safetensors", **server)
    wait_until(lambda: below(outer) - before)
    (fork,) = below(outer) - before
    return process, fork


def test_a_killed_command_ends_in_the_server_too(running, outer, tmp_path):
    process, fork = running
    process.kill()
    process.communicate()
    wait_until(lambda: fork not in below(outer))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_command_says_so_in_one_word(running):
    process, _ = running
    process.send_signal(signal.SIGINT)
    status, _, err = ended(process)
    assert (status, err.splitlines()[-1:], "Traceback" in err) == (130, ["interrupted"], False)


def test_a_fork_that_is_killed_gives_the_status_of_a_killed_command(running):
    process, fork = running
    os.kill(fork, signal.SIGKILL)
    assert ended(process)[0] == job_server.KILLED


def wait_until(holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_who_the_server_cannot_serve_runs_by_itself(server, monkeypatch):
    address = server[job_server.ADDRESS]
    addresses = "", "/no/socket:" + str(ROOT / "src/form_invariance"), address.replace("/src/", "/another/src/")
    for given, threads in (*((other, "1") for other in addresses), (address, "2")):
        for name, value in {**ALONE, job_server.ADDRESS: given, job_server.THREADS: threads}.items():
            monkeypatch.setenv(name, value)
        assert job_server.ask(["--version"]) is None


def test_a_fork_that_ends_before_it_reads_its_command_counts_as_killed(tmp_path, monkeypatch):
    with chdir(tmp_path), socket.create_server("socket", family=socket.AF_UNIX) as listener:
        monkeypatch.setenv(job_server.ADDRESS, f"{tmp_path}/socket:{ROOT}/src/form_invariance")
        monkeypatch.setenv(job_server.THREADS, "1")
        Thread(target=lambda: listener.accept()[0].close()).start()
        assert job_server.ask(["--version"]) == job_server.KILLED


@pytest.mark.nightly
def test_a_server_that_a_process_began_ends_with_it(tmp_path):
    """A group of jobs on a cluster begins a server, which leaves nothing when the group is killed."""
    code = (
        "import time; from form_invariance.workflow import job_server; job_server.begin(); job_server.begin(); "
        "print(job_server.ask(['--version']), flush=True); time.sleep(600)"
    )
    process = python("-c", code, TMPDIR=str(tmp_path))
    assert [process.stdout.readline() for _ in range(2)][1] == "0\n"
    (server,) = psutil.Process(process.pid).children()
    assert list(tmp_path.glob("jobs-*"))
    process.kill()
    process.wait()
    wait_until(lambda: not list(tmp_path.glob("jobs-*")))
    wait_until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)


def test_the_programs_status_is_the_commands_and_nothing_is_left(outer, server, temporary):
    """This ends the server."""
    assert len(list(temporary.iterdir())) == 1
    assert outer.communicate("40\n", timeout=60) == ("", "")
    assert outer.returncode == 40
    assert list(temporary.iterdir()) == []
    assert ended(call("job-server"))[0] == 2
    assert ended(call("job-server", "printf", "%s|", "a", "--", "--help")) == (0, "a|--|--help|", "")
