"""Volume specs: what a volume is requested to be, and what it then promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_cloudbench.limits.argument_names import named_arguments
from pytest_cloudbench.limits.ceilings import VOLUME, Ceiling
from pytest_cloudbench.limits.credits import CreditRule, volume_credits
from pytest_cloudbench.limits.quantities import KIB, Iops, Rate, Size, Throughput, figure
from pytest_cloudbench.limits.volume_rules import RuleBroken, volume_problems
from pytest_cloudbench.limits.volume_types import SSD_IO_UNIT, VOLUME_TYPES

# Tags of this project, which AWS ignores: EBS has only the units of its volume types, its new volumes are at full speed
# at once, and large writes have the rate of all others.
IO_UNIT_TAG = "cloudbench:io-unit"
FIRST_TOUCH_TAG = "cloudbench:first-touch"
LARGE_WRITES_TAG = "cloudbench:large-writes"
LARGE_WRITE = Size(64 * KIB)
"""Writes above this size are the large ones."""

MOST_IOPS_BEFORE_NITRO = 32_000
"""The most IOPS of one volume on an instance that is not built on Nitro. Sources: Amazon EBS User Guide, "Provisioned
IOPS SSD volumes", 2026-11; EC2 API Reference, EbsBlockDevice."""

_OF_HDD = "the rates of st1 and sc1 follow from the size; gp3, io1 and io2 take others"


class InvalidSpec(ValueError):
    """A volume spec breaks rules of its type; ``problems`` has all of them."""

    def __init__(self, spec: VolumeSpec, problems: Sequence[RuleBroken]) -> None:
        self.spec = spec
        self.problems = tuple(problems)
        super().__init__(f"invalid volume {spec}: " + "; ".join(problem.message for problem in problems))


