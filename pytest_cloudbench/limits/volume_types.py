"""The EBS volume types as data: limits, burst credits and service times, each with its source and date.

If AWS raises a limit, one line changes here. A project can change a type, or add one, in its own `limits_file`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

from pytest_cloudbench.limits.quantities import GIB, KIB, MIB, Iops, Size, Throughput

SOURCE = "Amazon EBS User Guide, volume types"
DATE = "2026-11"

SSD_IO_UNIT = Size(256 * KIB)
HDD_IO_UNIT = Size(1024 * KIB)
STATED_AT_BYTES = 16 * KIB
"""Service times hold for I/Os up to this size; each further byte adds its transfer time."""

_TIB = 1024
"""In GiB, the unit of volume sizes."""


@dataclass(frozen=True)
class Line:
    """A figure that grows with a size or a rate: ``per`` times that, at least ``least``, at most ``most``.

    It is 0 unless the size or rate is larger than ``above``.
    """

    per: float = 0.0
    least: float = 0.0
    most: float = math.inf
    above: float = 0.0

    def at(self, value: float) -> float:
        """Return the figure for this size or rate."""
        return min(self.most, max(self.least, self.per * value)) if value > self.above else 0.0


@dataclass(frozen=True)
class BurstRule:
    """How far volumes of a type burst, by their size in GiB.

    ``peak`` is IOPS, for HDD types MiB/s. ``credits`` is the capacity of a full bucket in I/Os, for HDD types in bytes.
    """

    peak: Line
    credits: Line
    source: str
    date: str = DATE


@dataclass(frozen=True)
class ServiceTime:
    """How long one I/O takes while no limit delays it: log-normal, in seconds.

    ``mean_s`` is the mean of random I/O up to 16 KiB and ``spread`` the standard deviation of its logarithm.
    ``sequential_s`` is the mean of I/O that continues an earlier one, ``write_s`` that of writes; both default to
    ``mean_s``. Bytes above 16 KiB are transferred at ``bytes_per_s``.

    AWS states little about latency, so most figures are choices of this project within what AWS does state. They
    decide how many I/Os a load must keep in flight on an embedded region and say nothing about a volume on AWS.
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
                f"invalid service time {self}: times and bytes per second must be above 0, spread from 0 to below 2"
            )

    def mean(self, *, write: bool = False, sequential: bool = False) -> float:
        """Return the mean of small I/O of this kind in seconds."""
        if sequential and self.sequential_s is not None:
            return self.sequential_s
        return self.write_s if write and self.write_s is not None else self.mean_s

    def transfer_s(self, size: int) -> float:
        """Return the seconds that an I/O of ``size`` bytes takes longer than a small one."""
        return max(0, size - STATED_AT_BYTES) / self.bytes_per_s

    def factor(self, share: float) -> float:
        """Return the quantile ``share`` (between 0 and 1) as a multiple of the mean."""
        return math.exp(self.spread * NormalDist().inv_cdf(share) - self.spread**2 / 2)

    def quantile(self, share: float, size: int = STATED_AT_BYTES, *, write: bool = False) -> float:
        """Return the seconds that this share of random I/Os of ``size`` bytes does not exceed."""
        return self.mean(write=write) * self.factor(share) + self.transfer_s(size)


@dataclass(frozen=True)
class VolumeType:
    """What one volume type offers. Sizes are in GiB, throughput is in MiB/s.

    ``iops_range`` and ``throughput_range`` are what a request may name, None if it must leave the figure out. If the
    type has a range and no default, the request must name the figure. ``iops_per_gib`` and ``throughput_per_iops``
    limit a request further; ``iops_free_of_ratio`` IOPS are allowed at any size.

    A figure that is not requested follows from ``iops`` (by size), ``throughput_by_size`` and ``throughput_by_iops``
    (the highest line counts). An HDD type has no IOPS figure: each I/O takes a whole ``io_unit`` of its throughput.
    """

    name: str
    size_range: tuple[int, int]
    service_time: ServiceTime
    io_unit: Size = SSD_IO_UNIT
    iops: Line | None = None
    throughput_by_size: tuple[Line, ...] = ()
    throughput_by_iops: tuple[Line, ...] = ()
    burst: BurstRule | None = None
    iops_range: tuple[int, int] | None = None
    iops_default: int | None = None
    iops_per_gib: int | None = None
    iops_free_of_ratio: int = 0
    throughput_range: tuple[int, int] | None = None
    throughput_default: int | None = None
    throughput_per_iops: float | None = None
    source: str = SOURCE
    date: str = DATE

    @property
    def takes_iops(self) -> bool:
        """True if a request may name the IOPS."""
        return self.iops_range is not None

    @property
    def takes_throughput(self) -> bool:
        """True if a request may name the throughput."""
        return self.throughput_range is not None

    @property
    def is_hdd(self) -> bool:
        """True if the type is limited by its throughput alone, of which every I/O takes whole units."""
        return self.iops is None and self.iops_range is None

    def figures(self, size_gib: int, iops: int = 0, *, burst: bool = False) -> tuple[int, float]:
        """Return the IOPS and the MiB/s of a volume of this size and these requested IOPS.

        With ``burst`` they hold while credits last, otherwise for good.
        """
        throughput = max(
            float(self.throughput_default or 0),
            *(line.at(size_gib) for line in self.throughput_by_size),
            *(line.at(iops) for line in self.throughput_by_iops),
            0.0,
        )
        peak = self.burst.peak.at(size_gib) if burst and self.burst is not None else 0.0
        if self.is_hdd:
            throughput = max(throughput, peak)
            return max(1, int(throughput * MIB / self.io_unit.bytes)), throughput
        held = iops if self.iops is None else int(self.iops.at(size_gib))
        return max(held, int(peak)), throughput


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
_GP2_CREDITS = "Amazon EBS User Guide, General Purpose SSD volumes, gp2 I/O credits and burst performance"
_HDD_CREDITS = "Amazon EBS User Guide, Throughput Optimized HDD and Cold HDD volumes, throughput credits"

