"""A real SLURM on this machine alone, for tests: one node, fake GPUs, state in one folder.

    python tests/slurm/cluster.py clean    # stop, by process id, what a killed run of the tests has left

Needs root, and Debian's slurm-wlm and munge. Its configuration is in /etc/slurm while it is up, since the
executor plugin starts srun without SLURM_CONF; one that is there already is left alone.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

GPUS = 2
CONFIGURATION = Path("/etc/slurm")
MARKER = "# Made by form-invariance's tests."
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")

_SLURM = """{marker}
ClusterName=formtest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
MailProg=/bin/true
ReturnToService=2
KillWait=2
MinJobAge=7200
JobRequeue=0
OverTimeLimit=0
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Boards=1 SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 \
RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=600 DefaultTime=5 State=UP
PartitionName=gpu Nodes={host} MaxTime=600 DefaultTime=5 State=UP
"""


def missing() -> str | None:
    """Why no cluster can be booted here; None if one can."""
    if os.geteuid() != 0:
        return "booting SLURM needs root"
    present = CONFIGURATION / "slurm.conf"
    if present.exists() and MARKER not in present.read_text():
        return f"{present} belongs to another cluster"
    lacking = [name for name in PROGRAMS if not shutil.which(name, path=_path())]
    return f"SLURM is not installed: no {', '.join(lacking)} (Debian: slurm-wlm munge)" if lacking else None


def _path() -> str:
    return os.environ["PATH"] + ":/usr/sbin:/sbin"


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": _path()}
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)


def _wait(folder: Path, what: str, ready: tuple[str, ...], answer: str) -> None:
    for _ in range(300):
        if answer in _run(*ready).stdout:
            return
        time.sleep(0.1)
    logs = "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.log")))
    down(folder)
    raise RuntimeError(f"{what} did not come up\n{logs}")


def up(folder: Path) -> None:
    """Boot the cluster."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir(exist_ok=True)
    for number in range(GPUS):
        subprocess.run(["mknod", folder / f"fakegpu{number}", "c", "1", "3"], check=True)
    key = folder / "munged.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    host, cpus = socket.gethostname().split(".")[0], 2 * (os.cpu_count() or 1)  # jobs that wait or sleep take none
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 - 2000
    settings = {"host": host, "folder": folder, "cpus": cpus, "gpus": GPUS, "memory": memory, "marker": MARKER}
    CONFIGURATION.mkdir(exist_ok=True)
    (CONFIGURATION / "slurm.conf").write_text(_SLURM.format(**settings, ports=_free_ports(2)))
    (CONFIGURATION / "gres.conf").write_text(f"NodeName={host} Name=gpu File={folder}/fakegpu[0-{GPUS - 1}]\n")
    (CONFIGURATION / "cgroup.conf").write_text("CgroupPlugin=autodetect\n")
    options = [f"--{kind}-file={folder}/munged.{kind}" for kind in ("key", "pid", "log", "seed")]
    started = _run("munged", "--force", f"--socket={folder}/munge.socket", *options)
    if started.returncode:
        raise RuntimeError(started.stderr)
    _run("slurmctld", "-c")
    _wait(folder, "slurmctld", ("scontrol", "ping"), "is UP")
    _run("slurmd")
    _wait(folder, "slurmd", ("sinfo", "-h", "-o", "%T"), "idle")


def _stop(pid_file: Path, program: str) -> None:
    """End the process that a pid file of ours names, if it still is that program."""
    try:
        pid = int(pid_file.read_text())
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, ValueError):
        return
    if name != program:
        return
    os.kill(pid, signal.SIGTERM)
    for attempt in range(100):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        if attempt == 80:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def down(folder: Path) -> None:
    """Cancel all jobs and stop the daemons."""
    if "is UP" in _run("scontrol", "ping").stdout:
        _run("scancel", "--user=root")
        for _ in range(40):
            if not _run("squeue", "-h", "-t", "running,completing").stdout.strip():
                break
            time.sleep(0.25)
    for program in ("slurmd", "slurmctld", "munged"):
        _stop(folder / f"{program}.pid", program)
    for name in ("slurm.conf", "gres.conf", "cgroup.conf"):
        (CONFIGURATION / name).unlink(missing_ok=True)


def clean() -> None:
    """Stop a cluster of ours that nobody stopped: its configuration makes every SLURM command wait in vain."""
    path = CONFIGURATION / "slurm.conf"
    lines = path.read_text().splitlines() if path.exists() else []
    if lines[:1] == [MARKER]:
        state = next(line for line in lines if line.startswith("StateSaveLocation="))
        down(Path(state.partition("=")[2]).parent)


if __name__ == "__main__" and sys.argv[1:] == ["clean"]:
    clean()
