"""An instance's network if its cable cannot be shaped, and that it is shaped before use."""

from __future__ import annotations

import io
import os
from types import SimpleNamespace

import pytest

from pytest_cloudbench.limits.network_credits import NetworkCredits, ShapedRates
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.twin.hosts.hosts import Host, HostPlan
from pytest_cloudbench.twin.inventory import Inventory
from pytest_cloudbench.twin.network.cables import NetworkFailed
from pytest_cloudbench.twin.network.governor import NetworkGovernor
from pytest_cloudbench.twin.network.traffic_control import ClassFigures, ShapedEnds
from pytest_cloudbench.twin.plane_instances import PlaneInstances

PEAK, BASELINE = Bandwidth.from_gbit(10), Bandwidth.from_gbit(2.5)
PLAN = HostPlan(
    "i-1", "test", "198.18.0.4", "host", "ec2-user", (),
    network=ShapedRates(PEAK, BASELINE), network_credits=NetworkCredits(1e12, "test", "2026-11"),
)  # fmt: skip


class Workshop:
    def run(self, work):
        return work()


class End:
    def __init__(self, *, mute):
        self.mute, self.closed = mute, False

    def figures(self):
        if self.mute:
            raise OSError("no such class")
        return ClassFigures()

    def set_rate(self, rate):
        pass

    def close(self):
        self.closed = True


class Network:
    """A network that shapes or refuses, as set."""

    def __init__(self):
        self.refuses = self.mute = False
        self.shaped, self.ends = {}, []

    def shape(self, pid, address, shape, group):
        if self.refuses:
            raise NetworkFailed(f"the network of {address} cannot be shaped")
        self.shaped[address] = shape.rate
        self.ends = [End(mute=self.mute), End(mute=False)]
        return ShapedEnds(b"p1", *self.ends)

    def unshape(self, pid, address):
        self.shaped.pop(address, None)


@pytest.fixture
def network():
    return Network()


@pytest.fixture
def governor():
    subject = NetworkGovernor(io.BytesIO(b"Inter-|\n face |\n"))
    yield subject
    subject.close()


@pytest.fixture
def plug_in(network, governor, tmp_path):
    """Shape a new cable of the instance, which leads to the process with this number."""
    parts = SimpleNamespace(network=network, workshop=Workshop())
    instances = PlaneInstances(Inventory(), parts, governor, None, None)
    pages = tmp_path / "pages"
    pages.mkdir()
    return lambda pid: instances._shape(PLAN, pages, pid)


def fail_by(network, way):
    setattr(network, way, True)


@pytest.mark.parametrize("way", ["refuses", "mute"])
def test_a_cable_that_cannot_be_shaped_is_reported_as_unlimited(
    plug_in, governor, network, tmp_path, caplog, way
):
    fail_by(network, way)
    plug_in(1)
    assert governor.rate("i-1") is None
    assert "i-1 runs with an unlimited network" in caplog.text
    assert network.shaped == {}
    assert all(end.closed for end in network.ends)
    # Zeros there would say that nothing was over its allowance.
    assert list((tmp_path / "pages").iterdir()) == []


@pytest.mark.parametrize("way", ["refuses", "mute"])
def test_failed_shaping_is_tried_again_with_the_next_cable(plug_in, governor, network, tmp_path, way):
    fail_by(network, way)
    plug_in(1)
    governor.disconnect("i-1")
    network.refuses = network.mute = False
    plug_in(2)
    assert network.shaped == {"198.18.0.4": PEAK}
    assert governor.rate("i-1") == PEAK
    assert [page.name for page in (tmp_path / "pages").iterdir()] == ["eth0"]


def test_a_cable_is_shaped_before_its_instance_can_use_it(monkeypatch, tmp_path):
    """Its user data may send packets at once."""
    order = []

    class Switch:
        netmask = "255.255.252.0"

        def plug_in(self, pid, address):
            order.append("cable")

    class Disk:
        layers = ()

    monkeypatch.setattr(Host, "_spawn", lambda self: SimpleNamespace(pid=os.getpid()))
    (tmp_path / PLAN.instance_id / "disk").mkdir(parents=True)
    memory, store = SimpleNamespace(hold=lambda *_: False), SimpleNamespace(roots=tmp_path)
    monkeypatch.setattr(Host, "_watch", lambda self, process: None)
    monkeypatch.setattr(
        Host, "_send", lambda self, line: order.append(line if line == b"plugged" else "plan")
    )
    monkeypatch.setattr(Host, "_expect", lambda self, event, deadline: order.append(event) or {"pid": 7})
    monkeypatch.setattr(Host, "_wait_for_sshd", lambda self, deadline: None)
    host = Host(
        PLAN, SimpleNamespace(network=Switch(), workshop=Workshop(), store=store, memory=memory),
        on_plugged=lambda pid: order.append(f"shaped in {pid}"), on_unplugging=lambda: None,
        on_shutdown=lambda reboots: None, cpus=tuple(os.sched_getaffinity(0)),
        _disk=Disk(), _booted_once=True,
    )  # fmt: skip
    host.start([])
    assert order == ["plan", "unshared", "cable", "shaped in 7", b"plugged", "up"]