@dataclass(frozen=True)
class VolumeSpec:
    """What a volume is requested to be, and what it then promises.

    Make one with `gp2`, `gp3`, `io1`, `io2`, `st1` or `sc1`, or with `of` for any other type. ``requested_iops`` and
    ``requested_throughput_mib`` (MiB/s) are None if the request leaves them out. ``iops`` and ``throughput_mib`` hold
    for good, ``burst_iops`` and ``burst_throughput_mib`` while credits last (the same if the type does not burst).
    ``counted_in`` is an I/O unit other than the type's own. ``first_touch`` is the share of the rate that blocks
    deliver when they are first used. ``large_writes`` is the share that writes above 64 KiB get, a weakness planted for
    tests and not in the promised figures. Only an embedded region applies these three.

    Making a spec raises TypeError for values of the wrong type; `problems` returns the rules that it breaks, and
    `check` raises them.
    """

    type: str
    size_gib: int
    requested_iops: int | None = None
    requested_throughput_mib: int | None = None
    counted_in: Size | None = None
    first_touch: float | None = None
    large_writes: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.type, str):
            raise TypeError(f"expected a volume type such as 'gp3', got {self.type!r}")
        if self.size_gib is None:
            raise TypeError(f"a {self.type} volume needs its size: {self.type}(size_gib=...)")
        name = self.type
        object.__setattr__(self, "size_gib", _whole(self.size_gib, name, "size_gib", "GiB"))
        for field, unit in (("requested_iops", "IOPS"), ("requested_throughput_mib", "MiB/s")):
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, _whole(value, name, field.removeprefix("requested_"), unit))
        if self.counted_in is not None:
            object.__setattr__(self, "counted_in", _io_unit(self.counted_in, name))
        for field in ("first_touch", "large_writes"):
            if (value := getattr(self, field)) is not None:
                object.__setattr__(self, field, _share(field, value, name))

    @classmethod
    def of(
        cls,
        type: str,
        size_gib: int,
        iops: int | None = None,
        throughput_mib: float | None = None,
        io_unit: str | int | Size | None = None,
        *,
        first_touch: float | None = None,
        large_writes: float | None = None,
    ) -> VolumeSpec:
        """Make a spec from plain values: ``VolumeSpec.of("gp3", size_gib=100, iops=6_000)``."""
        return cls(type, size_gib, iops, throughput_mib, io_unit, first_touch, large_writes)  # type: ignore[arg-type]  # checked

    @property
    def iops(self) -> int | None:
        """The IOPS it promises for good; None for an unknown type and for missing provisioned IOPS."""
        return self._figures(burst=False)[0]

    @property
    def throughput_mib(self) -> float | None:
        """The throughput it promises for good, in MiB/s; None if `iops` is None."""
        return self._figures(burst=False)[1]

    @property
    def burst_iops(self) -> int | None:
        """The IOPS while burst credits last."""
        return self._figures(burst=True)[0]

    @property
    def burst_throughput_mib(self) -> float | None:
        """The throughput while burst credits last, in MiB/s."""
        return self._figures(burst=True)[1]

    def io_rate(self, *, burst: bool) -> Iops | None:
        """Return `iops` or `burst_iops` unrounded: those of an HDD volume follow from its throughput."""
        iops, throughput_mib = self._figures(burst=burst)
        if iops is None or throughput_mib is None:
            return None
        if VOLUME_TYPES[self.type].is_hdd:
            return Throughput.from_mib(throughput_mib).in_ios_of(self.io_unit)
        return Iops(iops)

    def served(self, *, nitro: bool) -> VolumeSpec:
        """Return the spec that an instance can use: without Nitro at most 32,000 IOPS and the throughput they allow."""
        if nitro or (self.requested_iops or 0) <= MOST_IOPS_BEFORE_NITRO:
            return self
        return replace(self, requested_iops=MOST_IOPS_BEFORE_NITRO)

    @property
    def test_id(self) -> str:
        """Its name in the id of a parametrized test, for ``-k``: "io2-100GiB-5000iops"."""
        parts = [self.type, f"{self.size_gib}GiB"]
        if self.requested_iops is not None:
            parts.append(f"{self.requested_iops}iops")
        if self.requested_throughput_mib is not None:
            parts.append(f"{self.requested_throughput_mib}MiBps")
        if self.counted_in is not None:
            parts.append(f"{figure(self.counted_in.kib)}KiBunit")
        if self.first_touch is not None:
            parts.append(f"touch{figure(100 * self.first_touch)}")
        if self.large_writes is not None:
            parts.append(f"large{figure(100 * self.large_writes)}")
        return "-".join(parts)

    @property
    def credits(self) -> CreditRule | None:
        """Its burst credits: how long a full bucket lasts, and what remains; None if it does not burst."""
        return volume_credits(self)

    @property
    def size(self) -> Size:
        """The size as a quantity."""
        return Size.from_gib(self.size_gib)

    @property
    def io_unit(self) -> Size:
        """The bytes that count as one I/O: 256 KiB on SSD types, 1 MiB on HDD types, unless requested otherwise."""
        kind = VOLUME_TYPES.get(self.type)
        return self.counted_in or (kind.io_unit if kind else SSD_IO_UNIT)

    @property
    def merging(self) -> bool:
        """True if small sequential I/O may be merged before it is counted; False for a requested unit.

        EBS began to merge when it began to count in units of 256 KiB; a requested unit models the time before.
        """
        return self.counted_in is None

    @property
    def tags(self) -> dict[str, str]:
        """The tags for an embedded region, with what CreateVolume has no parameter for."""
        tags = {}
        if self.counted_in is not None:
            tags[IO_UNIT_TAG] = f"{figure(self.counted_in.kib)}k"
        if self.first_touch is not None:
            tags[FIRST_TOUCH_TAG] = f"{self.first_touch!r}"
        if self.large_writes is not None:
            tags[LARGE_WRITES_TAG] = f"{self.large_writes!r}"
        return tags

    def problems(self) -> list[RuleBroken]:
        """Return every rule of its type that this spec breaks; none if EBS accepts it."""
        return volume_problems(
            self.type,
            self.size_gib,
            self.requested_iops,
            self.requested_throughput_mib,
            self.counted_in,
            first_touch=self.first_touch,
            large_writes=self.large_writes,
        )

    def check(self) -> VolumeSpec:
        """Return the spec itself. Raises InvalidSpec with every rule that it breaks."""
        if problems := self.problems():
            raise InvalidSpec(self, problems)
        return self

    def __str__(self) -> str:
        kind = VOLUME_TYPES.get(self.type)
        parts = [f"{self.type} {self.size_gib:,} GiB"]
        iops, throughput = self.iops, self.throughput_mib
        if iops is not None and not (kind and kind.is_hdd):
            parts.append(f"{iops:,} IOPS")
        if throughput is not None and kind and (kind.takes_throughput or kind.is_hdd):
            parts.append(f"{figure(throughput)} MiB/s")
        if self.counted_in is not None:
            parts.append(f"counted in {self.counted_in}")
        if self.first_touch is not None:
            parts.append(f"first touch at {figure(100 * self.first_touch)} %")
        if self.large_writes is not None:
            parts.append(f"writes above {LARGE_WRITE} at {figure(100 * self.large_writes)} %")
        return "/".join(parts)

    def _figures(self, *, burst: bool) -> tuple[int, float] | tuple[None, None]:
        kind = VOLUME_TYPES.get(self.type)
        if kind is None:
            return None, None
        iops = self.requested_iops if self.requested_iops is not None else kind.iops_default
        if iops is None and kind.takes_iops:
            return None, None
        held, throughput = kind.figures(self.size_gib, iops or 0, burst=burst)
        if kind.takes_throughput and self.requested_throughput_mib is not None:
            throughput = float(self.requested_throughput_mib)
        return held, throughput


