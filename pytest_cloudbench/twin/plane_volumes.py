"""The volumes of a region: made, attached, limited, copied and removed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cloudbench.promises.snapshots import FIRST_READ
from pytest_cloudbench.twin.counters import CountersPage
from pytest_cloudbench.twin.disks import Store, create_disk, nitro_node, xen_node
from pytest_cloudbench.twin.governor import Governor
from pytest_cloudbench.twin.inventory import Inventory, PlacedVolume, PlaneError
from pytest_cloudbench.twin.snapshots import Snapshots
from pytest_cloudbench.twin.storage_accounts import (
    InstanceActivity,
    RateLimit,
    UntilRead,
    VolumeAccount,
    VolumeActivity,
)
from pytest_cloudbench.twin.workshop import Workshop

if TYPE_CHECKING:
    from pytest_cloudbench.promises.volumes import VolumeSpec

_LET_GO_S = 5.0  # the kernel lets go of a halted instance's mounts a moment after its last process


class PlaneVolumes:
    """The volumes in an inventory, each with its data, its account and its page of counters.

    ``label`` names the region in the kernel's list of loop devices.
    """

    def __init__(
        self,
        inventory: Inventory,
        *,
        store: Store,
        workshop: Workshop,
        governor: Governor,
        label: str,
        time_compression: float,
    ) -> None:
        self.snapshots = Snapshots(store)
        self._inventory = inventory
        self._store = store
        self._workshop = workshop
        self._governor = governor
        self._label = label
        self._time_compression = time_compression

    def create_disk(
        self, volume_id: str, size_gib: int, spec: VolumeSpec, snapshot_id: str | None = None
    ) -> None:
        """Make an empty volume, or one that holds what a snapshot does and is slow until that was read once.

        Raises `NoRoom` when nothing could ever be written to it, or the snapshot's data does not fit.
        """
        self._create_disk(volume_id, size_gib, spec)
        if snapshot_id is None:
            return
        try:
            data = self.snapshots.restore(snapshot_id, self._inventory.volume(volume_id).disk.descriptor)
        except KeyError:
            self.delete_disk(volume_id)
            raise PlaneError(f"there is no snapshot {snapshot_id}") from None
        except BaseException:
            self.delete_disk(volume_id)
            raise
        if data:
            rate = RateLimit(FIRST_READ.iops.per_second, FIRST_READ.throughput.bytes_per_second)
            self.slow_until_read(volume_id, data, rate)

    def take_snapshot(self, snapshot_id: str, volume_id: str) -> None:
        """Copy a volume's data, attached or not; returns when the snapshot is complete. See `Snapshots.take`."""
        disk = self._inventory.volume(volume_id).disk
        self.snapshots.take(snapshot_id, disk.descriptor, disk.size)

    def _create_disk(self, volume_id: str, size_gib: int, spec: VolumeSpec) -> None:
        with self._inventory.lock:
            self._inventory.refuse_when_closed()
            if volume_id in self._inventory.volumes:
                raise PlaneError(f"{volume_id} exists already")
            disk = create_disk(
                volume_id,
                size_gib=size_gib,
                io_unit=spec.io_unit.bytes,
                store=self._store,
                workshop=self._workshop,
                label=f"{self._label}/{volume_id}",
            )
            page = self._workshop.run(lambda: CountersPage(self._store.roots / f"{volume_id}.page"))
            account = VolumeAccount(spec, time.monotonic(), self._time_compression)
            self._inventory.volumes[volume_id] = PlacedVolume(disk, account, page)

    def attach(self, volume_id: str, instance_id: str, device_name: str) -> str:
        """Attach a volume; its node is there when this returns. The node's name, such as "nvme1n1"."""
        volume = self._inventory.volume(volume_id)
        with self._inventory.held(instance_id) as instance:
            if volume.instance_id is not None:
                raise PlaneError(f"{volume_id} is attached to {volume.instance_id}")
            loop = volume.disk.plug_in()
            try:
                if instance.host.plan.nitro:
                    taken = {*instance.local.names, *(node.name for node in instance.nodes)}
                    number = next(number for number in range(1, 1000) if f"nvme{number}n1" not in taken)
                    node = nitro_node(number, volume_id, loop)
                else:
                    node = xen_node(device_name, loop)
                self._governor.add_volume(instance_id, volume_id, volume.account, loop, volume.page)
                if instance.host.plan.nitro:
                    self._show_page(volume, instance.host.counters / node.name)
                if instance.host.running:
                    instance.host.add_node(node)
            except BaseException:
                self._governor.remove_volume(instance_id, volume_id)
                volume.disk.unplug()
                raise
            volume.node, volume.instance_id = node, instance_id
            instance.volumes[volume_id] = volume
            return node.name

    def _show_page(self, volume: PlacedVolume, path: Path) -> None:
        def link() -> None:
            path.unlink(missing_ok=True)
            path.hardlink_to(volume.page.path)

        self._workshop.run(link)

    def detach(self, volume_id: str) -> bool:
        """Detach a volume from its instance. False: it is still in use there, nothing has changed."""
        volume = self._inventory.volume(volume_id)
        if volume.instance_id is None:
            return True
        with self._inventory.held(volume.instance_id) as instance:
            loop = volume.disk.loop
            if loop is not None and not self._let_go(volume, wait=not instance.host.running):
                return False
            self.release(volume_id)
            return True

    @staticmethod
    def _let_go(volume: PlacedVolume, *, wait: bool) -> bool:
        """Whether nobody uses the device; ``wait`` for the kernel to finish with a halted instance."""
        loop = volume.disk.loop
        deadline = time.monotonic() + (_LET_GO_S if wait else 0.0)
        while loop is not None and loop.busy():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def release(self, volume_id: str) -> None:
        """Detach a volume, in use or not, since its instance ends. One that is not attached is left alone."""
        volume = self._inventory.volume(volume_id)
        if volume.instance_id is None:
            return
        instance = self._inventory.instance(volume.instance_id)
        node = volume.node
        self._governor.remove_volume(volume.instance_id, volume_id)
        if node is not None:
            if instance.host.running:
                instance.host.remove_node(node)
            self._workshop.run(lambda: (instance.host.counters / node.name).unlink(missing_ok=True))
        self._let_go(volume, wait=not instance.host.running)
        volume.disk.unplug()
        instance.volumes.pop(volume_id, None)
        volume.instance_id = volume.node = None

    def delete_disk(self, volume_id: str) -> None:
        """Remove a volume and its data. It must be detached."""
        with self._inventory.lock:
            volume = self._inventory.volume(volume_id)
            if volume.instance_id is not None:
                raise PlaneError(f"{volume_id} is attached to {volume.instance_id} and cannot be deleted")
            del self._inventory.volumes[volume_id]
        volume.disk.close()
        volume.page.close()
        self._workshop.run(lambda: volume.page.path.unlink(missing_ok=True))

    def modify(self, volume_id: str, spec: VolumeSpec) -> None:
        """Give a volume other figures, at once. Its size may grow: attached, the device grows with it.

        Its burst credits stay, as far as it has a bucket afterwards that holds them.
        """
        volume = self._inventory.volume(volume_id)
        volume.disk.modify(size_gib=spec.size_gib, io_unit=spec.io_unit.bytes)
        self._change_account(volume_id, lambda: volume.account.become(spec, time.monotonic()))

    def slow_until_read(self, volume_id: str, bytes_left: int, limit: RateLimit) -> None:
        """Give a volume a lower limit until so many bytes were read from it: one made from a snapshot."""
        account = self._inventory.volume(volume_id).account

        def slow() -> None:
            account.until_read = UntilRead(limit, bytes_left)

        self._change_account(volume_id, slow)

    def _change_account(self, volume_id: str, change: Callable[[], None]) -> None:
        volume = self._inventory.volume(volume_id)
        if volume.instance_id is None:
            change()
            return
        with self._inventory.held(volume.instance_id):
            self._governor.limits_changed(volume.instance_id, volume_id, change)

    def storage_activity(self) -> tuple[list[VolumeActivity], list[InstanceActivity]]:
        """What every volume has done since it was made, attached or not, and all balances of burst credits."""
        volumes, instances = self._governor.activity()
        shown = {volume.volume_id for volume in volumes}
        now = time.monotonic()
        for volume_id, volume in list(self._inventory.volumes.items()):
            if volume_id not in shown:
                account = volume.account
                volumes.append(VolumeActivity(volume_id, None, account.done, account.burst_balance(now)))
        return volumes, instances
