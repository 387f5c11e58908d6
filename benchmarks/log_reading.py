"""Reads the three logs of a 64-job hour of fio (691,200 lines) into a series.

Prints the CPU time, and its ratio to the least that any reader does in Python: split each line and convert its numbers.
The best of several rounds counts, as the machine may have other work. Required: at most 1 s of CPU time.

    python benchmarks/log_reading.py [--jobs=64] [--seconds=3600] [--rounds=5]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable

from pytest_cloudbench.workloads.fio.series_logs import (
    BANDWIDTH_LOG,
    IOPS_LOG,
    LATENCY_LOG,
    LOGS,
    series_from_logs,
)

_MOST_S = 1.0
_VALUES = {IOPS_LOG: 1_250, BANDWIDTH_LOG: 5_000, LATENCY_LOG: 12_800_000}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    chance = random.Random(17)
    logs = {name: _log(chance, _VALUES[name], options.jobs, options.seconds) for name in LOGS}
    lines = sum(log.count(b"\n") for log in logs.values())

    def read() -> None:
        series = series_from_logs(logs, runtime_s=options.seconds)
        assert len(series) == options.seconds
        assert not series.damage

    def split() -> None:
        for log in logs.values():
            for line in log.splitlines():
                [float(field) for field in line.split(b",")]

    reading_s, splitting_s = (_best_s(work, options.rounds) for work in (read, split))
    print(f"{lines:,} lines of {options.jobs} jobs: {reading_s:.2f} s of CPU time to read the series")
    print(f"{splitting_s:.2f} s only to split and convert the lines: ratio {reading_s / splitting_s:.2f}")
    return 0 if reading_s <= _MOST_S else 1


def _log(chance: random.Random, value: int, jobs: int, seconds: int) -> bytes:
    """Return a log with the drift of real ones: a few milliseconds, and seconds that vary by some per cent."""
    lines = []
    for _ in range(jobs):
        for second in range(1, seconds + 1):
            end_ms = second * 1000 + chance.choice((-1, 0, 0, 0, 1, 2, 5))
            lines.append(f"{end_ms}, {round(value * chance.uniform(0.95, 1.05))}, 0, 0, 0\n")
    return "".join(lines).encode()


def _best_s(work: Callable[[], None], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


if __name__ == "__main__":
    sys.exit(main())
