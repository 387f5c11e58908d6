"""A mix describes one kind of load: block sizes with shares, reads, random I/O, skew, and the mix's source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.limits.quantities import KIB, MIB, Size, figure
from pytest_cloudbench.workloads.sweep.errors import BadMix

_SECTOR = 512
_LARGEST = Size(16 << 20)
_NO_SKEW = "none"


@dataclass(frozen=True)
class Skew:
    """How random I/O is spread over the working set.

    ``percent_of_io`` of it goes to the first ``percent_of_space`` of the working set, the rest evenly to the rest. Or,
    with ``zipf``, block number n is chosen in proportion to n to the power of -``zipf``.
    """

    percent_of_io: int = 0
    percent_of_space: int = 0
    zipf: float = 0.0

    def __post_init__(self) -> None:
        if self.zipf:
            if not (0 < self.zipf < 10) or self.zipf == 1 or self.percent_of_io or self.percent_of_space:
                raise BadMix(
                    f"invalid skew zipf={self.zipf:g}: use a power above 0 and below 10, except 1, and no percentages"
                )
        elif not (0 < self.percent_of_space < self.percent_of_io < 100):
            raise BadMix(
                f"invalid skew of {self.percent_of_io} % of the I/O to {self.percent_of_space} % of the space: the "
                "share of I/O must be the larger one, and both must be between 0 and 100"
            )

    @property
    def fio_text(self) -> str:
        """The value of fio's option random_distribution."""
        if self.zipf:
            return f"zipf:{self.zipf:g}"
        rest_io, rest_space = 100 - self.percent_of_io, 100 - self.percent_of_space
        return f"zoned:{self.percent_of_io}/{self.percent_of_space}:{rest_io}/{rest_space}"

    def __str__(self) -> str:
        if self.zipf:
            return f"zipf {self.zipf:g}"
        return f"{self.percent_of_io} % of the I/O to {self.percent_of_space} % of the space"


@dataclass(frozen=True)
class Mix:
    """One kind of load.

    ``blocks`` are block sizes, each with its share of all I/Os in per cent; the shares add up to 100. ``read_percent``
    of the I/Os are reads. ``random_percent`` are random within the working set, the others sequential. ``source``
    says who published the mix, or "our own".
    """

    name: str
    blocks: tuple[tuple[Size, int], ...]
    read_percent: int
    random_percent: int
    source: str
    skew: Skew | None = None

    def __post_init__(self) -> None:
        if not self.name or not all(char.isalnum() or char in "-_." for char in self.name):
            raise BadMix(f"invalid mix name {self.name!r}: use letters, digits, '-', '_' and '.'")
        if not self.source.strip():
            raise BadMix(f"mix {self.name!r} has no source: name its publisher, or write 'our own'")
        if not self.blocks:
            raise BadMix(f"mix {self.name!r} has no block size: give at least one")
        for size, share in self.blocks:
            _check_percent(self.name, f"the share of {size} blocks", share, least=1)
            if size.bytes < _SECTOR or size.bytes % _SECTOR or size > _LARGEST:
                raise BadMix(
                    f"mix {self.name!r}: invalid block size {size}: use a multiple of 512 bytes up to {_LARGEST}"
                )
        if (total := sum(share for _, share in self.blocks)) != 100:
            raise BadMix(f"mix {self.name!r}: the shares of its block sizes add up to {total} %, not 100 %")
        _check_percent(self.name, "read_percent", self.read_percent)
        _check_percent(self.name, "random_percent", self.random_percent)
        if self.skew is not None and self.random_percent == 0:
            raise BadMix(f"mix {self.name!r} is sequential: only random I/O can have a skew")

    @classmethod
    def of(
        cls,
        name: str,
        blocks: Mapping[str, int],
        *,
        read_percent: int,
        random_percent: int,
        source: str,
        skew: Skew | None = None,
    ) -> Mix:
        """Build a mix with ``blocks`` such as {"8k": 90, "64k": 10}. Raises BadMix."""
        sizes: dict[Size, int] = {}
        for text, share in blocks.items():
            try:
                size = Size.parse(text)
            except (ValueError, TypeError) as error:
                raise BadMix(f"mix {name!r}: {error}") from None
            if size in sizes:
                raise BadMix(f"mix {name!r}: blocks of {size} are given twice")
            sizes[size] = share
        return cls(name, tuple(sorted(sizes.items())), read_percent, random_percent, source, skew)

    @property
    def block_size(self) -> Size:
        """The mean size of the mix's I/Os, which converts limits of bytes into limits of I/Os."""
        return Size(round(sum(size.bytes * share for size, share in self.blocks) / 100))

    @property
    def largest_block(self) -> Size:
        return max(size for size, _ in self.blocks)

    @property
    def sequential(self) -> bool:
        """True if no I/O is random."""
        return self.random_percent == 0

    @property
    def writes(self) -> bool:
        """True if the mix contains writes."""
        return self.read_percent < 100

    @property
    def pattern(self) -> str:
        """The value of fio's option rw."""
        one_way = {100: "read", 0: "write"}.get(self.read_percent, "rw")
        return one_way if self.sequential else f"rand{one_way}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; keys name the unit."""
        return {
            "name": self.name,
            "blocks_percent": {str(size.bytes): share for size, share in sorted(self.blocks)},
            "read_percent": self.read_percent,
            "random_percent": self.random_percent,
            "skew": str(self.skew) if self.skew else _NO_SKEW,
            "source": self.source,
        }

    def __str__(self) -> str:
        sizes = [
            short_size(size) if share == 100 else f"{short_size(size)} {share} %"
            for size, share in sorted(self.blocks)
        ]
        words = [", ".join(sizes), f"{self.read_percent} % reads", f"{self.random_percent} % random"]
        return "; ".join([*words, *([str(self.skew)] if self.skew else [])])


def short_size(size: Size) -> str:
    """Return a block size as users type it: "4k", "1m"."""
    if size.bytes % MIB == 0:
        return f"{size.bytes // MIB}m"
    return f"{figure(size.bytes / KIB)}k"


def _check_percent(mix: str, what: str, value: object, least: int = 0) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= value <= 100:  # type: ignore[operator]
        raise BadMix(f"mix {mix!r}: {what} is {value!r}: use a whole number of per cent from {least} to 100")
