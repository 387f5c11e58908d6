"""The cost of a test: prices from a file, times the lifetime of its instances and volumes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_cloudbench.reports.hooks import unharmed
from pytest_cloudbench.reports.properties import add_cost

_HOUR_S = 3600.0
_MONTH_S = 730 * _HOUR_S
"""AWS counts a month of storage as 730 hours."""
_LEAST_S = 60.0
"""EC2 bills Linux On-Demand instances by the second, at least one minute."""
_VOLUME_PARTS = ("gib", "iops", "mib_per_s")


class BadPrices(ValueError):
    """A file of prices cannot be used; the message says why."""


@dataclass(frozen=True)
class Prices:
    """Prices in one currency.

    ``instance_hour``: price by instance type. ``volume_month``: prices by volume type, of one "gib", "iops" and
    "mib_per_s" for a month; the same names with "_free" are the amounts included.
    """

    currency: str
    instance_hour: Mapping[str, float] = field(default_factory=dict)
    volume_month: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Prices:
        """Read a JSON file. Raises BadPrices if it is missing, not JSON, or has anything but prices."""
        try:
            found = json.loads(path.read_text("utf-8"))
        except OSError as error:
            raise BadPrices(f"the prices {path} cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            raise BadPrices(f"the prices {path} are not JSON: {error}") from error
        known = {"currency", "instance_hour", "volume_month"}
        if not isinstance(found, dict) or set(found) - known or not isinstance(found.get("currency"), str):
            raise BadPrices(
                f"the prices {path}: use the keys currency, such as 'USD', instance_hour and volume_month"
            )
        hours, months = found.get("instance_hour", {}), found.get("volume_month", {})
        if not isinstance(hours, dict) or not isinstance(months, dict):
            raise BadPrices(f"the prices {path}: instance_hour and volume_month must be objects")
        parts = {*_VOLUME_PARTS, *(f"{part}_free" for part in _VOLUME_PARTS)}
        for name, volume in months.items():
            if not isinstance(volume, dict) or set(volume) - parts:
                raise BadPrices(
                    f"the prices {path}: unknown key in {name} of volume_month: use {', '.join(sorted(parts))}"
                )
        for name, price in [*hours.items(), *(pair for each in months.values() for pair in each.items())]:
            if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < float("inf"):
                raise BadPrices(
                    f"the prices {path}: invalid price {price!r} of {name}: use a number from 0 on"
                )
        return cls(found["currency"], hours, months)

    def cost(
        self, instance_types: Sequence[tuple[str, float]], volumes: Sequence[tuple[Any, float]]
    ) -> float | None:
        """Return the total cost of instances and volumes, each with its lifetime in s; None if one has no price.

        ``volumes`` are specifications, with ``type``, ``size_gib``, ``iops`` and ``throughput_mib``.
        """
        total = 0.0
        for name, seconds in instance_types:
            if name not in self.instance_hour:
                return None
            total += self.instance_hour[name] * max(seconds, _LEAST_S) / _HOUR_S
        for spec, seconds in volumes:
            if spec.type not in self.volume_month:
                return None
            total += self._month(spec) * max(seconds, _LEAST_S) / _MONTH_S
        return total

    def said(self, cost: float) -> str:
        """Return a cost as people read it: "0.42 USD"; a small one with two digits: "0.0031 USD"."""
        figure = f"{cost:,.2f}" if cost >= 0.1 or cost == 0 else f"{cost:.2g}"
        return f"{figure} {self.currency}"

    def _month(self, spec: Any) -> float:
        prices = self.volume_month[spec.type]
        amounts = (spec.size_gib, spec.iops, spec.throughput_mib)
        return sum(
            prices.get(part, 0.0) * max(0.0, (amount or 0) - prices.get(f"{part}_free", 0.0))
            for part, amount in zip(_VOLUME_PARTS, amounts, strict=True)
        )


class TestCosts:
    """Adds up what each test costs. A volume is counted from the launch of its instance on."""

    __test__ = False

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._launched: dict[str, list[tuple[Any, float]]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_instance(self, item: pytest.Item, instance: Any) -> None:
        """Remember when it was launched."""
        self._launched.setdefault(item.nodeid, []).append((instance, time.monotonic()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Compute the cost before the fixtures remove instances and volumes."""
        launched = self._launched.pop(item.nodeid, [])
        now = time.monotonic()
        with unharmed(f"the cost of {item.nodeid}"):
            instances = [(str(instance.type), now - since) for instance, since in launched]
            volumes = [(each.spec, now - since) for instance, since in launched for each in instance.volumes]
            cost = self._prices.cost(instances, volumes) if launched else None
            if cost is not None:
                add_cost(item, self._prices.said(cost))
