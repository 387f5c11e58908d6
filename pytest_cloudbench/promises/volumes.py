"""Volume specs, and the rules that EBS applies to them before it makes a volume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pytest_cloudbench.promises.ceilings import VOLUME, Ceiling
from pytest_cloudbench.promises.quantities import Iops, Rate, Size, Throughput, figure
from pytest_cloudbench.promises.volume_types import DATE, SOURCE, SSD_IO_UNIT, VOLUME_TYPES, VolumeType


@dataclass(frozen=True)
class RuleBroken:
    """One rule that a volume request breaks.

    ``code`` is the error code with which EC2 refuses it, ``message`` the sentence with value and rule,
    ``rule`` the rule alone; ``source`` and ``date`` say where the rule stands and when it was read.
    """

    code: str
    message: str
    rule: str
    source: str = SOURCE
    date: str = DATE

    def __str__(self) -> str:
        return self.message


class InvalidSpec(ValueError):
    """A volume spec against the rules of its type; ``problems`` holds every rule it breaks."""

    def __init__(self, spec: VolumeSpec, problems: Sequence[RuleBroken]) -> None:
        self.spec = spec
        self.problems = tuple(problems)
        super().__init__(f"{spec} cannot be made: " + "; ".join(problem.message for problem in problems))


@dataclass(frozen=True)
class VolumeSpec:
    """What a volume is asked to be, and what it then promises.

    Make one with `gp2`, `gp3`, `io1`, `io2`, `st1` or `sc1`. ``requested_iops`` and
    ``requested_throughput_mib`` (MiB/s) are what the request says, None where it leaves them out.
    ``iops`` and ``throughput_mib`` are the figures that hold for good, ``burst_iops`` and
    ``burst_throughput_mib`` those that hold while credits last (equal where the type does not burst).

    Making a spec raises TypeError for values of the wrong kind only; `problems` tells which rules it
    breaks and `check` raises them.
    """

    type: str
    size_gib: int
    requested_iops: int | None = None
    requested_throughput_mib: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.type, str):
            raise TypeError(f"a volume type is a name such as 'gp3', not {self.type!r}")
        if self.size_gib is None:
            raise TypeError(f"a {self.type} volume needs its size: {self.type}(size_gib=...)")
        name = self.type
        object.__setattr__(self, "size_gib", _whole(self.size_gib, name, "size_gib", "GiB"))
        for field, unit in (("requested_iops", "IOPS"), ("requested_throughput_mib", "MiB/s")):
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, _whole(value, name, field.removeprefix("requested_"), unit))

    @classmethod
    def of(
        cls, type: str, size_gib: int, iops: int | None = None, throughput_mib: float | None = None
    ) -> VolumeSpec:
        """A spec from plain values, as a marker or an API call names them."""
        return cls(type, size_gib, iops, throughput_mib)  # type: ignore[arg-type]  # checked there

    @property
    def iops(self) -> int | None:
        """The IOPS it promises for good; None only for an unknown type or missing provisioned IOPS."""
        figures = self._figures(burst=False)
        return figures[0] if figures else None

    @property
    def throughput_mib(self) -> float | None:
        """The throughput it promises for good, in MiB/s; None where `iops` is."""
        figures = self._figures(burst=False)
        return figures[1] if figures else None

    @property
    def burst_iops(self) -> int | None:
        """The IOPS while burst credits last."""
        figures = self._figures(burst=True)
        return figures[0] if figures else None

    @property
    def burst_throughput_mib(self) -> float | None:
        """The throughput while burst credits last, in MiB/s."""
        figures = self._figures(burst=True)
        return figures[1] if figures else None

    @property
    def size(self) -> Size:
        """The size as a quantity."""
        return Size.from_gib(self.size_gib)

    @property
    def io_unit(self) -> Size:
        """Up to how many bytes count as one I/O: 256 KiB on SSD types, 1 MiB on HDD types."""
        kind = VOLUME_TYPES.get(self.type)
        return kind.io_unit if kind else SSD_IO_UNIT

    def problems(self) -> list[RuleBroken]:
        """Every rule of its type that this spec breaks; empty for a spec that EBS accepts."""
        return volume_problems(self.type, self.size_gib, self.requested_iops, self.requested_throughput_mib)

    def check(self) -> VolumeSpec:
        """Itself, when it breaks no rule. Raises InvalidSpec with all sentences otherwise."""
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
        return "/".join(parts)

    def _figures(self, *, burst: bool) -> tuple[int, float] | None:
        kind = VOLUME_TYPES.get(self.type)
        if kind is None:
            return None
        iops = self.requested_iops if self.requested_iops is not None else kind.iops_default
        if iops is None and kind.takes_iops:
            return None
        held, throughput = (kind.burst if burst else kind.base)(self.size_gib, iops or 0)
        if kind.takes_throughput and self.requested_throughput_mib is not None:
            throughput = float(self.requested_throughput_mib)
        return held, throughput


def gp3(*, size_gib: int, iops: int | None = None, throughput_mib: int | None = None) -> VolumeSpec:
    """General purpose SSD: 3,000 IOPS and 125 MiB/s unless more is asked for.

    ``gp3(size_gib=100, iops=6_000, throughput_mib=250)``
    """
    return VolumeSpec("gp3", size_gib, iops, throughput_mib)


def gp2(*, size_gib: int) -> VolumeSpec:
    """General purpose SSD of the older kind: 3 IOPS per GiB, at least 100, bursting to 3,000."""
    return VolumeSpec("gp2", size_gib)


def io1(*, size_gib: int, iops: int) -> VolumeSpec:
    """Provisioned IOPS SSD of the older kind: up to 50 IOPS per GiB and 64,000."""
    return VolumeSpec("io1", size_gib, _required(iops, "io1"))


def io2(*, size_gib: int, iops: int) -> VolumeSpec:
    """Provisioned IOPS SSD (Block Express): up to 1,000 IOPS per GiB and 256,000.

    ``io2(size_gib=80, iops=80_000)``
    """
    return VolumeSpec("io2", size_gib, _required(iops, "io2"))


def st1(*, size_gib: int) -> VolumeSpec:
    """Throughput optimised HDD: 40 MiB/s per TiB, bursting to 250 per TiB, at most 500."""
    return VolumeSpec("st1", size_gib)


def sc1(*, size_gib: int) -> VolumeSpec:
    """Cold HDD: 12 MiB/s per TiB, bursting to 80 per TiB, at most 250."""
    return VolumeSpec("sc1", size_gib)


def volume_problems(
    type: str, size_gib: int | None, iops: int | None = None, throughput_mib: float | None = None
) -> list[RuleBroken]:
    """Every rule that a request for such a volume breaks, in the order in which EBS looks.

    ``size_gib`` in GiB, ``throughput_mib`` in MiB/s; None is a figure that the request leaves out.
    """
    kind = VOLUME_TYPES.get(type)
    if kind is None:
        near = get_close_matches(str(type), VOLUME_TYPES, n=1)
        rule = f"volume types are {', '.join(sorted(VOLUME_TYPES))}"
        hint = f"; did you mean {near[0]}?" if near else ""
        return [RuleBroken("UnknownVolumeType", f"{type!r} is not a volume type: {rule}{hint}", rule)]
    return [
        *_size_problems(kind, size_gib),
        *_iops_problems(kind, size_gib, iops),
        *_throughput_problems(kind, iops, throughput_mib),
    ]


def volume_ceilings(volumes: Sequence[tuple[str, VolumeSpec]]) -> tuple[Ceiling, ...]:
    """The IOPS and the throughput ceiling of volumes that carry one load together.

    Each volume comes as (its id or label, its spec). One volume gives its own two ceilings; several
    give the two sums, as a stripe or a load spread over them evenly sees them. A type that bursts
    counts with its burst figure, the lasting one is the ceiling's ``base``. Volumes whose figures are
    not known (an unknown type, missing provisioned IOPS) are left out.
    """
    known = [(label, spec) for label, spec in volumes if spec.iops is not None]
    if not known:
        return ()
    specs = [spec for _, spec in known]
    owner, detail = _owner(known)
    kind = VOLUME_TYPES[specs[0].type]

    def ceiling(quantity: str, limit: Rate, base: Rate) -> Ceiling:
        return Ceiling(
            owner=owner,
            quantity=quantity,
            scope=VOLUME,
            limit=limit,
            source=kind.source,
            date=kind.date,
            base=base if limit != base else None,
            detail=detail,
            note=f"while burst credits last, then {base}" if limit != base else "",
        )

    return (
        ceiling(
            "volume IOPS",
            Iops(sum(spec.burst_iops or 0 for spec in specs)),
            Iops(sum(spec.iops or 0 for spec in specs)),
        ),
        ceiling(
            "volume throughput",
            Throughput.from_mib(sum(spec.burst_throughput_mib or 0 for spec in specs)),
            Throughput.from_mib(sum(spec.throughput_mib or 0 for spec in specs)),
        ),
    )


def _owner(volumes: Sequence[tuple[str, VolumeSpec]]) -> tuple[str, str]:
    if len(volumes) == 1:
        label, spec = volumes[0]
        return (label if label.startswith(spec.type) else f"{spec.type} {label}".strip()), str(spec)
    types = sorted({spec.type for _, spec in volumes})
    texts = [str(spec) for _, spec in volumes]
    counted = [f"{texts.count(text)} x {text}" for text in dict.fromkeys(texts)]
    return f"{len(volumes)} {'/'.join(types)} volumes", " + ".join(counted)


def _size_problems(kind: VolumeType, size_gib: int | None) -> list[RuleBroken]:
    low, high = kind.size_range
    rule = f"{kind.name} volumes are {low:,} to {high:,} GiB"
    if size_gib is None:
        return [_broken(kind, "MissingParameter", "the request names no size", rule)]
    if size_gib < low:
        return [_broken(kind, "InvalidParameterValue", f"a size of {size_gib:,} GiB is too small", rule)]
    if size_gib > high:
        return [_broken(kind, "InvalidParameterValue", f"a size of {size_gib:,} GiB is too large", rule)]
    return []


def _iops_problems(kind: VolumeType, size_gib: int | None, iops: int | None) -> list[RuleBroken]:
    if kind.iops_range is None:
        if iops is None:
            return []
        rule = f"{kind.name} volumes take no IOPS figure: it follows from the size"
        return [_broken(kind, "InvalidParameterCombination", f"{iops:,} IOPS were asked for", rule)]
    low, high = kind.iops_range
    rule = f"{kind.name} volumes take {low:,} to {high:,} IOPS"
    if iops is None:
        if kind.iops_default is not None:
            return []
        return [_broken(kind, "MissingParameter", "the request names no IOPS", rule)]
    if iops < low:
        return [_broken(kind, "InvalidParameterValue", f"{iops:,} IOPS are too few", rule)]
    found = []
    if iops > high:
        found.append(_broken(kind, "InvalidParameterValue", f"{iops:,} IOPS are too many", rule))
    if size_gib is not None and size_gib > 0 and kind.iops_per_gib is not None:
        most = max(kind.iops_free_of_ratio, kind.iops_per_gib * size_gib)
        if iops > most:
            per_gib = f"{kind.name} volumes take at most {kind.iops_per_gib:,} IOPS per GiB"
            what = f"{iops:,} IOPS on {size_gib:,} GiB are {figure(iops / size_gib)} per GiB"
            found.append(_broken(kind, "InvalidParameterValue", what, f"{per_gib}, here {most:,}"))
    return found


def _throughput_problems(
    kind: VolumeType, iops: int | None, throughput_mib: float | None
) -> list[RuleBroken]:
    if throughput_mib is None:
        return []
    asked = f"{figure(throughput_mib)} MiB/s"
    if kind.throughput_range is None:
        rule = "only gp3 volumes take a throughput figure"
        return [_broken(kind, "InvalidParameterCombination", f"{asked} were asked for of {kind.name}", rule)]
    low, high = kind.throughput_range
    rule = f"{kind.name} volumes take {low:,} to {high:,} MiB/s"
    if throughput_mib < low:
        return [_broken(kind, "InvalidParameterValue", f"{asked} are too few", rule)]
    found = []
    if throughput_mib > high:
        found.append(_broken(kind, "InvalidParameterValue", f"{asked} are too many", rule))
    effective = iops if iops is not None else kind.iops_default
    if kind.throughput_per_iops is not None and effective is not None and effective > 0:
        most = kind.throughput_per_iops * effective
        if throughput_mib > most:
            rule = (
                f"{kind.name} volumes take at most {kind.throughput_per_iops} MiB/s per IOPS, "
                f"here {figure(most)} MiB/s"
            )
            what = f"{asked} with {effective:,} IOPS are {throughput_mib / effective:.3f} per IOPS"
            found.append(_broken(kind, "InvalidParameterValue", what, rule))
    return found


def _broken(kind: VolumeType, code: str, what: str, rule: str) -> RuleBroken:
    return RuleBroken(code, f"{what}: {rule}", rule, kind.source, kind.date)


def _required(iops: int, name: str) -> int:
    if iops is None:
        raise TypeError(f"an {name} volume needs its IOPS: {name}(size_gib=..., iops=...)")
    return iops


def _whole(value: object, name: str, field: str, unit: str) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole and not (isinstance(value, float) and value.is_integer()):
        raise TypeError(f"{field} of a {name} volume is a whole number of {unit}, not {value!r}")
    return int(value)  # type: ignore[call-overload,no-any-return]  # a number, as just seen