VOLUME_TYPES: dict[str, VolumeType] = {
    kind.name: kind
    for kind in (
        VolumeType(
            "gp3",
            size_range=(1, 64 * _TIB),
            service_time=ServiceTime(500e-6, 0.25, 1 * GIB, source=_SINGLE_DIGIT),
            iops_range=(3_000, 80_000),
            iops_default=3_000,
            iops_per_gib=500,
            iops_free_of_ratio=3_000,
            throughput_range=(125, 2_000),
            throughput_default=125,
            throughput_per_iops=0.25,
        ),
        VolumeType(
            "gp2",
            size_range=(1, 16 * _TIB),
            service_time=ServiceTime(500e-6, 0.25, 1 * GIB, source=_SINGLE_DIGIT),
            iops=Line(per=3, least=100, most=16_000),
            throughput_by_size=(Line(least=128), Line(least=250, above=170)),
            # A full bucket lasts 30 minutes at 3,000 IOPS.
            burst=BurstRule(peak=Line(least=3_000), credits=Line(least=5_400_000), source=_GP2_CREDITS),
        ),
        VolumeType(
            "io1",
            size_range=(4, 16 * _TIB),
            service_time=ServiceTime(400e-6, 0.20, 1 * GIB, source=_IO1),
            iops_range=(100, 64_000),
            iops_per_gib=50,
            # 256 KiB per I/O up to 500 MiB/s; above 32,000 IOPS 16 KiB per I/O, so 1,000 MiB/s at 64,000.
            throughput_by_iops=(Line(per=1 / 4, most=500), Line(per=1 / 64, most=1_000)),
        ),
        VolumeType(
            "io2",
            size_range=(4, 64 * _TIB),
            service_time=ServiceTime(300e-6, 0.15, 2 * GIB, source=_IO2),
            iops_range=(100, 256_000),
            iops_per_gib=1_000,
            throughput_by_iops=(Line(per=0.256, most=4_000),),
        ),
        VolumeType(
            "st1",
            size_range=(125, 16 * _TIB),
            service_time=ServiceTime(10e-3, 0.30, 0.5 * GIB, sequential_s=1.5e-3, source=_HDD),
            io_unit=HDD_IO_UNIT,
            throughput_by_size=(Line(per=40 / _TIB, most=500),),
            burst=BurstRule(peak=Line(per=250 / _TIB, most=500), credits=Line(per=GIB), source=_HDD_CREDITS),
        ),
        VolumeType(
            "sc1",
            size_range=(125, 16 * _TIB),
            service_time=ServiceTime(14e-3, 0.30, 0.25 * GIB, sequential_s=2.5e-3, source=_HDD),
            io_unit=HDD_IO_UNIT,
            throughput_by_size=(Line(per=12 / _TIB, most=250),),
            burst=BurstRule(peak=Line(per=80 / _TIB, most=250), credits=Line(per=GIB), source=_HDD_CREDITS),
        ),
        VolumeType(
            "standard",
            size_range=(1, 1 * _TIB),
            service_time=ServiceTime(10e-3, 0.30, 0.25 * GIB, sequential_s=2.5e-3, source=_HDD),
            iops=Line(least=200),
            throughput_by_size=(Line(least=90),),
        ),
    )
}


def add_volume_types(types: Mapping[str, VolumeType]) -> Callable[[], None]:
    """Add volume types, or replace those of the same name; return a function that undoes it."""
    before = dict(VOLUME_TYPES)
    VOLUME_TYPES.update(types)

    def undo() -> None:
        VOLUME_TYPES.clear()
        VOLUME_TYPES.update(before)

    return undo


@dataclass(frozen=True)
class FirstRead:
    """The rate at which a volume made from a snapshot delivers blocks that were never read, with its source."""

    iops: Iops
    throughput: Throughput
    source: str
    date: str


FIRST_READ = FirstRead(
    iops=Iops(800),
    throughput=Throughput.from_mib(50),
    source=(
        "a choice of the embedded region: AWS states no default rate and says only that it fluctuates (Amazon EBS "
        "User Guide, 'Initialize Amazon EBS volumes'). Half of the lowest rate that money buys, 100 MiB/s, in pieces "
        "of 64 KiB"
    ),
    date="2026-11",
)
