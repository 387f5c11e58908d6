"""The cost of tests: the price of their hardware for the time that it ran, and its cost while a workload ran.

A pytest plugin, registered if prices are known or can be requested.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_cloudbench.limits.cost import HOUR_S, Cost
from pytest_cloudbench.reports.hooks import unharmed
from pytest_cloudbench.reports.prices import GB, LEAST_S, Charge, Prices, per_hour, unpriced
from pytest_cloudbench.reports.properties import (
    NOT_PRICED_PROPERTY,
    add_cost,
    exact_costs_in,
    phase_reports,
    texts_in,
)

if TYPE_CHECKING:
    from pytest_cloudbench.reports.properties import Property

T = TypeVar("T")

AskPrices = Callable[[Sequence[str]], Prices | str]
"""Returns the prices of these instance types, or why there are none."""


@dataclasses.dataclass
class _TestsHardware:
    """What a test uses: its instances, each with the time from which it is counted, and the cost of its traffic."""

    instances: list[tuple[Any, float]] = dataclasses.field(default_factory=list)
    traffic: float = 0.0


class Costs:
    """Adds up what each test costs. A volume is counted from the launch of its instance.

    ``prices`` are those of a file, or None if `ask` is set later. ``hypothetical`` is True if nothing is billed: then
    the costs are those that the same hardware would have had on AWS. ``spent`` is what this process's tests have cost
    so far, without the instances and volumes in ``uncounted``, whose price is unknown. ``source`` is where the prices
    come from, "" until some were read.
    """

    def __init__(self, prices: Prices | None, *, hypothetical: bool) -> None:
        self.hypothetical = hypothetical
        self.spent = 0.0
        self.uncounted: list[str] = []
        self.trouble = ""
        self.ask: AskPrices | None = None if prices is None else lambda types: prices
        self._used: dict[str, _TestsHardware] = {}
        self._counted_until: dict[str, float] = {}
        self.source = ""
        self.currency = ""

    # What a test uses

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_instance(self, item: pytest.Item, instance: Any) -> None:
        """Count an instance from now, or its launch if launched ahead; a reused one from the end of its last test."""
        waited_s = getattr(getattr(instance, "launched", None), "waited_s", 0.0)
        since = self._counted_until.get(instance.id, time.monotonic() - waited_s)
        self._used.setdefault(item.nodeid, _TestsHardware()).instances.append((instance, since))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Compute the cost before the fixtures remove instances and volumes."""
        used = self._used.pop(item.nodeid, None)
        if used is None:
            return
        with unharmed(f"the cost of {item.nodeid}"):
            types = [str(instance.type) for instance, _ in used.instances]
            prices = self.prices_of(types)
            if prices is None:
                self.uncounted += types
                return
            now = time.monotonic()
            amount, missing = used.traffic, []
            for instance, since in used.instances:
                charges = charges_of(prices, instance)
                # The minimum of one minute was counted with the first test that used the instance.
                short = LEAST_S if instance.id not in self._counted_until else 0.0
                amount += per_hour(charges) * max(now - since, short) / HOUR_S
                missing += unpriced(charges)
                self.uncounted += unpriced(charges, minor=False)
                self._counted_until[instance.id] = now
            self.spent += amount
            add_cost(item, Cost(amount, prices.currency), list(dict.fromkeys(missing)))

    # What a workload costs

    def of_workload(self, item: pytest.Item, run: Callable[[], T]) -> T:
        """Run a workload and return its measurement with what the test's hardware cost meanwhile.

        The cost stays None if the hardware has no price, or the measurement has no such field.
        """
        began = time.monotonic()
        measurement = run()
        seconds = time.monotonic() - began
        used = self._used.get(item.nodeid)
        fields = getattr(measurement, "__dataclass_fields__", {})
        if used is None or "cost" not in fields:
            return measurement
        with unharmed(f"the cost of a workload of {item.nodeid}"):
            prices = self.prices_of([str(instance.type) for instance, _ in used.instances])
            if prices is None:
                return measurement
            charges = [charge for instance, _ in used.instances for charge in charges_of(prices, instance)]
            traffic = _traffic(prices, measurement, [instance for instance, _ in used.instances])
            used.traffic += traffic or 0.0
            if not unpriced(charges, minor=False) and traffic is not None:
                amount = per_hour(charges) * seconds / HOUR_S + traffic
                return dataclasses.replace(measurement, cost=Cost(amount, prices.currency, seconds))  # type: ignore[type-var]
        return measurement

    def prices_of(self, types: Sequence[str]) -> Prices | None:
        """Return the prices, None if they are not known; ``trouble`` then says why."""
        if self.ask is None:
            return None
        found = self.ask(types)
        if isinstance(found, str):
            self.trouble = found
            return None
        self.source, self.currency = found.source, found.currency
        return found

    def said(self, amount: float) -> str:
        """Return an amount in the currency of the prices: "0.42 USD"."""
        return str(Cost(amount, self.currency))

    # The end

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the sum, the source of the prices, and what has no price."""
        if terminalreporter.verbosity >= 0:
            tests = [report.user_properties for report in phase_reports(terminalreporter, "teardown")]
            for line in sum_lines(tests, hypothetical=self.hypothetical, source=self.source):
                terminalreporter.write_line(line)
            if self.trouble:
                terminalreporter.write_line(f"cloudbench costs are unknown: {self.trouble}", yellow=True)


def charges_of(prices: Prices, instance: Any) -> list[Charge]:
    """Return what an instance of a test is billed for: itself, its volumes, address and snapshots.

    Existing hardware costs the test nothing.
    """
    launched = getattr(instance, "launched", None)
    if getattr(launched, "existing", False):
        return []
    image = getattr(launched, "image", None)
    charges = [prices.instance(str(instance.type))]
    if root_gib := getattr(image, "root_size_gib", None):
        charges.append(prices.root_volume(root_gib))
    charges += [prices.volume(volume.spec) for volume in instance.volumes]
    if getattr(launched, "public_ip", None):
        charges.append(prices.address())
    charges += [prices.snapshot(each.size.gib) for each in getattr(instance, "snapshots", ())]
    return charges


def sum_lines(tests: Sequence[Sequence[Property]], *, hypothetical: bool, source: str) -> list[str]:
    """Return the sum of the tests' costs as a line, and one that names what has no price."""
    costs = [cost for properties in tests for cost in exact_costs_in(properties)]
    missing = dict.fromkeys(
        what for properties in tests for what in texts_in(properties, NOT_PRICED_PROPERTY)
    )
    lines = []
    if costs:
        total = Cost(sum(float(each) for each in costs), costs[0].currency)
        count = "1 test" if len(costs) == 1 else f"{len(costs)} tests"
        verb = "would have cost" if hypothetical else "cost"
        where = " on AWS" if hypothetical else ""
        lines.append(f"cloudbench: {count} {verb} {total}{where}{f' ({source})' if source else ''}")
    if missing:
        lines.append(f"cloudbench: no price for {', '.join(missing)}: not included")
    return lines


def _traffic(prices: Prices, measurement: Any, instances: Sequence[Any]) -> float | None:
    """Return the cost of a network measurement's traffic between zones; None if it has no price."""
    sent = getattr(measurement, "sent", None) or getattr(measurement, "throughput", None)
    zones = {str(getattr(instance, "zone", "")) for instance in instances}
    if not hasattr(measurement, "streams") or sent is None or len(zones) < 2:
        return 0.0
    seconds = measurement.runtime_s / measurement.time_compression
    price = prices.zone_traffic_gb
    # The sender's end pays for what goes out and the receiver's for what comes in.
    return None if price is None else 2 * price * sent.bytes_per_second * seconds / GB
