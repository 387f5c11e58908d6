"""EBS volumes and their snapshots as a test sees them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

from pytest_cloudbench.hosts.device_facts import inspect_device
from pytest_cloudbench.hosts.devices import BlockDevice, find_device, wait_for_size
from pytest_cloudbench.hosts.throttle_counters import CountersSnapshot, read_counters
from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import Envelope, storage_envelope
from pytest_cloudbench.limits.quantities import Size, figure
from pytest_cloudbench.limits.volumes import VolumeSpec, volume_ceilings
from pytest_cloudbench.resources.disks import Disk, DiskGroup
from pytest_cloudbench.resources.facts import CreatedVolume, Snapshot
from pytest_cloudbench.resources.instance import Instance
from pytest_cloudbench.resources.storage_target import StorageInUse, StorageTarget

if TYPE_CHECKING:
    from typing_extensions import Self

_SYNC_S = 1800.0


class _OnVolumes(StorageTarget):
    """One volume or several together, with what EBS promises for them."""

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """The volumes it consists of."""
        raise NotImplementedError

    @property
    def iops(self) -> Ceiling:
        return self._ceiling("volume IOPS")

    @property
    def throughput(self) -> Ceiling:
        return self._ceiling("volume throughput")

    @property
    def cards(self) -> tuple[int, ...]:
        """The EBS card of the instance that each of its volumes is attached to."""
        return tuple(volume.created.card for volume in self.volumes)

    @property
    def instance_iops(self) -> Ceiling | None:
        """The IOPS that its instance allows these volumes together, by their EBS cards; None if AWS states none."""
        return next(iter(self.instance.limits.ebs_ceilings(self.cards)), None)

    @property
    def instance_throughput(self) -> Ceiling | None:
        """The throughput that its instance allows these volumes together; None if AWS states none."""
        return next(iter(self.instance.limits.ebs_ceilings(self.cards)[1:]), None)

    def _ceiling(self, quantity: str) -> Ceiling:
        named = [(volume.id, volume.spec) for volume in self.volumes]
        ceilings = volume_ceilings(named, nitro=self.instance.limits.nitro)
        return next(each for each in ceilings if each.quantity == quantity)

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope:
        return storage_envelope(
            self.instance.limits,
            [(volume.id, volume.spec) for volume in self.volumes],
            block_size,
            sequential=sequential,
            machine=self.instance.machine_limits(),
            cards=self.cards,
        )

    def counters(self) -> CountersSnapshot | None:
        return read_counters(self.instance.host, [volume.device for volume in self.volumes])


class Volume(_OnVolumes, Disk):
    """An EBS volume attached to an instance; as a target of a workload it is the raw device."""

    destructive = False
    """True if loads may overwrite a volume that was there before the run."""

    def __init__(self, instance: Instance, created: CreatedVolume) -> None:
        self.instance = instance
        self.created = created
        self._device: BlockDevice | None = None
        self._attached = True
        self.initialisation = created.initialisation

    @property
    def volumes(self) -> tuple[Volume, ...]:
        return (self,)

    @property
    def is_attached(self) -> bool:
        """True while it is attached to ``instance``."""
        return self._attached

    @property
    def known_device(self) -> BlockDevice | None:
        """The device on the host if it was used before, else None."""
        return self._device

    @property
    def existing(self) -> bool:
        return self.created.existing

    @property
    def may_be_overwritten(self) -> bool:
        return not self.existing or self.destructive

    @property
    def id(self) -> str:
        """Volume id, "vol-" and 17 hexadecimal digits."""
        return self.created.id

    @property
    def spec(self) -> VolumeSpec:
        """Its specification; ``spec.iops`` and ``spec.throughput_mib`` are plain numbers."""
        return self.created.spec

    @property
    def size(self) -> Size:
        return self.created.size

    @property
    def from_snapshot(self) -> bool:
        """True if it was made from a snapshot, whose blocks are fetched at their first read."""
        return self.created.snapshot_id is not None

    @property
    def device(self) -> BlockDevice:
        """The device on the host, found by the volume's serial number, never by order or name.

        Raises StorageInUse while it is not attached.
        """
        if not self._attached:
            raise StorageInUse(f"{self.label} is not attached to an instance: attach(instance) first")
        if self._device is None:
            self._device = find_device(
                self.instance.host, self.id, size=self.size, attached_as=self.created.device
            )
        return self._device

    @property
    def label(self) -> str:
        return str(self.created)

    @property
    def default_mount_point(self) -> str:
        return f"/mnt/{self.id}"

    def look_again(self) -> None:
        super().look_again()
        self._device = None

    @property
    def conditions(self) -> tuple[str, ...]:
        """How it was initialised, or what makes it slow if it was not, and which test this is on it."""
        said = (*super().conditions, *self.created.conditions)
        if self.initialisation is not None or (
            self.stripe is not None and self.stripe.initialisation is not None
        ):
            return said
        slow = []
        if self.from_snapshot:
            read = "blocks that were never read are" if self.existing else "the first read of a block is"
            slow.append(f"made from {self.created.snapshot_id} and not initialised: {read} slow")
        if self.spec.first_touch is not None:
            slow.append(
                f"not initialised: on an embedded region, blocks that were never read or written have "
                f"{figure(100 * self.spec.first_touch)} % of its rate"
            )
        return (*said, *slow)

    @property
    def burst_credits(self) -> tuple[str, ...]:
        return (*super().burst_credits, *self.created.storage_credits)

    def snapshot(self) -> Snapshot:
        """Create a snapshot and wait until it is complete; it is removed when the test ends.

        A file system mounted by `mounted` is synchronised first. Data written during the call may be missing.
        """
        if self._mounted is not None:
            self.instance.run(["sync", "-f", self._mounted.path], timeout_s=_SYNC_S)
        return self.instance.create_snapshot(self)

    def modify(
        self,
        type: str | None = None,
        *,
        size_gib: int | None = None,
        iops: int | None = None,
        throughput_mib: int | None = None,
        until: Literal["optimizing", "completed"] = "completed",
        timeout_s: float = 3600.0,
    ) -> Self:
        """Change its size, figures or type, and wait until the modification is in the state ``until``.

        Other properties stay; another type starts from its own defaults. The device grows with its volume, a file
        system on it does not. "optimizing" is earlier: the new size is there, the new figures may not be. Raises
        InvalidSpec before any call, StorageInUse for the size of a part of a stripe, CloudError for a refusal by the
        service, such as for a modification before the last one has completed, or the fifth in 24 hours.
        """
        if size_gib is not None:
            self.check_alone("resized")
        old = self.spec
        same = type in (None, old.type)
        spec = dataclasses.replace(
            old,
            type=type or old.type,
            size_gib=size_gib or old.size_gib,
            requested_iops=iops or (old.requested_iops if same else None),
            requested_throughput_mib=throughput_mib or (old.requested_throughput_mib if same else None),
        )
        size = self.size
        self.created = self.instance.modify(self, spec, until=until, timeout_s=timeout_s)
        if self._attached and self._device is not None and self.size != size:
            self._take_new_size()
        return self

    def _take_new_size(self) -> None:
        held = self.device
        self._device = dataclasses.replace(held, size=self.size)
        wait_for_size(self.instance.host, self._device)
        if self._mounted is not None:
            self._mounted.mount = dataclasses.replace(self._mounted.mount, device=self._device)

    def beside(self, *others: Volume) -> VolumeGroup:
        """Return this volume and others of the same instance as one target, like `ebs_volumes`."""
        return VolumeGroup([self, *others])

    def detach(self, *, unmount: bool = False) -> Self:
        """Detach it from its instance, which must not have it mounted; its data stays.

        ``unmount`` first unmounts the file system that `mounted` mounted. Raises StorageInUse, before any call, while
        it is mounted, part of a stripe, otherwise in use, or not attached.
        """
        if self.existing:
            self.instance.check_ours("detach it", self)
        self.check_alone("detached")
        device = self.device  # raises if it is not attached
        if unmount and self._mounted is not None:
            self._mounted.unmount()
        self._refuse_in_use(device)
        self.created = self.instance.detach(self)
        self._attached = False
        self._device = self._mounted = None
        return self

    def attach(self, instance: Instance) -> Self:
        """Attach it to an instance of its zone after `detach`. `mounted` mounts a file system on it again.

        Raises StorageInUse while it is attached, ZoneMismatch or AttachmentLimit.
        """
        if self._attached:
            raise StorageInUse(f"{self.label} is attached to {self.instance.launched}: call detach() first")
        self.created = instance.attach(self)
        self.instance = instance
        self._attached = True
        return self

    def _refuse_in_use(self, device: BlockDevice) -> None:
        facts = inspect_device(self.instance.host, device.path)
        where = self.instance.launched
        if facts.mounts:
            raise StorageInUse(
                f"{self.label} is mounted on {', '.join(facts.mounts)} of {where} and was not detached: unmount it "
                "first, or call detach(unmount=True)"
            )
        if facts.used_by:
            raise StorageInUse(
                f"{self.label} is in use by {', '.join(facts.used_by)} on {where}: it was not detached"
            )


class VolumeGroup(_OnVolumes, DiskGroup[Volume]):
    """Several volumes of one instance, side by side; as a target, all their devices at once."""

    @property
    def volumes(self) -> tuple[Volume, ...]:
        return self.disks

    @property
    def label(self) -> str:
        return f"{len(self)} x {self.volumes[0].spec}"
