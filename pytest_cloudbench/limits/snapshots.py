"""What is known of volumes made from snapshots: slow until each block was read once."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import Iops, Throughput


@dataclass(frozen=True)
class FirstRead:
    """How fast blocks come that were never read before, and who says so."""

    iops: Iops
    throughput: Throughput
    source: str
    date: str


FIRST_READ = FirstRead(
    iops=Iops(800),
    throughput=Throughput.from_mib(50),
    source=(
        "a choice of the embedded region: AWS states no default rate and says only that it fluctuates (Amazon EBS "
        "User Guide, 'Initialize Amazon EBS volumes'). Half of the lowest rate that can be had for money, 100 MiB/s, "
        "in pieces of 64 KiB"
    ),
    date="2026-11",
)
