"""Measure how exactly burst credits drain: the time at which a bucket is empty, and its levels, against the formula.

    python benchmarks/credits_accuracy.py [--only NAME] [--time 60]

Needs root. Every case runs an unlimited load and samples the balance twenty times a second. The bucket is exhausted
when the balance reaches zero. By the formula this takes capacity / (peak - baseline), divided by the time compression.
Levels are compared at a quarter, a half and three quarters of that time. The rate after it comes from the kernel's
counters. It is measured over at least 200 I/Os of 1 MiB, since a volume may serve only six per second. The aim is 2 %
for the time, 1 % of a full bucket for the levels, and 1 % for the rate.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from region_under_test import Region, region

from pytest_cloudbench.limits.credits import CreditRule, ebs_credits, volume_credits
from pytest_cloudbench.limits.instances import EbsLimit
from pytest_cloudbench.limits.quantities import Iops, Throughput, plain
from pytest_cloudbench.limits.volumes import gp2, io2, sc1, st1

AFTER_S, AFTER_MIB = 8.0, 200
SETTLING_S = 2.0
RANDOM = "--rw=randread --bs=4k --iodepth=32 --numjobs=2 --size=1g"
SEQUENTIAL = "--rw=read --bs=1m --iodepth=16 --size=4g"
SMALL_SEQUENTIAL = "--rw=read --bs=64k --iodepth=32 --size=4g"
SMALL_RANDOM = "--rw=randread --bs=64k --iodepth=32 --size=4g"
SMALL_INSTANCE = EbsLimit(Iops(1_000), Throughput.from_mb(60)), EbsLimit(Iops(4_000), Throughput.from_mb(150))


@dataclass(frozen=True)
class Case:
    """A load, and the bucket that it empties. ``of_rate`` selects the kernel's counter that drains the bucket."""

    rule: CreditRule
    prepare: Callable[[Region], str]
    load: str
    balance: Callable[[Region], float]
    of_rate: str = "ios"
    unit: float = 1.0


def on_volume(spec) -> tuple[CreditRule, Callable[[Region], str], Callable[[Region], float]]:
    rule = volume_credits(spec)
    assert rule is not None

    def prepare(under_test: Region) -> str:
        under_test.launch("i-1", iops=100_000, mbit=40_000)
        return under_test.volume("i-1", spec)

    return rule, prepare, lambda under_test: under_test.plane.volumes.storage_activity()[0][0].burst_balance


def on_instance(which: str) -> tuple[CreditRule, Callable[[Region], str], Callable[[Region], float]]:
    rule = getattr(ebs_credits(*SMALL_INSTANCE), which)
    attribute = {"iops": "io_balance", "throughput": "byte_balance"}[which]

    def prepare(under_test: Region) -> str:
        under_test.launch("i-1", baseline=SMALL_INSTANCE[0], maximum=SMALL_INSTANCE[1])
        return under_test.volume("i-1", io2(size_gib=80, iops=16_000))

    return (
        rule,
        prepare,
        lambda under_test: getattr(under_test.plane.volumes.storage_activity()[1][0], attribute),
    )


def volume_case(spec, load: str, **more) -> Case:
    rule, prepare, balance = on_volume(spec)
    return Case(rule, prepare, load, balance, **more)


def instance_case(which: str, load: str, **more) -> Case:
    rule, prepare, balance = on_instance(which)
    return Case(rule, prepare, load, balance, **more)


MIB = 1024**2
CASES = {
    "gp2 100 GiB, 4 KiB random": volume_case(gp2(size_gib=100), RANDOM),
    "gp2 500 GiB, 4 KiB random": volume_case(gp2(size_gib=500), RANDOM),
    "st1 512 GiB, 1 MiB sequential": volume_case(st1(size_gib=512), SEQUENTIAL, of_rate="bytes"),
    "st1 512 GiB, 64 KiB sequential": volume_case(st1(size_gib=512), SMALL_SEQUENTIAL, of_rate="bytes"),
    "st1 512 GiB, 64 KiB random": volume_case(st1(size_gib=512), SMALL_RANDOM, unit=MIB),
    "sc1 512 GiB, 1 MiB sequential": volume_case(sc1(size_gib=512), SEQUENTIAL, of_rate="bytes"),
    "instance, IOPS": instance_case("iops", RANDOM),
    "instance, throughput": instance_case("throughput", SEQUENTIAL, of_rate="bytes"),
}


@dataclass(frozen=True)
class Seen:
    """The result of a run."""

    emptied_s: float
    levels: list[tuple[float, float]]
    rate: float


def watch(under_test: Region, case: Case, device: str, expected_s: float) -> Seen:
    """Run the load until some time after the bucket is empty. Times count from its first I/O."""
    after_s = AFTER_S
    if isinstance(case.rule.baseline, Throughput):
        after_s = max(AFTER_S, AFTER_MIB * MIB / case.rule.baseline.bytes_per_second)
    end_s = expected_s * 1.1 + 4 + SETTLING_S + after_s
    load = threading.Thread(
        target=under_test.fio, args=("i-1", [device], f"{case.load} --runtime={int(end_s)}"), daemon=True
    )
    samples: list[tuple[float, float]] = []
    load.start()
    while load.is_alive():
        samples.append((time.monotonic(), case.balance(under_test)))
        time.sleep(0.05)
    load.join()
    moving = under_test.watch.moving()
    started = moving[0][0]
    emptied = next(when for when, level in samples if level < 0.2)
    levels = []
    for share in (0.25, 0.5, 0.75):
        at = started + share * expected_s
        (t0, level0), (t1, level1) = next(
            (one, two) for one, two in pairwise(samples) if one[0] <= at < two[0]
        )
        levels.append((100 * (1 - share), level0 + (level1 - level0) * (at - t0) / (t1 - t0)))
    first = next(sample for sample in moving if sample[0] >= emptied + SETTLING_S)
    last = next(sample for sample in moving if sample[0] >= first[0] + after_s)
    which = 1 if case.of_rate == "ios" else 2
    rate = (last[which] - first[which]) * case.unit / (last[0] - first[0])
    return Seen(emptied - started, levels, rate)


def main() -> None:
    """Run the cases and compare them with the formula."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--time", type=float, help="time compression (each case about 30 s unless given)")
    arguments = parser.parse_args()
    for name, case in CASES.items():
        if arguments.only not in name:
            continue
        compression = arguments.time or round(case.rule.time_until_empty() / 30)
        expected_s = case.rule.time_until_empty(time_compression=compression)
        with region(time_compression=compression) as under_test:
            device = case.prepare(under_test)
            seen = watch(under_test, case, device, expected_s)
        base = plain(case.rule.baseline)
        levels = ", ".join(f"{got:.2f} of {wanted:.0f} %" for wanted, got in seen.levels)
        print(
            f"{name:32} {compression:4.0f} times: empty after {seen.emptied_s:6.2f} s of {expected_s:6.2f} s "
            f"(ratio {seen.emptied_s / expected_s:.4f}); levels {levels}; then {type(case.rule.baseline)(seen.rate)} "
            f"of {case.rule.baseline} (ratio {seen.rate / base:.4f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
