"""Count the falls found in series without one, and those found and missed in series with one.

Needs neither a region nor root. The series are seeded, so two versions of the detector see the same ones.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "verdicts"))

from synthetic_networks import noise
from synthetic_series import KINDS, with_fall, without_fall

from pytest_cloudbench.verdicts.change_point import find_falls

LENGTHS = (20, 25, 30, 40, 60, 90, 120, 200, 300)
DEPTHS = (0.12, 0.15, 0.20, 0.25, 0.50, 0.90)
SPREADS = (0.01, 0.03, 0.05, 0.07, 0.09)
MEMORIES = (0.0, 0.3, 0.6)
COUNTS = (60, 120, 200, 600)
MOST_FALSE_SHARE = 1e-4
MOST_ERROR_S = 0.02
DEEP_NOISE, DEEP_FALL = 0.07, 0.25
FEWEST_DEEP_FOUND = 0.90


@dataclass(frozen=True)
class Cell:
    """Series with one fall of this depth (a share of the level before), and their noise."""

    depth: float
    spread: float
    memory: float
    count: int

    def series(self, number: int) -> tuple[list[float], float]:
        """Return the ``number``th series, one sample a second, and the moment of its fall in seconds."""
        numbers = random.Random(f"{self} {number}")
        at_s = numbers.uniform(0.3, 0.7) * self.count
        values = []
        for index, factor in enumerate(noise(self.count, self.spread, numbers, self.memory)):
            before = min(1.0, max(0.0, at_s - index))
            values.append(max(0.0, (1 - self.depth * (1 - before)) * factor))
        return values, at_s


def seconds_of(values: list[float]) -> list[float]:
    return [float(index + 1) for index in range(len(values))]


def false_fall(number: int) -> str | None:
    """Return the kind of a series without a fall in which one was found, else None."""
    kind, values = without_fall(number, lengths=LENGTHS)
    return kind if find_falls(seconds_of(values), values).lasting else None


def sharp_error(number: int) -> float | None:
    """Return by how many seconds the moment of a clear fall was missed; None if it was not found alone."""
    made = with_fall(number)
    falls = find_falls(made.seconds[:-1], made.values[:-1]).lasting
    return abs(falls[0].at_s - made.at_s) if len(falls) == 1 else None


def hit(job: tuple[Cell, int]) -> tuple[Cell, bool]:
    """Return whether the fall of one series was found, alone and at its moment."""
    cell, number = job
    values, at_s = cell.series(number)
    falls = find_falls(seconds_of(values), values).lasting
    return cell, len(falls) == 1 and abs(falls[0].at_s - at_s) <= max(5.0, 0.05 * cell.count)


def jobs_of_cells(each: int) -> Iterator[tuple[Cell, int]]:
    for depth, spread, memory, count in product(DEPTHS, SPREADS, MEMORIES, COUNTS):
        for number in range(each):
            yield Cell(depth, spread, memory, count), number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=40_000, help="series without a fall")
    parser.add_argument(
        "--each", type=int, default=25, help="series with a fall, for each depth, noise and length"
    )
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    with ProcessPoolExecutor(asked.processes) as pool:
        false = Counter(kind for kind in pool.map(false_fall, range(asked.series), chunksize=500) if kind)
        errors = list(pool.map(sharp_error, range(1_000), chunksize=50))
        hits = list(pool.map(hit, jobs_of_cells(asked.each), chunksize=100))

    wrong = sum(false.values())
    print(f"falls found in {asked.series:,} series without one: {wrong}")
    print("  " + ", ".join(f"{kind.__name__} {false[kind.__name__]}" for kind in KINDS))
    known = [error for error in errors if error is not None]
    middle = statistics.median(known)
    print(
        f"clear falls found alone: {len(known)} of {len(errors):,}; moment missed by {middle:.3f} s (median)"
    )
    for memory in MEMORIES:
        print(f"found, of 100 falls, in noise that resembles the second before by {memory:g}:")
        print("  depth " + "".join(f"{spread:>8.0%}" for spread in SPREADS) + "  (standard deviation)")
        for depth in DEPTHS:
            shares = [_share(hits, depth, spread, memory) for spread in SPREADS]
            print(f"  {depth:5.0%} " + "".join(f"{100 * share:8.0f}" for share in shares))
    deep = _share(hits, DEEP_FALL, DEEP_NOISE, 0.0)
    good = wrong <= MOST_FALSE_SHARE * asked.series and middle <= MOST_ERROR_S and deep >= FEWEST_DEEP_FOUND
    return 0 if good else 1


def _share(hits: list[tuple[Cell, bool]], depth: float, spread: float, memory: float) -> float:
    found = [good for cell, good in hits if (cell.depth, cell.spread, cell.memory) == (depth, spread, memory)]
    return sum(found) / len(found)


if __name__ == "__main__":
    sys.exit(main())
