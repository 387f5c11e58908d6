"""The volumes of a region: how they are made, attached, paced, copied and removed."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_cloudbench.limits.volume_types import FIRST_READ, VOLUME_TYPES
from pytest_cloudbench.twin.inventory import Inventory, PlacedInstance, PlacedVolume, PlaneError
from pytest_cloudbench.twin.volumes.disks import new_disk, nitro_node, xen_node
from pytest_cloudbench.twin.volumes.figures import PIECE_BYTES, VolumeFigures, volume_figures
from pytest_cloudbench.twin.volumes.loop_devices import RELEASE_S
from pytest_cloudbench.twin.volumes.shared_pages import Figures, VolumePage, VolumeState
from pytest_cloudbench.twin.volumes.snapshots import Snapshots, data_pieces
from pytest_cloudbench.twin.volumes.volume_process import VolumeProcessEnded

if TYPE_CHECKING:
    from pytest_cloudbench.limits.volumes import VolumeSpec
    from pytest_cloudbench.twin.region_parts import RegionParts


@dataclass(frozen=True)
class VolumeActivity:
    """A volume's I/O since it was made, and its balance of credits in percent, None without credits.

    ``instance_id`` is None while it is not attached.
    """

    volume_id: str
    instance_id: str | None
    done: Figures
    burst_balance: float | None


@dataclass(frozen=True)
class InstanceActivity:
    """An instance's balances of EBS credits in percent; None for a limit that does not burst."""

    instance_id: str
    io_balance: float | None
    byte_balance: float | None


