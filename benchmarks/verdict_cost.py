"""Measure the CPU time of a verdict over 3,600 samples: storage and a network, without a fall and with several.

Needs neither a region nor root. Prints the worst as a multiple of the limit; exit code 1 if it exceeds it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "verdicts"))

from synthetic_networks import M5_2XL, network_run, noise
from synthetic_runs import M5, ceiling, run_of

from pytest_cloudbench import gp2
from pytest_cloudbench.verdicts.burst_ends_at import burst_ends_at
from pytest_cloudbench.verdicts.capped_by import capped_by
from pytest_cloudbench.verdicts.comparison import outperforms
from pytest_cloudbench.verdicts.drops_to import drops_to
from pytest_cloudbench.verdicts.reaches import reaches
from pytest_cloudbench.verdicts.steady import steady
from pytest_cloudbench.verdicts.sustains import sustains
from pytest_cloudbench.verdicts.verdict import Verdict

LIMIT_S = 0.020
SAMPLES = 3_600
GP2 = (("vol-0gp2", gp2(size_gib=100)),)
SHAPES: dict[str, Callable[[int], float]] = {
    "flat": lambda index: 1.0,
    "one fall": lambda index: 1.0 if index < 1_800 else 0.1,
    "three falls": lambda index: 1.0 - 0.2 * (index // 900),
    "ten dips": lambda index: 0.5 if index % 360 < 20 else 1.0,
}


def series(shape: str, spread: float, level: float) -> list[float]:
    factors = noise(SAMPLES, spread, random.Random(7), 0.5)
    return [level * SHAPES[shape](index) * factor for index, factor in enumerate(factors)]


def storage(shape: str, spread: float) -> Any:
    values = series(shape, spread, 3_000.0)
    return run_of(fmean(values), on=M5, volumes=GP2, values=values)


def network(shape: str, spread: float) -> Any:
    return network_run(values=series(shape, spread, 9.93), streams=5)


VERDICTS: dict[str, tuple[Callable[[str, float], Any], Callable[[Any], Verdict]]] = {
    "reaches, storage": (storage, lambda run: reaches(run, ceiling("gp2 vol-0gp2 IOPS", run))),
    "reaches, share": (storage, lambda run: reaches(run, "3,000 IOPS", share=0.99)),
    "capped_by, storage": (storage, lambda run: capped_by(run, ceiling("gp2 vol-0gp2 IOPS", run))),
    "burst_ends_at": (storage, lambda run: burst_ends_at(run, ceiling("gp2 vol-0gp2 IOPS", run))),
    "sustains": (storage, lambda run: sustains(run, "3,000 IOPS", for_="10 min")),
    "steady, storage": (storage, steady),
    "reaches, network": (network, lambda run: reaches(run, M5_2XL.network_peak)),
    "drops_to, network": (network, lambda run: drops_to(run, M5_2XL.network_baseline)),
    "outperforms, each run": (network, lambda run: outperforms(run, run)),
}


def cost_s(
    make: Callable[[str, float], Any], judge: Callable[[Any], Verdict], shape: str, spread: float
) -> float:
    """Return the CPU time of a verdict in seconds: the least of many, which other processes disturbed least."""
    run, found = make(shape, spread), []
    judge(run)
    for _ in range(15):
        begin = time.process_time()
        judge(run)
        found.append(time.process_time() - begin)
    return min(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--noise", type=float, default=0.05, help="standard deviation, as a share")
    asked = parser.parse_args()
    print(f"{'ms':22}" + "".join(f"{shape:>14}" for shape in SHAPES))
    worst = 0.0
    for name, (make, judge) in VERDICTS.items():
        runs = 2 if name.endswith("each run") else 1
        costs = [cost_s(make, judge, shape, asked.noise) / runs for shape in SHAPES]
        worst = max(worst, *costs)
        print(f"{name:22}" + "".join(f"{1_000 * cost:14.1f}" for cost in costs))
    print(f"worst: {1_000 * worst:.1f} ms, {worst / LIMIT_S:.2f} times the {1_000 * LIMIT_S:.0f} ms allowed")
    return 0 if worst <= LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
