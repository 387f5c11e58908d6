"""Measure the time from the start of pytest to fio's first I/O on the embedded region."""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Installed packages are compiled. Without this, sources that changed would be compiled again in every session.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
REQUIRED_S = 2.0

TEST = """
import json
import pathlib

import pytest
from pytest_cloudbench import io2


@pytest.mark.ec2_instance("c5.18xlarge")
@pytest.mark.ebs_volume(io2(size_gib=80, iops=80_000))
def test_it(ebs_volume, fio):
    run = fio(ebs_volume, rw="randread", bs="4k", iodepth=16, numjobs=4, runtime=2)
    pathlib.Path("result.json").write_bytes(run.raw["result.json"])
"""


def first_io_s(folder: Path) -> tuple[float, float]:
    """Return the seconds from the start of pytest to fio's first I/O, and to pytest's end."""
    began = time.time()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    ended = time.time()
    text = (folder / "result.json").read_text()
    result = json.loads(text[text.index("{") :])
    # fio's time when it printed, less the run time of its jobs; both use this machine's clock.
    runtime_s = max(job["read"]["runtime"] for job in result["jobs"]) / 1000
    return result["timestamp_ms"] / 1000 - runtime_s - began, ended - began


def main() -> None:
    """Run the same small test several times and print the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    package = importlib.util.find_spec("pytest_cloudbench")
    assert package is not None
    for directory in package.submodule_search_locations or ():
        compileall.compile_dir(directory, quiet=1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_it.py").write_text(TEST)
        first_io_s(folder)  # pytest compiles plugins for itself in the first session
        times = [first_io_s(folder) for _ in range(rounds)]
    for first, whole in times:
        print(f"first I/O after {first:.2f} s, all over after {whole:.2f} s")
    median = statistics.median(first for first, _ in times)
    print(
        f"median {median:.2f} s to the first I/O; required: at most {REQUIRED_S:g} s; ratio {median / REQUIRED_S:.2f}"
    )


if __name__ == "__main__":
    main()
