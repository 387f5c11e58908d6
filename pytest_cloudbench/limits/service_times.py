"""How long a single I/O takes on each volume type while no limit holds it back, as data.

AWS promises little here, so most figures are choices of this project within what AWS says. They decide how many
I/Os a load must keep outstanding on an embedded region; they say nothing about a particular volume on AWS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

DATE = "2026-11"
STATED_AT_BYTES = 16 * 1024
"""Figures hold for I/Os up to this size; each further byte takes its transfer time."""

_SINGLE_DIGIT = (
    "Amazon EBS User Guide, General Purpose SSD volumes: single-digit millisecond latency; the mean is a choice of "
    "this project"
)
_IO1 = (
    "Amazon EBS User Guide, Provisioned IOPS SSD volumes: single-digit millisecond latency; the mean is a choice of "
    "this project"
)
_IO2 = (
    "Amazon EBS User Guide, io2 Block Express: under 500 microseconds on average for 16 KiB I/O; the mean below that "
    "is a choice of this project"
)
_HDD = (
    "a choice of this project: AWS states no latency for HDD-backed volumes; a seek of a disk with 7,200 rpm"
)
_STORE = "a choice of this project: AWS states no latency for instance stores; an NVMe disk with flash memory"


@dataclass(frozen=True)
class ServiceTime:
    """A log-normal service time. Seconds; ``bytes_per_s`` moves what an I/O has above 16 KiB.

    ``mean_s`` is the mean of random I/O up to 16 KiB, ``spread`` the standard deviation of its logarithm.
    ``sequential_s`` is the mean of I/O that continues another one and ``write_s`` that of writes, each `mean_s` if
    None.
    """

    mean_s: float
    spread: float
    bytes_per_s: float
    sequential_s: float | None = None
    write_s: float | None = None
    source: str = ""
    date: str = DATE

    def __post_init__(self) -> None:
        figures = (
            self.mean_s,
            self.bytes_per_s,
            self.sequential_s or self.mean_s,
            self.write_s or self.mean_s,
        )
        if not all(0 < figure < math.inf for figure in figures) or not 0 <= self.spread < 2:
            raise ValueError(
                f"{self} is no service time: times and bytes per second are above zero, spread below 2"
            )

    def mean(self, *, write: bool = False, sequential: bool = False) -> float:
        """Return the mean of small I/O of this kind in seconds."""
        if sequential and self.sequential_s is not None:
            return self.sequential_s
        return self.write_s if write and self.write_s is not None else self.mean_s

    def transfer_s(self, size: int) -> float:
        """Return what an I/O of ``size`` bytes takes besides."""
        return max(0, size - STATED_AT_BYTES) / self.bytes_per_s

    def factor(self, share: float) -> float:
        """Return the quantile ``share`` (between 0 and 1) in means."""
        return math.exp(self.spread * NormalDist().inv_cdf(share) - self.spread**2 / 2)

    def quantile(self, share: float, size: int = STATED_AT_BYTES, *, write: bool = False) -> float:
        """Return the service time in seconds that this share of random I/Os of ``size`` bytes does not exceed."""
        return self.mean(write=write) * self.factor(share) + self.transfer_s(size)


_GIB = 1024.0**3

SERVICE_TIMES: dict[str, ServiceTime] = {
    "gp3": ServiceTime(500e-6, 0.25, 1 * _GIB, source=_SINGLE_DIGIT),
    "gp2": ServiceTime(500e-6, 0.25, 1 * _GIB, source=_SINGLE_DIGIT),
    "io1": ServiceTime(400e-6, 0.20, 1 * _GIB, source=_IO1),
    "io2": ServiceTime(300e-6, 0.15, 2 * _GIB, source=_IO2),
    "st1": ServiceTime(10e-3, 0.30, 0.5 * _GIB, sequential_s=1.5e-3, source=_HDD),
    "sc1": ServiceTime(14e-3, 0.30, 0.25 * _GIB, sequential_s=2.5e-3, source=_HDD),
    "standard": ServiceTime(10e-3, 0.30, 0.25 * _GIB, sequential_s=2.5e-3, source=_HDD),
}

STORE_SERVICE_TIME = ServiceTime(100e-6, 0.15, 2 * _GIB, write_s=60e-6, source=_STORE)