@named_arguments()
def gp3(
    *,
    size_gib: int,
    iops: int | None = None,
    throughput_mib: int | None = None,
    io_unit: str | None = None,
    first_touch: float | None = None,
) -> VolumeSpec:
    """Describe a General Purpose SSD volume: 3,000 IOPS and 125 MiB/s, or more if requested.

    ``gp3(size_gib=100, iops=6_000, throughput_mib=250)``. ``io_unit`` and ``first_touch`` are those of `io1`.
    """
    return VolumeSpec.of("gp3", size_gib, iops, throughput_mib, io_unit, first_touch=first_touch)


@named_arguments(
    iops="the IOPS of gp2 follow from its size; gp3, io1 and io2 take iops=",
    throughput_mib="the throughput of gp2 follows from its size; gp3 takes throughput_mib=",
)
def gp2(*, size_gib: int, io_unit: str | None = None, first_touch: float | None = None) -> VolumeSpec:
    """Describe an older General Purpose SSD volume: 3 IOPS per GiB, at least 100, bursting to 3,000.

    ``io_unit`` and ``first_touch`` are those of `io1`.
    """
    return VolumeSpec.of("gp2", size_gib, io_unit=io_unit, first_touch=first_touch)


@named_arguments()
def io1(
    *, size_gib: int, iops: int, io_unit: str | None = None, first_touch: float | None = None
) -> VolumeSpec:
    """Describe an older Provisioned IOPS SSD volume: up to 50 IOPS per GiB, at most 64,000.

    With ``io_unit="16k"`` an embedded region counts an I/O of more than 16 KiB as several and merges none, as EBS did
    in 2012. With ``first_touch=0.5`` it delivers half of the IOPS and throughput for blocks that were never read or
    written, as uninitialised volumes once did. AWS ignores both.
    """
    return VolumeSpec.of("io1", size_gib, _required(iops, "io1"), io_unit=io_unit, first_touch=first_touch)


@named_arguments()
def io2(
    *, size_gib: int, iops: int, io_unit: str | None = None, first_touch: float | None = None
) -> VolumeSpec:
    """Describe a Provisioned IOPS SSD volume (Block Express): up to 1,000 IOPS per GiB, at most 256,000.

    ``io2(size_gib=80, iops=80_000)``. ``io_unit`` and ``first_touch`` are those of `io1`.
    """
    return VolumeSpec.of("io2", size_gib, _required(iops, "io2"), io_unit=io_unit, first_touch=first_touch)


@named_arguments(iops=_OF_HDD, throughput_mib=_OF_HDD)
def st1(*, size_gib: int) -> VolumeSpec:
    """Describe a Throughput Optimized HDD volume: 40 MiB/s per TiB, bursting to 250 per TiB, at most 500."""
    return VolumeSpec("st1", size_gib)


@named_arguments(iops=_OF_HDD, throughput_mib=_OF_HDD)
def sc1(*, size_gib: int) -> VolumeSpec:
    """Describe a Cold HDD volume: 12 MiB/s per TiB, bursting to 80 per TiB, at most 250."""
    return VolumeSpec("sc1", size_gib)


