"""Rates and sizes that carry their unit, so that MB/s and MiB/s are never mixed up as bare numbers.

Quantities are immutable. Two of the same kind add, subtract, compare and divide (to a plain ratio); an `Iops` and a
`Throughput` do not. A value whose name states its unit compares with plain numbers: ``run.iops``, a float, and
``curve.knee.iops``, an `Iops`, both compare with 60_000. A `Throughput` has no unit of its own, so it does not: compare
its ``.mib``, ``.mb``, ``.mbit`` or ``.gbit``. Times are plain floats in seconds whose name ends in ``_s``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import total_ordering
from typing import TYPE_CHECKING, TypeGuard, overload

from pytest_cloudbench.limits.numbers import parse_count, parse_number, split_quantity

if TYPE_CHECKING:
    from typing_extensions import Self

KIB = 1024
MIB = 1024**2
GIB = 1024**3
TIB = 1024**4

_BYTES_PER_SECOND = {
    "B/s": 1.0,
    "kB/s": 1e3,
    "mB/s": 1e6,
    "gB/s": 1e9,
    "kiB/s": float(KIB),
    "miB/s": float(MIB),
    "giB/s": float(GIB),
    "bit/s": 1 / 8,
    "kbit/s": 1e3 / 8,
    "mbit/s": 1e6 / 8,
    "gbit/s": 1e9 / 8,
}
"""By unit, in lower case except the B of bytes."""
_SPELLINGS = {
    **{f"{prefix}Bps": f"{prefix}B/s" for prefix in ("", "k", "m", "g", "ki", "mi", "gi")},
    **{f"{prefix}bps": f"{prefix}bit/s" for prefix in ("", "k", "m", "g")},
    **{f"{prefix}bits/s": f"{prefix}bit/s" for prefix in ("k", "m", "g")},
    "megabit": "mbit/s",
    "gigabit": "gbit/s",
}
_BITS_OR_BYTES = frozenset(
    {"b/s", "kb/s", "mb/s", "gb/s", "kib/s", "mib/s", "gib/s", "kibps", "mibps", "gibps"}
)
_IOPS_WORDS = frozenset({"iops", "io/s", "ios/s", "i/o/s"})
RATE_UNITS = "IOPS, MiB/s, MB/s, GiB/s, GB/s, KiB/s, kB/s, Mbps, Mbit/s or Gbit/s"

_SIZE_UNITS = {
    **dict.fromkeys(("", "b", "B"), 1),
    **dict.fromkeys(("k", "kib", "kiB"), KIB),
    **dict.fromkeys(("m", "mib", "miB"), MIB),
    **dict.fromkeys(("g", "gib", "giB"), GIB),
    **dict.fromkeys(("t", "tib", "tiB"), TIB),
    "kB": 1000,
    "mB": 1000**2,
    "gB": 1000**3,
    "tB": 1000**4,
}
_SIZE_HINT = "write '4k', '256k', '500m' or '20g' (KiB, MiB, GiB), or a number of bytes"


def _checked_number(value: object, owner: str, unit: str) -> float:
    if not _is_number(value):
        raise TypeError(f"{owner} takes a number of {unit}, not {value!r} ({type(value).__name__})")
    return float(value)


def figure(value: float, decimals: int = 2) -> str:
    """Format a number for people, with thousands separators and no trailing zeros: ``2264.980`` is "2,264.98".

    A figure too small for ``decimals`` keeps three significant digits, so that only zero is shown as zero.
    """
    if not math.isfinite(value):
        return str(value)
    if 0 < abs(value) < 10**-decimals:
        return f"{value:.3g}"
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@total_ordering
@dataclass(frozen=True, eq=False)
class Iops:
    """I/O operations per second. Compares with plain numbers, which then mean IOPS; ``float()`` returns the figure."""

    per_second: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "per_second", _checked_number(self.per_second, "Iops", "I/Os per second"))

    def __str__(self) -> str:
        return f"{self.number} IOPS"

    def __float__(self) -> float:
        return self.per_second

    def __hash__(self) -> int:
        return hash(self.per_second)

    def __eq__(self, other: object) -> bool:
        return bool(self.per_second == (other.per_second if isinstance(other, Iops) else other))

    def __lt__(self, other: Iops | float) -> bool:
        if isinstance(other, Iops):
            return self.per_second < other.per_second
        return self.per_second < other if _is_number(other) else NotImplemented

    @property
    def number(self) -> str:
        """The figure without its unit; from 100 on without decimals: "80,000"."""
        return figure(self.per_second, 0 if abs(self.per_second) >= 100 else 1)

    def at(self, block_size: Size) -> Throughput:
        """Return the throughput of this many I/Os of ``block_size`` per second."""
        return Throughput(self.per_second * block_size.bytes)

    def __add__(self, other: Iops) -> Iops:
        return Iops(self.per_second + other.per_second) if isinstance(other, Iops) else NotImplemented

    def __sub__(self, other: Iops) -> Iops:
        return Iops(self.per_second - other.per_second) if isinstance(other, Iops) else NotImplemented

    def __mul__(self, factor: float) -> Iops:
        return Iops(self.per_second * factor) if _is_number(factor) else NotImplemented

    __rmul__ = __mul__

    @overload
    def __truediv__(self, other: Iops) -> float: ...
    @overload
    def __truediv__(self, other: float) -> Iops: ...
    def __truediv__(self, other: Iops | float) -> Iops | float:
        if isinstance(other, Iops):
            return self.per_second / other.per_second
        return Iops(self.per_second / other) if _is_number(other) else NotImplemented


@total_ordering
@dataclass(frozen=True, eq=False)
class Throughput:
    """Bytes per second, shown in MiB/s.

    Make one with ``from_mib``, ``from_mb``, ``from_mbit`` or ``from_gbit``; read it with ``mib``, ``mb``, ``mbit`` or
    ``gbit``.
    """

    bytes_per_second: float

    def __post_init__(self) -> None:
        value = _checked_number(self.bytes_per_second, type(self).__name__, "bytes per second")
        object.__setattr__(self, "bytes_per_second", value)

    @classmethod
    def from_mib(cls, mib_per_second: float) -> Self:
        """Make a throughput from MiB/s (1,048,576 bytes), the unit of EBS volumes."""
        return cls(mib_per_second * MIB)

    @classmethod
    def from_mb(cls, mb_per_second: float) -> Self:
        """Make a throughput from MB/s (1,000,000 bytes), the unit of an instance's EBS limits."""
        return cls(mb_per_second * 1e6)

    @classmethod
    def from_mbit(cls, mbit_per_second: float) -> Self:
        """Make a throughput from Mbit/s ("Mbps")."""
        return cls(mbit_per_second * 1e6 / 8)

    @classmethod
    def from_gbit(cls, gbit_per_second: float) -> Self:
        """Make a throughput from Gbit/s, the unit of networks."""
        return cls(gbit_per_second * 1e9 / 8)

    @property
    def mib(self) -> float:
        """In MiB/s."""
        return self.bytes_per_second / MIB

    @property
    def mb(self) -> float:
        """In MB/s."""
        return self.bytes_per_second / 1e6

    @property
    def mbit(self) -> float:
        """In Mbit/s."""
        return self.bytes_per_second * 8 / 1e6

    @property
    def gbit(self) -> float:
        """In Gbit/s."""
        return self.bytes_per_second * 8 / 1e9

    def __str__(self) -> str:
        return f"{self.number} {self.unit}"

    @property
    def unit(self) -> str:
        """The unit of `number`."""
        return "MiB/s"

    @property
    def number(self) -> str:
        """The figure in `unit`, without the unit: "2,264.98"."""
        return self.showing(self.bytes_per_second)

    def beside(self, other: Throughput) -> str:
        """Format this figure in the unit of ``other``, without the unit."""
        return other.showing(self.bytes_per_second)

    def showing(self, bytes_per_second: float) -> str:
        """Format another figure in this one's unit, without the unit."""
        return figure(bytes_per_second / MIB)

    def in_ios_of(self, block_size: Size) -> Iops:
        """Return this throughput as I/Os of ``block_size`` per second."""
        return Iops(self.bytes_per_second / block_size.bytes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Throughput):
            return NotImplemented
        return self.bytes_per_second == other.bytes_per_second

    def __hash__(self) -> int:
        return hash(("bytes per second", self.bytes_per_second))

    def __lt__(self, other: Throughput) -> bool:
        if _is_number(other):
            raise TypeError(f"{self} does not compare with a number: compare its .mib, .mb, .mbit or .gbit")
        if not isinstance(other, Throughput):
            return NotImplemented
        return self.bytes_per_second < other.bytes_per_second

    def __add__(self, other: Throughput) -> Self:
        if not isinstance(other, Throughput):
            return NotImplemented
        return type(self)(self.bytes_per_second + other.bytes_per_second)

    def __sub__(self, other: Throughput) -> Self:
        if not isinstance(other, Throughput):
            return NotImplemented
        return type(self)(self.bytes_per_second - other.bytes_per_second)

    def __mul__(self, factor: float) -> Self:
        return type(self)(self.bytes_per_second * factor) if _is_number(factor) else NotImplemented

    __rmul__ = __mul__

    @overload
    def __truediv__(self, other: Throughput) -> float: ...
    @overload
    def __truediv__(self, other: float) -> Self: ...
    def __truediv__(self, other: Throughput | float) -> Self | float:
        if isinstance(other, Throughput):
            return self.bytes_per_second / other.bytes_per_second
        return type(self)(self.bytes_per_second / other) if _is_number(other) else NotImplemented


