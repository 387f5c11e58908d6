"""The envelope: every ceiling that applies to one load, in the I/Os of that load, and which one binds.

EBS counts up to one unit (256 KiB on SSD types, 1 MiB on HDD types) as one I/O. Larger I/O counts as several; small
sequential I/O may be merged up to the unit before it is counted. So an IOPS ceiling allows a different number of the
load's own I/Os at each block size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_cloudbench.limits.ceilings import MACHINE, VOLUME, Ceiling, MachineLimits
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.limits.quantities import Iops, Rate, Size, Throughput, figure
from pytest_cloudbench.limits.volume_types import HDD_IO_UNIT, SSD_IO_UNIT
from pytest_cloudbench.limits.volumes import VolumeSpec, volume_ceilings

if TYPE_CHECKING:
    from typing_extensions import Self

TIE = 0.005
_BURST_SPENT = "burst spent"


@dataclass(frozen=True)
class Level:
    """A rate at which a ceiling can act, in the I/Os of the load. ``how`` is empty for the plain limit."""

    iops: Iops
    throughput: Throughput
    how: str = ""

    @property
    def burst_spent(self) -> bool:
        """True if this level remains once the ceiling's credits are spent."""
        return self.how.startswith(_BURST_SPENT)

    def like(self, rate: Rate) -> Rate:
        """Return the level as IOPS or throughput, like ``rate``."""
        return self.iops if isinstance(rate, Iops) else self.throughput


