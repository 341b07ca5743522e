"""CPU time and memory of the jobs that the job server runs, for their benchmark files.

Snakemake measures the process that waits for the fork. So the fork sends its use to the server, and the server
corrects the job's benchmark file once Snakemake has written it.
"""

import json
import os
import resource
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

NOT_MEASURED = ("max_vms", "max_uss", "max_pss", "io_in", "io_out")
"""Columns that become NA, as Snakemake writes what it could not measure."""
_LONGEST = 1 << 16


def send(channel: socket.socket, began: float) -> None:
    """Send what this process and its children used. `began`: when it began, in seconds since the epoch."""
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    usage = {
        "log": str(Path("/proc/self/fd/2").resolve()),
        "began": began,
        "cpu_time": sum(used.ru_utime + used.ru_stime for used in each),
        "max_rss": max(used.ru_maxrss for used in each) / 1024,
    }
    # If the server has gone, nobody corrects.
    with suppress(OSError):
        channel.send(json.dumps(usage).encode())


def receive(channel: socket.socket) -> list[dict[str, Any]]:
    """The messages that the forks have sent since the last call."""
    received = []
    with suppress(BlockingIOError):
        while True:
            received.append(json.loads(channel.recv(_LONGEST, socket.MSG_DONTWAIT)))
    return received


def correct(usage: dict[str, Any]) -> bool:
    """Write what a job used into its benchmark file, which keeps its time stamp; False if it cannot yet.

    The log results/logs/RULE/NAME.log has the benchmark results/benchmarks/RULE/NAME.tsv.
    """
    path = Path("/benchmarks/".join(usage["log"].rsplit("/logs/", 1))).with_suffix(".tsv")
    new = path.with_suffix(".new")
    try:
        stamp = path.stat()
        header, values = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
        if stamp.st_mtime < usage["began"]:
            return False
        row = dict(zip(header, values, strict=True)) | dict.fromkeys(NOT_MEASURED, "NA")
        row |= {name: f"{usage[name]:.2f}" for name in ("max_rss", "cpu_time")}
        # In percent, as Snakemake has it.
        row["mean_load"] = f"{100 * usage['cpu_time'] / max(float(row['s']), 1e-4):.2f}"
        new.write_text("\n".join("\t".join(line) for line in (row, row.values())) + "\n", encoding="utf-8")
        os.utime(new, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        new.replace(path)
    except (OSError, ValueError, KeyError):
        return False
    return True
