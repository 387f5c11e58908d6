"""The limits of instances' local NVMe disks as data: random 4 KiB I/O, separately for reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.limits.ceilings import INSTANCE, Ceiling, MachineLimits
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import GIB, KIB, Iops, Size
from pytest_cloudbench.limits.volume_types import ServiceTime

SOURCE = "Amazon EC2 User Guide, instance store volumes, random IOPS at 4,096 bytes"
UNCONFIRMED = "from memory of the Amazon EC2 User Guide; not confirmed against the present page"
DATE = "2026-11"
BLOCK = Size(4 * KIB)
"""The block size for which the figures are stated."""

STORE_SERVICE_TIME = ServiceTime(
    100e-6,
    0.15,
    2 * GIB,
    write_s=60e-6,
    source="a choice of this project: AWS states no latency for instance stores; an NVMe disk with flash memory",
)

READ_QUANTITY = "NVMe random read IOPS"
WRITE_QUANTITY = "NVMe random write IOPS"


@dataclass(frozen=True)
class StoreRates:
    """Random 4 KiB IOPS over all disks of an instance store, for reads alone and for writes alone."""

    read: Iops
    write: Iops
    source: str = SOURCE
    date: str = DATE

    def share(self, disks: int) -> StoreRates:
        """Return the rates of one of this many equal disks."""
        return StoreRates(self.read / disks, self.write / disks, self.source, self.date)

    def within(self, machine: MachineLimits | None, *, share: float = 1.0) -> bool:
        """Return True if this ``share`` of an embedded region's machine can serve them, or if it is None (unknown)."""
        return machine is None or max(self.read, self.write) <= machine.iops * share


def _all(family: str, source: str, **sizes: tuple[float, float]) -> dict[str, StoreRates]:
    return {
        f"{family}.{size.removeprefix('_')}": StoreRates(Iops(read), Iops(write), source)
        for size, (read, write) in sizes.items()
    }


STORE_RATES: dict[str, StoreRates] = {
    **_all("i3", SOURCE, _8xlarge=(1_650_000, 720_000), _16xlarge=(3_300_000, 1_440_000), metal=(3_300_000, 1_440_000)),
    **_all(
        "i3", UNCONFIRMED, large=(100_125, 35_000), xlarge=(206_250, 70_000), _2xlarge=(412_500, 180_000),
        _4xlarge=(825_000, 360_000),
    ),
    **_all("i4i", SOURCE, _32xlarge=(3_200_000, 1_760_000)),
    **_all(
        "i4i", UNCONFIRMED, large=(50_000, 27_500), xlarge=(100_000, 55_000), _2xlarge=(200_000, 110_000),
        _4xlarge=(400_000, 220_000), _8xlarge=(800_000, 440_000), _16xlarge=(1_600_000, 880_000),
    ),
    **_all(
        "m5d", UNCONFIRMED, large=(30_000, 15_000), xlarge=(59_000, 29_000), _2xlarge=(117_000, 57_000),
        _4xlarge=(234_000, 114_000),
    ),
    **_all(
        "c5d", UNCONFIRMED, large=(20_000, 9_000), xlarge=(40_000, 18_000), _2xlarge=(80_000, 37_000),
        _4xlarge=(175_000, 75_000),
    ),
}  # fmt: skip
"""Rates by instance type; those of other types are unknown."""


def store_ceilings(owner: str, rates: StoreRates) -> tuple[Ceiling, Ceiling]:
    """Return the ceilings of reads and of writes; ``owner`` is the type, or one disk of it."""
    return (
        Ceiling(owner, READ_QUANTITY, INSTANCE, rates.read, rates.source, rates.date, of_reads=True),
        Ceiling(owner, WRITE_QUANTITY, INSTANCE, rates.write, rates.source, rates.date, of_reads=False),
    )


def store_envelope(
    owner: str,
    rates: StoreRates | None,
    block_size: Size,
    *,
    sequential: bool,
    machine: MachineLimits | None = None,
) -> Envelope:
    """Return every ceiling of I/O on an instance store, where EBS limits do not apply.

    An I/O of any size counts as one, because no throughput is stated. ``Envelope.of_mix`` chooses between reads and
    writes.
    """
    ceilings = [*(store_ceilings(owner, rates) if rates else ()), *(machine.ceilings() if machine else ())]
    return Envelope(tuple(ceilings), block_size, sequential, max(block_size, BLOCK), merging=False)
