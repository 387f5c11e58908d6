"""How long the first answer of a new instance is waited for, and that it is waited for while volumes are created."""

from __future__ import annotations

import threading

import pytest

from pytest_cloudbench.hosts.errors import HostUnreachable
from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.resources.facts import ImageFacts, LaunchedInstance
from pytest_cloudbench.resources.instance import Instance


class Connecting:
    """A provider, and its only host, which notes how long it may take and in which thread it connects."""

    def __init__(self, error=None):
        self.limits_s = []
        self.threads = []
        self.closed = threading.Event()
        self.may_connect = threading.Event()
        self.may_connect.set()
        self.error = error
        self.hinted = []

    def host(self, instance, *, connect_timeout_s):
        self.limits_s.append(connect_timeout_s)
        return self

    def connect(self):
        self.may_connect.wait(20)
        self.threads.append(threading.current_thread())
        if self.error is not None:
            raise self.error

    def close(self):
        self.closed.set()

    def unreachable_hint(self, instance):
        self.hinted.append(threading.current_thread())
        return "reachable by 198.51.100.7 only"

    def instance(self, **described):
        limits = InstanceLimits.from_describe({"InstanceType": "m5.metal", **described}, date="2026-11-01")
        return Instance(self, LaunchedInstance("i-1", limits.name, limits, ImageFacts()), 300.0)


@pytest.mark.parametrize(("bare_metal", "limit_s"), [(False, 300.0), (True, 1800.0)])
def test_bare_metal_has_half_an_hour(bare_metal, limit_s):
    provider = Connecting()
    assert provider.instance(BareMetal=bare_metal).host
    assert provider.limits_s == [limit_s]


def test_a_connection_begun_ahead_is_the_one_that_is_used():
    provider = Connecting()
    provider.may_connect.clear()
    instance = provider.instance()
    instance.connect_ahead()
    instance.connect_ahead()
    provider.may_connect.set()
    assert instance.host is provider
    instance.connect_ahead()
    assert len(provider.threads) == len(provider.limits_s) == 1
    assert provider.threads[0] is not threading.current_thread()


def test_an_error_of_a_connection_begun_ahead_is_raised_at_the_first_use():
    provider = Connecting(HostUnreachable("no answer"))
    instance = provider.instance()
    instance.connect_ahead()
    with pytest.raises(HostUnreachable, match="no answer; reachable by 198"):
        _ = instance.host
    assert provider.hinted == [threading.current_thread()], (
        "asked in the test that needs it, not beside others"
    )
    provider.error = None
    assert instance.host is provider
    assert provider.threads[-1] is threading.current_thread()


def test_a_connection_begun_ahead_and_never_used_is_closed():
    provider = Connecting()
    provider.may_connect.clear()
    instance = provider.instance()
    instance.connect_ahead()
    instance.close()
    assert not provider.closed.is_set()
    provider.may_connect.set()
    assert provider.closed.wait(20)


def test_a_connection_whose_wait_was_interrupted_is_closed(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    provider = Connecting()
    provider.may_connect.clear()
    instance = provider.instance()
    instance.connect_ahead()
    monkeypatch.setattr("pytest_cloudbench.resources.instance.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _ = instance.host
    instance.close()
    provider.may_connect.set()
    assert provider.closed.wait(20)
