"""The data plane of the embedded region: hosts, disks, network and limits, driven by the EC2 API."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from pytest_cloudbench.limits.region_settings import EBS
from pytest_cloudbench.twin.hosts.instance_memory import InstanceMemory
from pytest_cloudbench.twin.inventory import Inventory, PlaneError
from pytest_cloudbench.twin.machine import PAYLOAD_SHARE, Machine, MachineRecord
from pytest_cloudbench.twin.network.cables import Network
from pytest_cloudbench.twin.network.governor import NetworkGovernor
from pytest_cloudbench.twin.network.outbound import Outbound, package_hosts
from pytest_cloudbench.twin.plane_instances import PlaneInstances
from pytest_cloudbench.twin.region_parts import RegionParts
from pytest_cloudbench.twin.slots import Slot, regions_at_most
from pytest_cloudbench.twin.volumes.disks import Store
from pytest_cloudbench.twin.volumes.plane_volumes import PlaneVolumes
from pytest_cloudbench.twin.workshop import Workshop

_log = logging.getLogger(__name__)


class Plane:
    """Everything of one region except its API: ``instances``, ``volumes``, ``network`` and the ``machine`` below them.

    ``store`` holds the data of volumes. ``governor`` keeps the network credits of instances.

    Needs root. Methods may be called from any thread; their errors have readable sentences as messages.
    ``backing`` is a directory for the volumes' data instead of memory: larger and slower. Burst credits drain and
    refill ``time_compression`` times faster than the clock. With ``latency`` "ebs" I/Os have the service time of
    their volume's type, with "none" only the limits delay them. With ``outbound`` instances install packages from this
    machine's mirrors and these hosts; None blocks outbound traffic.
    """

    def __init__(
        self,
        slot: Slot,
        *,
        backing: Path | None = None,
        time_compression: float = 1.0,
        latency: str = EBS,
        outbound: Collection[str] | None = None,
    ) -> None:
        self.slot = slot
        self.latency = latency
        self.time_compression = time_compression
        self._inventory = Inventory()
        record = MachineRecord(slot.base)
        self._errors: list[str] = []
        with contextlib.ExitStack() as undo:
            workshop = Workshop()
            undo.callback(self._close_safely, "workshop", workshop.close)
            self.store = Store(slot.directory, workshop, backing, partial(regions_at_most, slot.base))
            undo.callback(self._close_safely, "store", self.store.close)
            memory = InstanceMemory(slot, workshop, self.store.root_disks_bytes)
            undo.callback(self._close_safely, "memory of instances", memory.close)
            self.network = Network(slot, workshop)
            undo.callback(self._close_safely, "network", self.network.close)
            self.governor = NetworkGovernor(
                self.network.open_counters(),
                time_compression=time_compression,
                on_carried=lambda rate: record.update_network(rate * PAYLOAD_SHARE),
            )
            undo.callback(self._close_safely, "network's governor", self.governor.close)
            hosts = set() if outbound is None else {*package_hosts(), *outbound}
            proxy = Outbound(slot.caller_address, slot.interface, hosts)
            undo.callback(self._close_safely, "outbound proxy", proxy.close)
            self._undo = undo.pop_all()
        parts = RegionParts(
            slot,
            workshop,
            self.store,
            self.network,
            memory,
            time_compression,
            models_latency=latency == EBS,
            outbound=proxy,
        )
        self.machine = Machine(parts, record)
        self.volumes = PlaneVolumes(self._inventory, parts)
        self._undo.callback(self._close_safely, "snapshots", self.volumes.snapshots.close)
        self.instances = PlaneInstances(
            self._inventory, parts, self.governor, self.volumes.release, self.machine.disks
        )

    def close(self) -> None:
        """Remove everything. Raises one `PlaneError` with all errors at the end. A second call does nothing."""
        with self._inventory.lock:
            if self._inventory.closed:
                return
            self._inventory.closed = True
        self.machine.close()
        for instance_id, instance in list(self._inventory.instances.items()):
            self._close_safely(instance_id, instance.host.kill)
        for instance_id in list(self._inventory.instances):
            self._close_safely(instance_id, partial(self.instances.terminate, instance_id))
        for volume_id in list(self._inventory.volumes):
            self._close_safely(volume_id, partial(self.volumes.delete_disk, volume_id))
        self._undo.close()
        if self._errors:
            raise PlaneError("the region could not remove everything: " + "; ".join(self._errors))

    def _close_safely(self, what: str, close: Callable[[], object]) -> None:
        try:
            close()
        except Exception as error:
            _log.exception("while removing %s", what)
            self._errors.append(f"{what}: {error}")
