"""What a job used, in its benchmark file."""

import os
import re
import socket
import time

import numpy as np
import pytest
from stub_checkout import ROOT

from form_invariance.workflow import job_usage

HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time"
WAITED = "4.0000\t0:00:04\t16.12\t30.00\t10.00\t11.00\t0.00\t0.00\t0.50\t0.02"


@pytest.fixture
def benchmark(tmp_path):
    path = tmp_path / "logs/results/benchmarks/rule/m.1.tsv"
    path.parent.mkdir(parents=True)
    return path


def used(benchmark):
    log = str(benchmark.with_suffix(".log")).replace("/benchmarks/", "/logs/")
    return {"log": log, "began": 0.0, "cpu_time": 6.0, "max_rss": 700.25}


def test_a_process_sends_its_time_and_memory():
    here, fork = socket.socketpair(type=socket.SOCK_DGRAM)
    with here, fork:
        assert job_usage.receive(here) == []
        child = os.fork()
        if not child:
            try:
                began = time.process_time()
                filled = np.ones(50 << 17)  # 50 MiB
                while time.process_time() - began < 0.3:
                    filled += 1
                job_usage.send(fork, 5.0)
                job_usage.send(fork, 6.0)
                os._exit(0)
            finally:
                os._exit(1)
        _, status, known = os.wait4(child, 0)
        first, second = job_usage.receive(here)
    assert (status, first["began"], second["began"]) == (0, 5.0, 6.0)
    assert first["log"] == os.path.realpath("/proc/self/fd/2")
    assert 0.3 <= first["cpu_time"] <= second["cpu_time"] <= known.ru_utime + known.ru_stime
    assert first["max_rss"] == pytest.approx(known.ru_maxrss / 1024, rel=0.01)


def test_the_benchmark_file_gets_the_jobs_columns_and_keeps_its_time_stamp(benchmark):
    benchmark.write_text(f"{HEADER}\n{WAITED}\n")
    os.utime(benchmark, ns=(123, 456_000_000_789))
    # A file that takes its place leaves the old one whole.
    (old := benchmark.parents[1] / "old").hardlink_to(benchmark)
    assert job_usage.correct(used(benchmark))
    assert old.read_text() == f"{HEADER}\n{WAITED}\n"
    assert benchmark.stat().st_mtime_ns == 456_000_000_789
    before = dict(zip(HEADER.split("\t"), WAITED.split("\t"), strict=True))
    missing = dict.fromkeys(("max_vms", "max_uss", "max_pss", "io_in", "io_out"), "NA")
    after = {**before, **missing, "max_rss": "700.25", "mean_load": "150.00", "cpu_time": "6.00"}
    assert benchmark.read_text() == "\t".join(after) + "\n" + "\t".join(after.values()) + "\n"
    assert list(benchmark.parent.iterdir()) == [benchmark]


@pytest.mark.parametrize("text", [None, "", HEADER, f"{HEADER}\n4.0\t0:", "name\nvalue\n"])
def test_a_file_that_is_not_yet_written_is_left_for_later(benchmark, text):
    if text is not None:
        benchmark.write_text(text)
    assert not job_usage.correct(used(benchmark))
    assert [path.read_text() for path in benchmark.parent.iterdir()] == ([] if text is None else [text])


def test_every_rule_names_its_log_and_its_benchmark_alike():
    rules = "".join(path.read_text() for path in sorted((ROOT / "workflow/rules").glob("*.smk")))
    logs, benchmarks = (re.findall(rf'  {kind}:\n +f?"(.*)",?\n', rules) for kind in ("log", "benchmark"))
    assert len(logs) == len({*logs}) == rules.count("\n    shell:\n") + rules.count("\nuse rule ") > 30
    assert [log.replace("/logs/", "/benchmarks/").replace(".log", ".tsv") for log in logs] == benchmarks