def volume_ceilings(volumes: Sequence[tuple[str, VolumeSpec]], *, nitro: bool = True) -> tuple[Ceiling, ...]:
    """Return the IOPS and the throughput ceiling of volumes that carry one load together.

    Each volume is (its id or label, its spec). The ceilings of several volumes are sums, as for a stripe or a load
    spread evenly. A type that bursts counts with its burst figure; the lasting one is the ceiling's ``base``. Volumes
    without figures (an unknown type, missing provisioned IOPS) are left out. ``nitro`` is False for volumes of an
    instance that is not built on Nitro.
    """
    known = [(label, spec) for label, spec in volumes if spec.iops is not None]
    if not known:
        return ()
    specs = [spec.served(nitro=nitro) for _, spec in known]
    owner, detail = _owner(known)
    kind = VOLUME_TYPES[specs[0].type]
    held = any(spec is not own for spec, (_, own) in zip(specs, known, strict=True))

    def ceiling(quantity: str, limit: Rate, base: Rate) -> Ceiling:
        notes = [f"while burst credits last, then {base}"] if limit != base else []
        if held:
            notes.append(
                f"at most {MOST_IOPS_BEFORE_NITRO:,} IOPS a volume: the instance is not built on Nitro"
            )
        return Ceiling(
            owner=owner,
            quantity=quantity,
            scope=VOLUME,
            limit=limit,
            source=kind.source,
            date=kind.date,
            base=base if limit != base else None,
            detail=detail,
            note="; ".join(notes),
            burst_credits=_credits_of(specs, limit) if limit != base else None,
        )

    return (
        ceiling(
            "volume IOPS",
            sum((spec.io_rate(burst=True) or Iops(0) for spec in specs), Iops(0)),
            sum((spec.io_rate(burst=False) or Iops(0) for spec in specs), Iops(0)),
        ),
        ceiling(
            "volume throughput",
            Throughput.from_mib(sum(spec.burst_throughput_mib or 0 for spec in specs)),
            Throughput.from_mib(sum(spec.throughput_mib or 0 for spec in specs)),
        ),
    )


def _credits_of(specs: Sequence[VolumeSpec], like: Rate) -> float | None:
    """Return the capacity of all buckets together, in I/Os or bytes as ``like``; None if unknown."""
    total = 0.0
    for spec in specs:
        rule = spec.credits
        if rule is None:
            return None
        if isinstance(rule.peak, type(like)):
            total += rule.capacity
        elif isinstance(rule.peak, Throughput):
            total += rule.capacity / spec.io_unit.bytes  # each I/O of an HDD takes a whole unit
        else:
            return None
    return total


def _owner(volumes: Sequence[tuple[str, VolumeSpec]]) -> tuple[str, str]:
    if len(volumes) == 1:
        label, spec = volumes[0]
        return (label if label.startswith(spec.type) else f"{spec.type} {label}".strip()), str(spec)
    types = sorted({spec.type for _, spec in volumes})
    texts = [str(spec) for _, spec in volumes]
    counted = [f"{texts.count(text)} x {text}" for text in dict.fromkeys(texts)]
    return f"{len(volumes)} {'/'.join(types)} volumes", " + ".join(counted)


def _required(iops: int, name: str) -> int:
    if iops is None:
        raise TypeError(f"an {name} volume needs its IOPS: {name}(size_gib=..., iops=...)")
    return iops


def _io_unit(value: object, name: str) -> Size:
    try:
        return Size.parse(value)  # type: ignore[arg-type]  # checked there
    except (TypeError, ValueError) as error:
        raise TypeError(f"invalid io_unit of {name}: {error}") from None


def _share(field: str, value: object, name: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise TypeError(f"invalid {field} of {name}: expected a share of its rate such as 0.5, got {value!r}")


def _whole(value: object, name: str, field: str, unit: str) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole and not (isinstance(value, float) and value.is_integer()):
        raise TypeError(f"invalid {field} of {name}: expected a whole number of {unit}, got {value!r}")
    return int(value)  # type: ignore[call-overload,no-any-return]  # a number, as just checked
