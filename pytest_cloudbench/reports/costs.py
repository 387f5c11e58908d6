"""Has the report of each test say what its instances and volumes cost, from their launch to their removal."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pytest_cloudbench.reports.hooks import unharmed
from pytest_cloudbench.reports.prices import Prices
from pytest_cloudbench.reports.properties import add_cost


class TestCosts:
    """Told of every instance; a test's volumes are counted from the launch of theirs on."""

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
        """Everything is still there; from here on it is removed."""
        launched = self._launched.pop(item.nodeid, [])
        now = time.monotonic()
        with unharmed(f"the cost of {item.nodeid}"):
            instances = [(str(instance.type), now - since) for instance, since in launched]
            volumes = [(each.spec, now - since) for instance, since in launched for each in instance.volumes]
            cost = self._prices.cost(instances, volumes) if launched else None
            if cost is not None:
                add_cost(item, self._prices.said(cost))
