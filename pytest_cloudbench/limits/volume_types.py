"""The EBS volume types and their limits, as data: a limit that AWS raises is one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_cloudbench.limits.quantities import KIB, MIB, Size

SOURCE = "Amazon EBS User Guide, volume types"
DATE = "2026-11"

SSD_IO_UNIT = Size(256 * KIB)
HDD_IO_UNIT = Size(1024 * KIB)

TIB_IN_GIB = 1024


@dataclass(frozen=True)
class VolumeType:
    """What one volume type offers. Sizes in GiB, throughput in MiB/s.

    ``iops_range`` and ``throughput_range`` are what a request may ask for; None where the request must
    leave the figure out. ``iops_default`` None with a range means that the request must name it.
    ``iops_free_of_ratio`` IOPS are allowed at any size. ``base`` and ``burst`` give (IOPS, MiB/s) of a
    volume of a size with the IOPS asked for.
    """

    name: str
    size_range: tuple[int, int]
    io_unit: Size
    base: Callable[[int, int], tuple[int, float]]
    burst: Callable[[int, int], tuple[int, float]]
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
        """Whether a request may name the IOPS."""
        return self.iops_range is not None

    @property
    def takes_throughput(self) -> bool:
        """Whether a request may name the throughput."""
        return self.throughput_range is not None

    @property
    def is_hdd(self) -> bool:
        """Whether the type lives on hard disks, where I/O counts up to 1 MiB."""
        return self.io_unit == HDD_IO_UNIT


def _gp3(_size_gib: int, iops: int) -> tuple[int, float]:
    return iops, 125.0


def _gp2_throughput(size_gib: int) -> float:
    return 128.0 if size_gib <= 170 else 250.0


def _gp2_base(size_gib: int, _iops: int) -> tuple[int, float]:
    return min(16_000, max(100, 3 * size_gib)), _gp2_throughput(size_gib)


def _gp2_burst(size_gib: int, iops: int) -> tuple[int, float]:
    base, throughput = _gp2_base(size_gib, iops)
    return max(base, 3_000), throughput


def _io1(_size_gib: int, iops: int) -> tuple[int, float]:
    # 256 KiB an I/O up to 500 MiB/s; above 32,000 IOPS 16 KiB an I/O, which reaches 1,000 MiB/s at 64,000.
    return iops, min(1_000.0, max(min(500.0, iops * 0.25), iops / 64))


def _io2(_size_gib: int, iops: int) -> tuple[int, float]:
    return iops, min(4_000.0, 0.256 * iops)


def _hdd(per_tib: float, most: float) -> Callable[[int, int], tuple[int, float]]:
    def figures(size_gib: int, _iops: int) -> tuple[int, float]:
        throughput = min(most, per_tib * size_gib / TIB_IN_GIB)
        # Every I/O counts as up to 1 MiB, so random I/O cannot exceed one a MiB of throughput.
        return max(1, int(throughput * MIB / HDD_IO_UNIT.bytes)), throughput

    return figures


def _standard(_size_gib: int, _iops: int) -> tuple[int, float]:
    return 200, 90.0


VOLUME_TYPES: dict[str, VolumeType] = {
    kind.name: kind
    for kind in (
        VolumeType(
            "gp3",
            size_range=(1, 64 * TIB_IN_GIB),
            io_unit=SSD_IO_UNIT,
            base=_gp3,
            burst=_gp3,
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
            size_range=(1, 16 * TIB_IN_GIB),
            io_unit=SSD_IO_UNIT,
            base=_gp2_base,
            burst=_gp2_burst,
        ),
        VolumeType(
            "io2",
            size_range=(4, 64 * TIB_IN_GIB),
            io_unit=SSD_IO_UNIT,
            base=_io2,
            burst=_io2,
            iops_range=(100, 256_000),
            iops_per_gib=1_000,
        ),
        VolumeType(
            "io1",
            size_range=(4, 16 * TIB_IN_GIB),
            io_unit=SSD_IO_UNIT,
            base=_io1,
            burst=_io1,
            iops_range=(100, 64_000),
            iops_per_gib=50,
        ),
        VolumeType(
            "st1",
            size_range=(125, 16 * TIB_IN_GIB),
            io_unit=HDD_IO_UNIT,
            base=_hdd(40, 500),
            burst=_hdd(250, 500),
        ),
        VolumeType(
            "sc1",
            size_range=(125, 16 * TIB_IN_GIB),
            io_unit=HDD_IO_UNIT,
            base=_hdd(12, 250),
            burst=_hdd(80, 250),
        ),
        VolumeType(
            "standard",
            size_range=(1, 1 * TIB_IN_GIB),
            io_unit=SSD_IO_UNIT,
            base=_standard,
            burst=_standard,
        ),
    )
}