@dataclass(frozen=True)
class Envelope:
    """The ceilings of one load: I/O of ``block_size``, random or ``sequential``.

    Up to ``io_unit`` bytes count as one I/O. ``merging`` is True if sequential I/O may fill whole units. The order of
    ``ceilings`` does not matter.
    """

    ceilings: tuple[Ceiling, ...]
    block_size: Size
    sequential: bool
    io_unit: Size = SSD_IO_UNIT
    merging: bool = True

    def __post_init__(self) -> None:
        if self.block_size.bytes <= 0:
            raise ValueError(f"invalid block size {self.block_size}: it must be above zero")

    def iops_of(self, ceiling: Ceiling) -> Iops:
        """Return how many I/Os of this load the ceiling allows per second."""
        return self._iops(ceiling, ceiling.limit, merged=True)

    def throughput_of(self, ceiling: Ceiling) -> Throughput:
        """Return the throughput of this load that the ceiling allows."""
        if isinstance(ceiling.limit, Throughput):
            return ceiling.limit
        return self.iops_of(ceiling).at(self.block_size)

    def unmerged_iops_of(self, ceiling: Ceiling) -> Iops:
        """Return the same as `iops_of` for sequential I/O that EBS does not merge."""
        return self._iops(ceiling, ceiling.limit, merged=False)

    def levels_of(self, ceiling: Ceiling) -> tuple[Level, ...]:
        """Return every rate at which the ceiling can act, the limit itself first.

        The others are the level once burst credits are spent and, for small sequential I/O, the limit without merging,
        which EBS attempts but does not promise.
        """
        found = [(self.iops_of(ceiling), "")]
        merges = ceiling.of_iops and self._merges(ceiling)
        if merges:
            found.append((self.unmerged_iops_of(ceiling), "sequential I/O not merged"))
        if ceiling.base is not None:
            found.append((self._iops(ceiling, ceiling.base, merged=True), _BURST_SPENT))
            if merges:
                how = f"{_BURST_SPENT}, sequential I/O not merged"
                found.append((self._iops(ceiling, ceiling.base, merged=False), how))
        return tuple(Level(iops, iops.at(self.block_size), how) for iops, how in found)

    @property
    def ordered(self) -> tuple[Ceiling, ...]:
        """All ceilings, lowest first."""
        return tuple(sorted(self.ceilings, key=lambda ceiling: self.iops_of(ceiling).per_second))

    @property
    def promised(self) -> Self:
        """The envelope without the machine's own limits."""
        return replace(self, ceilings=tuple(ceiling for ceiling in self.ceilings if ceiling.promised))

    def of_mix(self, reads: float) -> Self:
        """Return the envelope of a load of which this share, from 0 to 1, are reads.

        A limit of reads alone, or of writes alone, is scaled to the whole load, or left out if the load has none.
        """
        kept = []
        for ceiling in self.ceilings:
            share = 1.0 if ceiling.of_reads is None else reads if ceiling.of_reads else 1 - reads
            if share > 0:
                limit = ceiling.limit if share == 1 else ceiling.limit / share
                kept.append(replace(ceiling, limit=limit))
        return replace(self, ceilings=tuple(kept))

    @property
    def machine(self) -> tuple[Ceiling, ...]:
        """The limits of the machine under an embedded region, lowest first; empty anywhere else."""
        return tuple(ceiling for ceiling in self.ordered if not ceiling.promised)

    @property
    def binding(self) -> tuple[Ceiling, ...]:
        """The lowest ceiling, and those within 0.5 % of it, which a measurement cannot distinguish."""
        return tuple(ceiling for ceiling in self.ordered if self._above_lowest(ceiling) <= TIE)

    @property
    def limit_iops(self) -> Iops | None:
        """The highest IOPS of this load; None if no ceiling is known."""
        return self.iops_of(self.ordered[0]) if self.ceilings else None

    @property
    def limit_throughput(self) -> Throughput | None:
        """The highest throughput of this load; None if no ceiling is known."""
        return self.throughput_of(self.ordered[0]) if self.ceilings else None

    def find(self, ceiling: Ceiling) -> Ceiling | None:
        """Return the envelope's ceiling that is the same limit of the same owner; None if there is none.

        If there are several, such as two network ends of one type, one with the same figures is preferred.
        """
        same = [mine for mine in self.ceilings if mine.same_as(ceiling)]
        equal = [mine for mine in same if (mine.limit, mine.base) == (ceiling.limit, ceiling.base)]
        return next(iter(equal or same), None)

    def explain(self) -> list[str]:
        """Return one line per ceiling, lowest first: what it allows and how far it is above the lowest."""
        lines = []
        for ceiling in self.ordered:
            iops, throughput = self.iops_of(ceiling), self.throughput_of(ceiling)
            line = f"{ceiling.label}: {iops} = {throughput} at {self.block_size} ({self.place_of(ceiling)})"
            lines.append(f"{line}; {ceiling.note}" if ceiling.note else line)
        return lines

    def place_of(self, ceiling: Ceiling) -> str:
        """Return how far a ceiling is above the lowest one: "binds", "77 % above"."""
        above = self._above_lowest(ceiling)
        if above <= TIE:
            return "binds, tied" if len(self.binding) > 1 else "binds"
        if above < 2:
            return f"{figure(above * 100, 0 if above > 0.1 else 1)} % above"
        return f"{figure(above + 1, 1)} times the lowest"

    def _above_lowest(self, ceiling: Ceiling) -> float:
        lowest, mine = self.iops_of(self.ordered[0]), self.iops_of(ceiling)
        if lowest.per_second == 0:
            return 0.0 if mine.per_second == 0 else float("inf")
        return mine / lowest - 1

    def _merges(self, ceiling: Ceiling) -> bool:
        joins = self.sequential and self.merging
        return joins and self.block_size < self.io_unit and ceiling.scope != MACHINE

    def _iops(self, ceiling: Ceiling, limit: Rate, *, merged: bool) -> Iops:
        if isinstance(limit, Throughput):
            return limit.in_ios_of(self.block_size)
        if ceiling.scope == MACHINE:
            return limit
        if self.sequential and self.merging and (merged or self.block_size > self.io_unit):
            # Neighbouring I/Os of any size fill whole units.
            return limit * (self.io_unit.bytes / self.block_size.bytes)
        return limit / -(-self.block_size.bytes // self.io_unit.bytes)


def storage_envelope(
    instance: InstanceLimits | None,
    volumes: Sequence[tuple[str, VolumeSpec]],
    block_size: Size,
    *,
    sequential: bool,
    machine: MachineLimits | None = None,
    cards: Sequence[int] = (),
) -> Envelope:
    """Return every ceiling of a load of ``block_size`` on ``volumes`` of ``instance``.

    Each volume is (its id or label, its spec). Several volumes, striped or side by side, add up. An instance without
    EBS figures (None, or a type such as t2.micro) has no ceiling. ``machine`` is None unless the region is an
    embedded one. ``cards`` has the EBS card of each volume; empty means all cards alike.
    """
    nitro = instance is None or instance.nitro
    io_unit = min((spec.io_unit for _, spec in volumes), default=SSD_IO_UNIT)
    merging = all(spec.merging for _, spec in volumes)
    shape = Envelope((), block_size, sequential, io_unit, merging)
    ceilings = [
        *_counted_ceilings(shape, volumes, nitro=nitro),
        *_mixed_ceiling(shape, volumes, nitro=nitro),
    ]
    if instance is not None:
        ceilings += instance.ebs_ceilings(cards)
    if machine is not None:
        ceilings += machine.ceilings()
    return Envelope(tuple(ceilings), block_size, sequential, io_unit, merging)


def _counted_ceilings(
    shape: Envelope, volumes: Sequence[tuple[str, VolumeSpec]], *, nitro: bool
) -> list[Ceiling]:
    """Return the volumes' own two ceilings, or one if both mean the same.

    The IOPS of an HDD volume follow from its throughput, of which each I/O takes a whole unit. So the two differ for
    small random I/O only.
    """
    whole_units = shape.sequential or shape.block_size >= shape.io_unit
    one_limit = whole_units and bool(volumes) and all(spec.io_unit == HDD_IO_UNIT for _, spec in volumes)
    return [
        ceiling
        for ceiling in volume_ceilings(volumes, nitro=nitro)
        if not (one_limit and isinstance(ceiling.limit, Iops))
    ]


def _mixed_ceiling(
    shape: Envelope, volumes: Sequence[tuple[str, VolumeSpec]], *, nitro: bool
) -> list[Ceiling]:
    """Return the ceiling of unlike volumes together, if it is lower than the sums of their IOPS and throughput.

    If IOPS limit one volume and throughput limits another, the load reaches neither sum.
    """
    each = [volume_ceilings([volume], nitro=nitro) for volume in volumes]
    pairs = [pair for pair in each if pair]
    kinds = {min(pair, key=lambda one: shape.iops_of(one).per_second).quantity for pair in pairs}
    if len(kinds) < 2:
        return []
    together = sum(min(shape.throughput_of(one).bytes_per_second for one in pair) for pair in pairs)
    sums = volume_ceilings(volumes, nitro=nitro)[0]
    return [
        Ceiling(
            owner=sums.owner,
            quantity="volume IOPS and throughput together",
            scope=VOLUME,
            limit=Throughput(together),
            source=sums.source,
            date=sums.date,
            detail=sums.detail,
        )
    ]
