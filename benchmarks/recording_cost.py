"""Measure the cost of recording for a test, and the time to replay a thousand recorded measurements."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LIMIT_MS = 100.0
LIMIT_SHARE = 0.01
LIMIT_REPLAY_S = 60.0
LIMIT_MIB = 500.0

CONFTEST = """
import dataclasses
import itertools

import pytest
from pytest_cloudbench import gp3
from pytest_cloudbench.hosts.shell_host import ShellHost
from pytest_cloudbench.limits.envelope import storage_envelope
from pytest_cloudbench.limits.quantities import Iops, Size
from pytest_cloudbench.verdicts.counters import ThrottleDelta
from pytest_cloudbench.session.keeper import keeper_of
from pytest_cloudbench.workloads.fio import run as fio_run
from pytest_cloudbench.workloads.measurement import Direction, DirectionSeries, Latency, Measurement, Series

SECONDS, JOBS, COMMANDS = {seconds}, {jobs}, 60
BS = Size.parse("4k")
LABEL = "gp3 10 GiB vol-0123456789abcdef0"
LOG = "".join(
    f"{{1000 * (second + 1)}}, {{3000 + job}}, 0, 4096, 0\\n" for second in range(SECONDS) for job in range(JOBS)
).encode()
HISTOGRAM = ", ".join(f'"{{bucket}}" : {{bucket % 997}}' for bucket in range(1200))
RESULT = (
    '{{"fio version" : "fio-3.33", "jobs" : [{{"jobname" : "cloudbench", "read" : {{"iops" : 3000.1, "clat_ns" : '
    '{{"bins" : {{' + HISTOGRAM + '}}}}}}}}]}}'
).encode()
numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Target:
    label: str = LABEL


@dataclasses.dataclass(frozen=True)
class Instance:
    address: str = "198.18.0.4"
    login_user: str = "ec2-user"

    def __str__(self):
        return "m5.xlarge i-0123456789abcdef0"


class Cloud:
    label, region, endpoint, run_id = "embedded region", "us-east-1", "http://127.0.0.1:5000", "20261120-run"

    def host(self, instance, *, connect_timeout_s):
        return Host(str(instance), user=instance.login_user)

    def listen(self, listener):
        pass

    def secrets(self):
        return ()


class Host(ShellHost):
    def execute(self, command):
        return command.result(0, b"device=/dev/nvme1n1\\nkind=block\\nsectors=20971520\\n" * 8, b"")


def run_fio(target, job, *, pace, on_progress):
    rates = tuple(Iops(3_000.0 + (number * 7 + second) % 13 + 0.25) for second in range(SECONDS)
                  for number in [next(numbers)])
    flows = tuple(rate.at(BS) for rate in rates)
    waits = tuple(16 / rate.per_second for rate in rates)
    latency = Latency(0.0053, 1e-4, 0.02, p50_s=0.005, p95_s=0.006, p99_s=0.012, p999_s=0.014)
    return Measurement(
        workload="fio randread 4k",
        iops=3_000.0,
        throughput_mib=3_000 * BS.mib,
        read=Direction(3_000.0, 3_000 * BS.mib, 3_000 * SECONDS, 3_000 * SECONDS * 4096, latency),
        write=None,
        latency=latency,
        series=Series(tuple(float(n + 1) for n in range(SECONDS)), rates, flows, waits,
                      read=DirectionSeries(rates, flows, waits)),
        block_size=BS,
        sequential=False,
        outstanding_asked=16,
        runtime_s=float(SECONDS),
        command="fio --rw=randread --bs=4096",
        tool_version="fio-3.33",
        host="m5.xlarge i-0123456789abcdef0",
        target=target.label,
        started_at="2026-11-20T12:00:00+00:00",
        envelope=storage_envelope(None, [("vol-0123456789abcdef0", gp3(size_gib=10))], BS, sequential=False),
        counters=ThrottleDelta(float(SECONDS), volume_iops_exceeded_s=SECONDS * 0.9),
        asked={{"iodepth": 16}},
        # Different bytes every time, as in real logs.
        raw={{name: b"%d, 1, 0, 4096, 0\\n" % next(numbers) + LOG for name in ("iops.log", "bw.log", "lat.log")}}
        | {{"result.json": RESULT + b" " * (next(numbers) % 9_999)}},
    )


@pytest.fixture
def volume():
    return Target()


@pytest.fixture
def host(pytestconfig, request):
    return keeper_of(pytestconfig).cloud(request.node, Cloud).host(Instance(), connect_timeout_s=1)


@pytest.fixture(autouse=True)
def _stands_in(monkeypatch):
    monkeypatch.setattr(fio_run, "FIO", dataclasses.replace(fio_run.FIO, run=run_fio))
"""

TESTS = """
import pytest
from conftest import COMMANDS


