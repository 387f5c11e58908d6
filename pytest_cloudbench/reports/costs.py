"""Has the report of each test say what its instances and volumes cost, from their launch to their removal."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pytest_cloudbench.reports.listeners import Listener, unharmed
from pytest_cloudbench.reports.prices import Prices
from pytest_cloudbench.reports.verdict_properties import COST_PROPERTY


class TestCosts(Listener):
    """Told of every instance; a test's volumes are counted from the launch of theirs on."""

    __test__ = False

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._launched: dict[str, list[tuple[Any, float]]] = {}

    def instance(self, item: pytest.Item, instance: Any, cloud: Any) -> None:
        """Note since when it is there."""
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
                item.user_properties.append((COST_PROPERTY, self._prices.said(cost)))
