"""What `snakemake --logger lines` prints."""

import re
import subprocess
import sys

import pytest

from snakemake_logger_plugin_lines import time_left

pytestmark = pytest.mark.slow

SNAKEFILE = """
rule all:
    input: expand("{letter}_{number}.txt", letter=["a", "b"], number=[1, 2])
rule write:
    output: "{letter}_{number}.txt"
    log: "{letter}{number}.log"
    shell: "echo error: what went wrong > {log}; [ {output} != b_2.txt ] || [ -e repaired ]; touch {output}"
"""
LINE = re.compile(r" ?(\d+) of (\d+): (.*) \(\d+ s\), about \d+:\d\d:\d\d left")


def test_the_time_left_is_that_of_each_rules_jobs():
    # Two jobs run at once: 52 s of jobs took 26 s. 8 jobs of 1 s and one of 50 s are left; c is not known yet.
    assert time_left({"a": 10, "b": 2}, {"a": [1, 1], "b": [50]}, 26) == (8 * 1 + 50) / 2
    assert time_left({"a": 2, "c": 3}, {"a": [4]}, 4) == 4 * 4
    assert time_left({"a": 1}, {"a": [0.0]}, 0) == 0


def run(folder):
    call = [sys.executable, "-m", "snakemake", "--cores=1", "--keep-going", "--show-failed-logs", "--logger=lines"]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr.splitlines()


def jobs(lines):
    return [match.groups() for line in lines if (match := LINE.fullmatch(line))]


def test_a_line_for_each_job_and_errors_in_full(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    status, said = run(tmp_path)
    assert status == 1
    assert [(done, total) for done, total, _ in jobs(said)] == [("1", "5"), ("2", "5"), ("3", "5")]
    assert {name for *_, name in jobs(said)} == {"write a 1", "write a 2", "write b 1"}
    assert said.count("error: what went wrong") == 1, "where the job failed"
    assert "write: error: what went wrong" in said[-3:], "and at the end"
    (tmp_path / "repaired").touch()
    status, said = run(tmp_path)
    assert status == 0
    assert jobs(said) == [("1", "2", "write b 2"), ("2", "2", "all")]
    (log, _) = sorted((tmp_path / ".snakemake/log").iterdir())
    assert "output: a_1.txt" in log.read_text(), "Snakemake's own text is in its log file"