@pytest.mark.parametrize("number", range({count}))
def test_a_volume(volume, host, fio, number):
    for each in range(COMMANDS):
        host.run(["sh", "-c", "a query of a device", "sh", f"/dev/nvme{{each}}n1"], sudo=True)
    run = fio(volume, rw="randread", bs="4k", iodepth=16, runtime=300)
    assert run.reaches("3,000 IOPS")
"""


@dataclass(frozen=True)
class Session:
    """The cost of one pytest session: wall time, CPU time, and the highest memory use."""

    wall_s: float
    cpu_s: float
    mib: float


def session(folder: Path, *options: str) -> Session:
    """Run pytest in ``folder`` and return its cost. Exits with the output if it fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark", *options]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(output.decode(errors="replace")[-2000:])
    wall_s = time.perf_counter() - began
    return Session(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def prepare(folder: Path, *, count: int, seconds: int, jobs: int) -> None:
    """Write tests that each measure once and record 60 commands, a series and raw logs of this length."""
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST.format(seconds=seconds, jobs=jobs))
    (folder / "test_volumes.py").write_text(TESTS.format(count=count))


def cost_ms(folder: Path, count: int, rounds: int) -> tuple[float, float]:
    """Return the median wall time and CPU time in milliseconds that recording adds to one test."""
    session(folder, "--cloudbench-evidence=off")
    pairs = [
        (
            session(folder, "--cloudbench-evidence=off"),
            session(folder, f"--cloudbench-evidence=kept-{number}"),
        )
        for number in range(rounds)
    ]
    wall_s = statistics.median(kept.wall_s - off.wall_s for off, kept in pairs)
    cpu_s = statistics.median(kept.cpu_s - off.cpu_s for off, kept in pairs)
    return wall_s * 1000 / count, cpu_s * 1000 / count


def size_kib(folder: Path) -> float:
    """Return the size of all files below a folder in KiB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1024


def main() -> None:
    """Measure both and print them with their limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tests", type=int, default=100, help="tests of one session whose cost is compared")
    parser.add_argument("--measurements", type=int, default=1000, help="measurements to replay")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for what, seconds, jobs in (("6 s, 2 jobs", 6, 2), ("300 s, 64 jobs", 300, 64)):
            folder = Path(name) / what.replace(", ", "-").replace(" ", "")
            prepare(folder, count=options.tests, seconds=seconds, jobs=jobs)
            ms, cpu_ms = cost_ms(folder, options.tests, options.rounds)
            share = ms / 1000 / seconds
            kib = size_kib(folder / "kept-0") / options.tests
            ratio = max(ms / LIMIT_MS, share / LIMIT_SHARE)
            print(
                f"recording a test of {what}: {ms:.1f} ms ({cpu_ms:.1f} ms of processor time), {share:.3%} of its "
                f"run time, {kib:,.0f} KiB "
                f"(required: under {LIMIT_MS:g} ms and {LIMIT_SHARE:.0%}; ratio {ratio:.2f})"
            )
        folder = Path(name) / "thousand"
        prepare(folder, count=options.measurements, seconds=300, jobs=2)
        recorded = session(folder, "--cloudbench-evidence=kept")
        size = size_kib(folder / "kept") / 1024
        print(f"{options.measurements:,} measurements recorded in {recorded.wall_s:.1f} s: {size:,.0f} MiB")
        began = time.perf_counter()
        verified = subprocess.run(
            [sys.executable, "-m", "pytest_cloudbench.cli", "verify", "kept"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        print(f"verified in {time.perf_counter() - began:.1f} s: {verified.stdout.splitlines()[0]}")
        kinds = {"with JUnit XML": ["--junitxml=junit.xml"]}
        if importlib.util.find_spec("allure_pytest") is not None:
            kinds["with JUnit XML and Allure's results"] = ["--junitxml=junit.xml", "--alluredir=allure"]
        for kind, reports in kinds.items():
            replayed = session(folder, "--cloudbench-replay=kept", *reports)
            ratio = max(replayed.wall_s / LIMIT_REPLAY_S, replayed.mib / LIMIT_MIB)
            print(
                f"replayed {kind} in {replayed.wall_s:.1f} s, {replayed.mib:,.0f} MiB (required: under "
                f"{LIMIT_REPLAY_S:g} s and {LIMIT_MIB:g} MiB; ratio {ratio:.2f})"
            )
        if (folder / "allure").is_dir() and shutil.which("allure"):
            began = time.perf_counter()
            command = [sys.executable, "-m", "pytest_cloudbench.cli", "report", "allure", "--served"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
            took_s = time.perf_counter() - began
            print(f"their HTML by Allure in {took_s:.1f} s, together {replayed.wall_s + took_s:.1f} s")


if __name__ == "__main__":
    main()