class Bandwidth(Throughput):
    """A throughput shown in the units of networks: "4.97 Gbit/s", below 1 Gbit/s "450 Mbit/s".

    It is the same quantity as `Throughput`: the two compare, add and divide, and a sum or difference has the class of
    the left operand.
    """

    @classmethod
    def of(cls, throughput: Throughput) -> Bandwidth:
        """Return a throughput as a bandwidth."""
        return cls(throughput.bytes_per_second)

    @property
    def unit(self) -> str:
        """ "Gbit/s", or "Mbit/s" below 1 Gbit/s."""
        # From 999.95 on, one decimal would round to "1,000 Mbit/s".
        return "Gbit/s" if abs(self.mbit) >= 999.95 else "Mbit/s"

    def showing(self, bytes_per_second: float) -> str:
        """Format another figure in this one's unit, without the unit."""
        mbit = bytes_per_second * 8 / 1e6
        if self.unit == "Gbit/s":
            return figure(mbit / 1e3)
        return figure(mbit, 1) if abs(mbit) >= 1 else f"{mbit:.3g}"

    def __repr__(self) -> str:
        return f"Bandwidth(bytes_per_second={self.bytes_per_second!r})"


Rate = Iops | Throughput


def plain(rate: Rate) -> float:
    """Return the bare figure of a rate, in I/Os or bytes per second."""
    return rate.per_second if isinstance(rate, Iops) else rate.bytes_per_second


