"""The parts of a region that its instances, volumes and disks share."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.twin.hosts.instance_memory import InstanceMemory
from pytest_cloudbench.twin.network.cables import Network
from pytest_cloudbench.twin.network.outbound import Outbound
from pytest_cloudbench.twin.slots import Slot
from pytest_cloudbench.twin.volumes.disks import Store
from pytest_cloudbench.twin.workshop import Workshop


@dataclass(frozen=True)
class RegionParts:
    """One region's slot, private mount namespace, store of data, network, and memory of instances.

    Burst credits drain and refill ``time_compression`` times faster than the clock. ``models_latency``: I/Os have
    the service time of their device's type. ``outbound`` is the proxy to package mirrors.
    """

    slot: Slot
    workshop: Workshop
    store: Store
    network: Network
    memory: InstanceMemory
    time_compression: float
    models_latency: bool
    outbound: Outbound
