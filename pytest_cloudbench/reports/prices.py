"""Prices of hardware, from a file or a price list, and what hardware costs by them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_cloudbench.limits.volumes import VolumeSpec

HOURS_OF_A_MONTH = 730
"""AWS counts a month of storage as 730 hours."""
LEAST_S = 60.0
"""EC2 bills Linux instances, volumes and addresses by the second, at least one minute."""
GB = 1_000_000_000
"""AWS bills traffic by GB."""
VOLUME_PARTS = ("gib", "iops", "mib_per_s")
_SINGLE = ("address_hour", "snapshot_gib_month", "zone_traffic_gb")

Price = float | Sequence[Sequence[float]]
"""A price of one unit, or tiers: pairs of an amount and the price of each unit above it, in ascending order."""


class BadPrices(ValueError):
    """A file of prices cannot be used; the message says why."""


@dataclass(frozen=True)
class Charge:
    """One thing that is billed by time; ``per_hour`` is None if it has no price.

    ``minor`` is True for what comes with an instance and costs little: a total without it is still of use.
    """

    what: str
    per_hour: float | None
    minor: bool = False


@dataclass(frozen=True)
class Prices:
    """Prices in one currency.

    ``instance_hour``: price by instance type. ``volume_month``: prices by volume type, of one "gib", "iops" and
    "mib_per_s" for a month; the same names with "_free" are the amounts included. ``address_hour``: one public IPv4
    address. ``snapshot_gib_month``: one GiB of a snapshot. ``zone_traffic_gb``: one GB between two zones, of which
    both ends pay. ``source`` says where and when they were read. What is None or missing has no price.
    """

    currency: str
    instance_hour: Mapping[str, float] = field(default_factory=dict)
    volume_month: Mapping[str, Mapping[str, Price]] = field(default_factory=dict)
    address_hour: float | None = None
    snapshot_gib_month: float | None = None
    zone_traffic_gb: float | None = None
    source: str = ""

    @classmethod
    def read(cls, path: Path) -> Prices:
        """Read a JSON file. Raises BadPrices if it is missing, not JSON, or has anything but prices."""
        try:
            found = json.loads(path.read_text("utf-8"))
        except OSError as error:
            raise BadPrices(f"the prices {path} cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            raise BadPrices(f"the prices {path} are not JSON: {error}") from error
        return cls.of(found, str(path))

    @classmethod
    def of(cls, found: Any, source: str) -> Prices:
        """Return the prices of a decoded file. Raises BadPrices, which names ``source``, for anything else."""
        known = {"currency", "instance_hour", "volume_month", *_SINGLE}
        if not isinstance(found, dict) or set(found) - known or not isinstance(found.get("currency"), str):
            raise BadPrices(
                f"the prices {source}: use the keys currency, such as 'USD', instance_hour and volume_month; "
                f"optional keys are {', '.join(_SINGLE)}"
            )
        hours, months = found.get("instance_hour", {}), found.get("volume_month", {})
        if not isinstance(hours, dict) or not isinstance(months, dict):
            raise BadPrices(f"the prices {source}: instance_hour and volume_month must be objects")
        parts = {*VOLUME_PARTS, *(f"{part}_free" for part in VOLUME_PARTS)}
        for name, volume in months.items():
            if not isinstance(volume, dict) or set(volume) - parts:
                raise BadPrices(
                    f"the prices {source}: unknown key in {name} of volume_month: use {', '.join(sorted(parts))}"
                )
        single = {name: found[name] for name in _SINGLE if name in found}
        for name, price in [
            *hours.items(),
            *(pair for each in months.values() for pair in each.items()),
            *single.items(),
        ]:
            if name in VOLUME_PARTS and isinstance(price, list):
                _check_tiers(name, price, source)
            elif not _is_price(price):
                raise BadPrices(
                    f"the prices {source}: invalid price {price!r} of {name}: use a number from 0 on"
                )
        return cls(found["currency"], hours, months, **single, source=source)

    def instance(self, type_name: str) -> Charge:
        return Charge(type_name, self.instance_hour.get(type_name))

    def volume(self, spec: VolumeSpec, what: str = "") -> Charge:
        """Return the charge of a volume; ``what`` is its name, such as "root volume"."""
        prices = self.volume_month.get(spec.type)
        name = f"{what} {spec}".strip()
        if prices is None:
            return Charge(name, None)
        amounts = zip(VOLUME_PARTS, (spec.size_gib, spec.iops, spec.throughput_mib), strict=True)
        month = sum(
            _tiered(prices.get(part, 0.0), (amount or 0) - _number(prices.get(f"{part}_free", 0.0)))
            for part, amount in amounts
        )
        return Charge(name, month / HOURS_OF_A_MONTH)

    def address(self) -> Charge:
        return Charge("public IPv4 address", self.address_hour, minor=True)

    def snapshot(self, size_gib: float) -> Charge:
        """Return the charge of a snapshot with all blocks of its volume, which is the most that it can have."""
        month = self.snapshot_gib_month
        hour = None if month is None else month * size_gib / HOURS_OF_A_MONTH
        return Charge(f"snapshot of {size_gib:,.0f} GiB", hour, minor=True)

    def root_volume(self, size_gib: int) -> Charge:
        """Return the charge of a root volume, which is gp3 in recent images."""
        return replace(self.volume(VolumeSpec("gp3", size_gib), "root volume"), minor=True)


def unpriced(charges: Iterable[Charge], *, minor: bool = True) -> list[str]:
    """Return the things without a price, each once; without ``minor`` only those that matter."""
    return list(
        dict.fromkeys(
            charge.what for charge in charges if charge.per_hour is None and (minor or not charge.minor)
        )
    )


def per_hour(charges: Iterable[Charge]) -> float:
    """Return the total price of one hour, without charges that have no price."""
    return sum(charge.per_hour or 0.0 for charge in charges)


def _tiered(price: Price, amount: float) -> float:
    if not isinstance(price, Sequence):
        return price * max(0.0, amount)
    ends = [*(above for above, _ in price[1:]), math.inf]
    return sum(
        each * max(0.0, min(amount, end) - above) for (above, each), end in zip(price, ends, strict=True)
    )


def _check_tiers(name: str, tiers: Any, source: str) -> None:
    pairs = all(isinstance(each, list) and len(each) == 2 and all(map(_is_price, each)) for each in tiers)
    begins = [each[0] for each in tiers] if pairs else []
    if not begins or begins != sorted(set(begins)):
        raise BadPrices(
            f"the prices {source}: invalid tiers {tiers!r} of {name}: use pairs of an amount and the price above it, "
            "in ascending order, such as [[0, 0.065], [32000, 0.0455]]"
        )


def _number(value: Price) -> float:
    return 0.0 if isinstance(value, Sequence) else value


def _is_price(price: object) -> bool:
    return not isinstance(price, bool) and isinstance(price, int | float) and 0 <= price < math.inf