class PlaneVolumes:
    """The volumes in an inventory, each with its data, its credits and its page of counters."""

    def __init__(self, inventory: Inventory, parts: RegionParts) -> None:
        self.snapshots = Snapshots(parts.store)
        self._inventory = inventory
        self._parts = parts
        self._workshop = parts.workshop

    def create_disk(self, volume_id: str, spec: VolumeSpec, snapshot_id: str | None = None) -> None:
        """Make an empty volume, or one with a snapshot's data, whose first reads are slow.

        Raises `NoRoom` if nothing could ever be written to it or the snapshot's data does not fit.
        """
        self._inventory.refuse_when_closed()
        with contextlib.ExitStack() as undo:
            disk = new_disk(volume_id, spec.size.bytes, spec.io_unit.bytes, self._parts)
            undo.callback(disk.close)
            page_path = self._parts.store.roots / f"{volume_id}.page"
            page = self._workshop.run(lambda: VolumePage.create(str(page_path)))
            undo.callback(page.close)
            fetches = snapshot_id is not None
            pieces = disk.size // PIECE_BYTES if fetches or spec.first_touch is not None else 0
            state = VolumeState.create(pieces)
            undo.callback(state.close)
            if snapshot_id is not None:
                try:
                    self.snapshots.restore(snapshot_id, disk.descriptor)
                except KeyError:
                    raise PlaneError(f"there is no snapshot {snapshot_id}") from None
                for start, end in data_pieces(disk.descriptor, disk.size):
                    state.set_untouched(start // PIECE_BYTES, -(-end // PIECE_BYTES))
            elif spec.first_touch is not None:
                state.set_all_untouched(pieces)
            with self._inventory.lock:
                self._inventory.refuse_when_closed()
                self._inventory.volumes[volume_id] = PlacedVolume(disk, spec, page, page_path, state, fetches)
            undo.pop_all()

    def take_snapshot(self, snapshot_id: str, volume_id: str) -> None:
        """Copy a volume's data, attached or not; returns when the snapshot is complete. See `Snapshots.take`."""
        disk = self._inventory.volume(volume_id).disk
        disk.flush()
        self.snapshots.take(snapshot_id, disk.descriptor, disk.size)

    def _figures(self, volume: PlacedVolume, instance: PlacedInstance | None = None) -> VolumeFigures:
        """Return the figures of a volume, by itself or as an instance can use it."""
        nitro = instance is None or instance.host.plan.nitro
        kind = VOLUME_TYPES.get(volume.spec.type)
        service = kind.service_time if kind is not None and self._parts.models_latency else None
        spec = volume.spec.served(nitro=nitro)
        figures = volume_figures(spec, factor=self._parts.time_compression, service=service)
        return replace(figures, touch_per_s=FIRST_READ.iops.per_second) if volume.fetches else figures

    def attach(self, volume_id: str, instance_id: str, device_name: str, card: int = 0) -> str:
        """Attach a volume to an EBS card; return the name of its node, such as "nvme1n1", once the instance has it."""
        volume = self._inventory.volume(volume_id)
        with self._inventory.held(instance_id) as instance, contextlib.ExitStack() as undo:
            if volume.instance_id is not None:
                raise PlaneError(f"{volume_id} is attached to {volume.instance_id}")
            disk = volume.disk
            volume.page.clear()
            loop = disk.plug_in(
                instance.cards[card].attach(
                    disk.size, self._figures(volume, instance), disk.descriptor, volume.page, volume.state
                )
            )
            undo.callback(disk.unplug)
            if instance.host.plan.nitro:
                taken = {*instance.local.names, *(node.name for node in instance.nodes)}
                number = next(number for number in range(1, 1000) if f"nvme{number}n1" not in taken)
                node = nitro_node(number, volume_id, loop)
            else:
                node = xen_node(device_name, loop)
            shown = instance.host.counters / node.name
            self._workshop.run(lambda: shown.unlink(missing_ok=True))
            self._workshop.run(lambda: shown.hardlink_to(volume.page_path))
            if instance.host.running:
                instance.host.add_node(node)
            undo.pop_all()
            volume.node, volume.instance_id = node, instance_id
            instance.volumes[volume_id] = volume
            return node.name

    def detach(self, volume_id: str, *, force: bool = False) -> bool:
        """Detach a volume from its instance; return False, with no change, if it is still in use there.

        With ``force`` it is detached in any case, and its users get I/O errors.
        """
        volume = self._inventory.volume(volume_id)
        if volume.instance_id is None:
            return True
        with self._inventory.held(volume.instance_id) as instance:
            loop = volume.disk.loop
            if force:
                volume.disk.fail()
                if instance.host.running and loop is not None:
                    instance.host.shut_down_file_systems(loop.major, loop.minor)
            elif loop is not None and not loop.wait_until_free(0.0 if instance.host.running else RELEASE_S):
                return False
            self.release(volume_id, at_once=force)
            return True

    def release(self, volume_id: str, *, at_once: bool = False) -> None:
        """Detach a volume, even one in use, as when its instance ends. Without effect if it is not attached."""
        volume = self._inventory.volume(volume_id)
        if volume.instance_id is None or volume.node is None:
            return
        instance, disk = self._inventory.instances[volume.instance_id], volume.disk
        running, shown = instance.host.running, instance.host.counters / volume.node.name
        if running:
            instance.host.remove_node(volume.node)
        self._workshop.run(lambda: shown.unlink(missing_ok=True))
        if not at_once and disk.loop is not None:
            disk.loop.wait_until_free(0.0 if running else RELEASE_S)
        if disk.paced is not None:
            with contextlib.suppress(VolumeProcessEnded):
                disk.paced.confirm()  # else the flush could wait for ever
                if not at_once:
                    disk.flush()
                disk.fail()  # a program may have it open still
        disk.unplug()
        volume.done = volume.page.figures.after(volume.done)._replace(queue_length=0)
        instance.volumes.pop(volume_id, None)
        volume.instance_id = volume.node = None

    def delete_disk(self, volume_id: str) -> None:
        """Remove a volume and its data. It must be detached."""
        with self._inventory.lock:
            volume = self._inventory.volume(volume_id)
            if volume.instance_id is not None:
                raise PlaneError(f"{volume_id} is attached to {volume.instance_id} and cannot be deleted")
            del self._inventory.volumes[volume_id]
        volume.close()
        self._workshop.run(lambda: volume.page_path.unlink(missing_ok=True))

    def modify(self, volume_id: str, spec: VolumeSpec) -> None:
        """Apply a new spec at once. An attached device grows with its volume.

        The volume keeps its burst credits, up to the capacity of its new bucket.
        """
        volume = self._inventory.volume(volume_id)
        disk, instance_id = volume.disk, volume.instance_id
        with (
            contextlib.nullcontext() if instance_id is None else self._inventory.held(instance_id) as instance
        ):
            if disk.paced is not None:
                disk.paced.confirm()  # changing the device's queue waits for its I/O
            disk.modify(size=spec.size.bytes, io_unit=spec.io_unit.bytes)
            volume.spec = spec
            if disk.paced is not None:
                disk.paced.change(disk.size, self._figures(volume, instance))
                disk.grow()
            if instance is not None and instance.host.running:
                instance.host.show_partitions()

    def storage_activity(self) -> tuple[list[VolumeActivity], list[InstanceActivity]]:
        """Return every volume's I/O since it was made, attached or not, and all balances of burst credits."""
        now = time.monotonic()
        volumes = [
            VolumeActivity(
                volume_id,
                volume.instance_id,
                volume.done if volume.instance_id is None else volume.page.figures.after(volume.done),
                self._balance(volume, now),
            )
            for volume_id, volume in list(self._inventory.volumes.items())
        ]
        instances = [
            InstanceActivity(instance_id, *instance.paced.balances(now))
            for instance_id, instance in list(self._inventory.instances.items())
        ]
        return volumes, instances

    def _balance(self, volume: PlacedVolume, now: float) -> float | None:
        balances = self._figures(volume).limits.balances(volume.state, now)
        return next((balance for balance in balances if balance is not None), None)