@dataclass(frozen=True, order=True)
class Size:
    """A number of bytes: of a block, a file, a volume."""

    bytes: int

    def __post_init__(self) -> None:
        if isinstance(self.bytes, bool) or not isinstance(self.bytes, int):
            raise TypeError(
                f"Size takes a whole number of bytes, not {self.bytes!r}: use Size.parse('4k') for a text"
            )

    @classmethod
    def from_mib(cls, mib: float) -> Size:
        """Make a size from MiB, rounded to whole bytes."""
        return cls(round(mib * MIB))

    @classmethod
    def from_gib(cls, gib: float) -> Size:
        """Make a size from GiB, rounded to whole bytes."""
        return cls(round(gib * GIB))

    @classmethod
    def parse(cls, text: str | int | Size) -> Size:
        """Parse a size as fio does: "4k" is 4 KiB, "500m" is 500 MiB, "20g" is 20 GiB, a bare number is bytes.

        "4 KiB", "4 kB" (4,000 bytes) and "1.5g" are valid too. "4 KB" is refused, as fio reads it as 4 KiB, and so is
        "500.000", which may mean 500,000 bytes.

        Raises ValueError for any other text, TypeError for a value that is neither a text nor a whole number.
        """
        if isinstance(text, Size):
            return text
        if isinstance(text, int) and not isinstance(text, bool):
            return cls(text)
        if not isinstance(text, str):
            raise TypeError(f"expected a size such as '4k' or a whole number of bytes, got {text!r}")
        parts = split_quantity(text)
        if parts is None:
            raise ValueError(f"invalid size {text!r}: {_SIZE_HINT}")
        unit = _size_unit(text, parts[1])
        try:
            number = parse_count(parts[0]) if unit == 1 else parse_number(parts[0])
        except ValueError as error:
            raise ValueError(f"invalid size {text!r}: {error}") from None
        size = number * unit
        if size < 0:
            raise ValueError(f"invalid size {text!r}: it must be at least 0")
        if unit == 1 and size != round(size):
            raise ValueError(f"invalid size {text!r}: bytes are a whole number; write '4k' for 4 KiB")
        return cls(round(size))

    @property
    def kib(self) -> float:
        """In KiB."""
        return self.bytes / KIB

    @property
    def mib(self) -> float:
        """In MiB."""
        return self.bytes / MIB

    @property
    def gib(self) -> float:
        """In GiB."""
        return self.bytes / GIB

    @property
    def gb(self) -> float:
        """In GB (1,000,000,000 bytes)."""
        return self.bytes / 1e9

    def __str__(self) -> str:
        for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
            if abs(self.bytes) >= unit and (self.bytes % unit == 0 or abs(self.bytes) >= 100 * unit):
                return f"{figure(self.bytes / unit)} {name}"
        return f"{self.bytes:,} B"

    def __add__(self, other: Size) -> Size:
        return Size(self.bytes + other.bytes) if isinstance(other, Size) else NotImplemented

    def __sub__(self, other: Size) -> Size:
        return Size(self.bytes - other.bytes) if isinstance(other, Size) else NotImplemented

    def __mul__(self, factor: float) -> Size:
        return Size(round(self.bytes * factor)) if _is_number(factor) else NotImplemented

    __rmul__ = __mul__

    @overload
    def __truediv__(self, other: Size) -> float: ...
    @overload
    def __truediv__(self, other: float) -> Size: ...
    def __truediv__(self, other: Size | float) -> Size | float:
        if isinstance(other, Size):
            return self.bytes / other.bytes
        return Size(round(self.bytes / other)) if _is_number(other) else NotImplemented


