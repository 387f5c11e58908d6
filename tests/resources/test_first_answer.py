"""How long the first answer of a new instance is waited for."""

from __future__ import annotations

import pytest

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.resources.facts import ImageFacts, LaunchedInstance
from pytest_cloudbench.resources.instance import Instance


class Connecting:
    """A provider whose hosts note how long they may take."""

    def __init__(self):
        self.limits_s = []

    def host(self, instance, *, connect_timeout_s):
        self.limits_s.append(connect_timeout_s)
        return self

    def connect(self):
        pass


@pytest.mark.parametrize(("bare_metal", "limit_s"), [(False, 300.0), (True, 1800.0)])
def test_bare_metal_has_half_an_hour(bare_metal, limit_s):
    provider = Connecting()
    described = {"InstanceType": "m5.metal", "BareMetal": bare_metal}
    limits = InstanceLimits.from_describe(described, date="2026-11-01")
    assert Instance(provider, LaunchedInstance("i-1", limits.name, limits, ImageFacts()), 300.0).host
    assert provider.limits_s == [limit_s]
