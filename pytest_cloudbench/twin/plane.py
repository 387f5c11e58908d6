"""The data plane of the embedded region: hosts, disks, network and limits, as the EC2 front drives them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cloudbench.limits.ceilings import MachineLimits
from pytest_cloudbench.limits.latency_mode import EBS
from pytest_cloudbench.twin.hosts.host_plan import BootFailed, HostPlan, ImageFacts
from pytest_cloudbench.twin.hosts.hosts import read_console
from pytest_cloudbench.twin.inventory import Inventory, PlaneError
from pytest_cloudbench.twin.machine_probes import MachineProbes
from pytest_cloudbench.twin.network.cables import Network
from pytest_cloudbench.twin.network.governor import NetworkState
from pytest_cloudbench.twin.network.instance_networks import InstanceNetworks
from pytest_cloudbench.twin.network.probe import PAYLOAD_SHARE
from pytest_cloudbench.twin.plane_instances import PlaneInstances
from pytest_cloudbench.twin.probe import MachineRecord
from pytest_cloudbench.twin.slots import Slot
from pytest_cloudbench.twin.volumes.disks import NoRoom, Store
from pytest_cloudbench.twin.volumes.plane_volumes import InstanceActivity, PlaneVolumes, VolumeActivity
from pytest_cloudbench.twin.workshop import Workshop

if TYPE_CHECKING:
    from pytest_cloudbench.limits.quantities import Throughput
    from pytest_cloudbench.limits.volumes import VolumeSpec

__all__ = ["BootFailed", "HostPlan", "ImageFacts", "NoRoom", "Plane", "PlaneError"]

_log = logging.getLogger(__name__)


class Plane:
    """Everything of one region that is not an API: instances, volumes, network, limits.

    Needs root. Methods may be called from any thread; what they raise carries a sentence for people.
    ``backing`` is a directory for the volumes' data in place of memory: roomier and slower.
    ``time_compression`` is how many times faster than the clock burst credits drain and fill. ``latency``
    is "ebs" if I/Os have the service time of their volume's type, "none" if only the limits hold them.
    """

    def __init__(
        self,
        slot: Slot,
        *,
        backing: Path | None = None,
        time_compression: float = 1.0,
        latency: str = EBS,
    ) -> None:
        self.slot = slot
        self.latency = latency
        self.time_compression = time_compression
        self._inventory = Inventory()
        self._machine = MachineRecord(slot.base)
        with contextlib.ExitStack() as undo:
            self._workshop = Workshop()
            undo.callback(self._workshop.close)
            self._store = Store(slot.directory, self._workshop, backing)
            undo.callback(self._store.close)
            self._network = Network(slot, self._workshop)
            undo.callback(self._network.close)
            self._networks = InstanceNetworks(
                self._network,
                self._workshop,
                time_compression=time_compression,
                on_carried=lambda rate: self._machine.saw_network(rate * PAYLOAD_SHARE),
            )
            undo.callback(self._networks.close)
            undo.pop_all()
        self._probes = MachineProbes(
            self._machine,
            store=self._store,
            workshop=self._workshop,
            network=self._network,
            label=f"{slot.name}/probe",
        )
        self._volumes = PlaneVolumes(
            self._inventory,
            store=self._store,
            workshop=self._workshop,
            label=slot.name,
            time_compression=time_compression,
            modelled=latency == EBS,
        )
        self._instances = PlaneInstances(
            self._inventory,
            slot=slot,
            store=self._store,
            workshop=self._workshop,
            network=self._network,
            networks=self._networks,
            release=self._volumes.release,
            machine_limits=self._probes.limits,
            time_compression=time_compression,
            modelled=latency == EBS,
        )

    # --- addresses -----------------------------------------------------------------------------------

    @property
    def caller_address(self) -> str:
        """The address from which this machine reaches the instances."""
        return self.slot.caller_address

    def free_address(self, zone_index: int) -> str:
        """An unused address in the zone's /24; it stays taken until its instance is terminated."""
        with self._inventory.lock:
            return self._network.take_address(zone_index)

    def give_back_address(self, address: str) -> None:
        """Let an address be handed out again whose instance will never be booted."""
        with self._inventory.lock:
            self._network.give_back(address)

    # --- instances -----------------------------------------------------------------------------------

    def boot(self, plan: HostPlan) -> None:
        """Make an instance and return once sshd answers. Raises `BootFailed`; nothing is left then."""
        self._instances.boot(plan)

    def stop(self, instance_id: str) -> None:
        """Shut an instance down. Its root disk, its address and its attachments stay; network credits are full.

        What was on its instance store is lost.
        """
        self._instances.stop(instance_id)

    def start(self, instance_id: str) -> None:
        """Boot a stopped instance, with its volumes where they were. Raises `BootFailed`."""
        self._instances.start(instance_id)

    def reboot(self, instance_id: str) -> None:
        """Shut down and boot; its network credits stay as they are."""
        self._instances.reboot(instance_id)

    def terminate(self, instance_id: str) -> None:
        """End an instance and remove its root disk; its volumes are detached and keep their data."""
        self._instances.terminate(instance_id)

    def running(self, instance_id: str) -> bool:
        """Whether the instance's init is alive."""
        instance = self._inventory.instances.get(instance_id)
        return instance is not None and instance.host.running

    def store_is_limited(self, instance_id: str) -> bool | None:
        """Whether an instance's store is held to its published figures; None where it has none, or nothing runs."""
        instance = self._inventory.instances.get(instance_id)
        return instance.local.limited if instance is not None else None

    def console_output(self, instance_id: str) -> str:
        """What the instance printed on its console, also when it did not come up or is gone."""
        return read_console(self.slot, instance_id)

    # --- networks ------------------------------------------------------------------------------------

    def network_state(self, instance_id: str) -> NetworkState | None:
        """An instance's rate and credits now; None where its network is not shaped: its type has no figures."""
        return self._networks.state(instance_id)

    def cut_cable(self, instance_id: str) -> None:
        """Take an instance's network cable down, as if it were pulled out, until `mend_cable`."""
        with self._inventory.held(instance_id) as instance:
            self._network.cut(instance.host.plan.private_ip)

    def mend_cable(self, instance_id: str) -> None:
        """Bring an instance's network cable up again; it is shaped as before."""
        with self._inventory.held(instance_id) as instance:
            self._network.mend(instance.host.plan.private_ip)

    # --- volumes and snapshots -----------------------------------------------------------------------

    def create_disk(
        self, volume_id: str, size_gib: int, spec: VolumeSpec, snapshot_id: str | None = None
    ) -> None:
        """Make an empty volume, or one that holds what a snapshot does and is slow until that was read once.

        Raises `NoRoom` when nothing could ever be written to it, or the snapshot's data does not fit.
        """
        self._volumes.create_disk(volume_id, size_gib, spec, snapshot_id)

    def attach(self, volume_id: str, instance_id: str, device_name: str) -> str:
        """Attach a volume; its node is there when this returns. The node's name, such as "nvme1n1"."""
        return self._volumes.attach(volume_id, instance_id, device_name)

    def detach(self, volume_id: str, *, force: bool = False) -> bool:
        """Detach a volume from its instance. False: it is still in use there, nothing has changed.

        With ``force`` it leaves even so, and whoever uses it gets I/O errors.
        """
        return self._volumes.detach(volume_id, force=force)

    def delete_disk(self, volume_id: str) -> None:
        """Remove a volume and its data. It must be detached."""
        self._volumes.delete_disk(volume_id)

    def modify(self, volume_id: str, spec: VolumeSpec) -> None:
        """Give a volume other figures, at once. See `PlaneVolumes.modify`."""
        self._volumes.modify(volume_id, spec)

    def take_snapshot(self, snapshot_id: str, volume_id: str) -> None:
        """Copy a volume's data, attached or not; returns when the snapshot is complete. See `Snapshots.take`."""
        self._volumes.take_snapshot(snapshot_id, volume_id)

    def snapshot_percent(self, snapshot_id: str) -> int:
        """How much of a snapshot's data is there."""
        return self._volumes.snapshots.percent(snapshot_id)

    def delete_snapshot(self, snapshot_id: str) -> None:
        """Remove a snapshot, also while it is being made. Volumes made from it keep their data."""
        self._volumes.snapshots.delete(snapshot_id)

    def storage_activity(self) -> tuple[list[VolumeActivity], list[InstanceActivity]]:
        """What every volume has done since it was made, attached or not, and all balances of burst credits."""
        return self._volumes.storage_activity()

    def room(self) -> int:
        """Bytes left for volumes' data."""
        return self._store.room()

    # --- the machine ---------------------------------------------------------------------------------

    def machine_limits(self) -> MachineLimits | None:
        """What this machine's disks serve unthrottled. See `MachineProbes.limits`."""
        return self._probes.limits()

    def machine_network(self) -> Throughput | None:
        """What this machine carries between two instances, unshaped. See `MachineProbes.network`."""
        return self._probes.network()

    @property
    def in_folder(self) -> bool:
        """Whether the volumes' data lie in a folder and not in memory."""
        return not self._store.in_memory

    @property
    def network_governor_cpu_s(self) -> float:
        """CPU seconds that the network's governor has used."""
        return self._networks.governor_cpu_s

    # --- the end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Remove everything. Errors are collected and raised as one `PlaneError` at the end."""
        with self._inventory.lock:
            if self._inventory.closed:
                return
            self._inventory.closed = True
        self._probes.close()
        errors: list[str] = []

        @contextlib.contextmanager
        def collecting(what: str) -> Iterator[None]:
            try:
                yield
            except Exception as error:
                _log.exception("while removing %s", what)
                errors.append(f"{what}: {error}")

        for instance_id, instance in list(self._inventory.instances.items()):
            with collecting(instance_id):
                instance.host.kill()
        for instance_id in list(self._inventory.instances):
            with collecting(instance_id):
                self.terminate(instance_id)
        for volume_id in list(self._inventory.volumes):
            with collecting(volume_id):
                self.delete_disk(volume_id)
        for what, close in (
            ("network's governor", self._networks.close),
            ("network", self._network.close),
            ("snapshots", self._volumes.snapshots.close),
            ("store", self._store.close),
            ("workshop", self._workshop.close),
        ):
            with collecting(what):
                close()
        if errors:
            raise PlaneError("the region could not remove everything: " + "; ".join(errors))