def parse_rate(text: str) -> Rate:
    """Parse a rate with its unit: "80,000 IOPS", "2,375 MB/s", "2 GiB/s", "19,000 Mbps", "5 Gbit/s".

    "Mbps" and "Gbps" are bits, as AWS writes them, "MBps" and "MiBps" bytes. Case matters only for the b of bits and
    the B of bytes: "Gb/s" is refused, as people use it for both.

    Raises ValueError for a number not in English notation and for a missing, unknown or ambiguous unit, TypeError for a
    value that is not a text.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected a rate with its unit such as '3,000 IOPS' or '125 MiB/s', got {text!r}")
    parts = split_quantity(text)
    if parts is None:
        raise ValueError(f"invalid rate {text!r}: write a number and its unit ({RATE_UNITS})")
    number, unit = parts
    if not unit:
        raise ValueError(f"the rate {text!r} has no unit: add one of {RATE_UNITS}")
    of_iops = unit.lower() in _IOPS_WORDS
    factor = 1.0 if of_iops else _bytes_per_second(text, unit)
    try:
        value = float(parse_count(number) if of_iops else parse_number(number))
    except ValueError as error:
        raise ValueError(f"invalid rate {text!r}: {error}") from None
    if value < 0 or not math.isfinite(value):
        raise ValueError(f"invalid rate {text!r}: it must be a finite number, at least 0")
    return Iops(value) if of_iops else Throughput(value * factor)


def _bytes_per_second(text: str, unit: str) -> float:
    spelt = _small(unit)
    if spelt in _BITS_OR_BYTES or unit in ("BPS", "KBPS", "MBPS", "GBPS"):
        prefix = {"k": "k", "m": "M", "g": "G"}.get(spelt[0], "")
        binary = "i" if "i" in spelt else ""
        raise ValueError(
            f"the rate {text!r} may mean bits or bytes: write {prefix}bit/s for bits, {prefix}{binary}B/s for bytes"
        )
    factor = _BYTES_PER_SECOND.get(_SPELLINGS.get(spelt, spelt))
    if factor is None:
        raise ValueError(f"the rate {text!r} has an unknown unit {unit!r}: use one of {RATE_UNITS}")
    return factor


def _size_unit(text: str, unit: str) -> int:
    spelt = _small(unit)
    if unit == "KB" or spelt in ("kb", "mb", "gb", "tb"):
        prefix = spelt[0] if spelt[0] == "k" else spelt[0].upper()
        raise ValueError(
            f"the size {text!r} may mean powers of 1,000 or, as to fio, of 1,024: "
            f"write {prefix.upper()}iB for 1,024, {prefix}B for 1,000"
        )
    factor = _SIZE_UNITS.get(spelt)
    if factor is None:
        raise ValueError(f"invalid size {text!r}: {_SIZE_HINT}")
    return factor


def _small(unit: str) -> str:
    """Return a unit in lower case except the B of bytes; all in lower case if it spells out "bit"."""
    lower = unit.lower()
    return lower if "bit" in lower else lower.replace("b", "B") if "B" in unit else lower


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
