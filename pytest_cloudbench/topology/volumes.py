"""EBS volumes as a test sees them: what was provisioned, and a target to put load on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from pytest_cloudbench.promises.ceilings import Ceiling
from pytest_cloudbench.promises.envelope import Envelope, storage_envelope
from pytest_cloudbench.promises.quantities import Size
from pytest_cloudbench.promises.volumes import VolumeSpec, volume_ceilings

if TYPE_CHECKING:
    from pytest_cloudbench.cloud.resources import CreatedVolume
    from pytest_cloudbench.hosts.connection import HostConnection
    from pytest_cloudbench.hosts.devices import BlockDevice
    from pytest_cloudbench.hosts.filesystems import MountedFilesystem
    from pytest_cloudbench.hosts.throttle_counters import CountersSnapshot
    from pytest_cloudbench.topology.instance import Instance


class _StorageTarget:
    """What every target over volumes of one instance shares."""

    instance: Instance
    volumes: tuple[Volume, ...]

    @property
    def runner(self) -> HostConnection:
        """The host the load runs on."""
        return self.instance.host

    @property
    def iops(self) -> Ceiling:
        """The IOPS of all its volumes, a ceiling to judge by; the instance's own limit is not in it."""
        return self._ceiling("volume IOPS")

    @property
    def throughput(self) -> Ceiling:
        """The throughput of all its volumes, a ceiling to judge by; the instance's own limit is not in it."""
        return self._ceiling("volume throughput")

    def _ceiling(self, quantity: str) -> Ceiling:
        named = [(volume.id, volume.spec) for volume in self.volumes]
        return next(each for each in volume_ceilings(named) if each.quantity == quantity)

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope:
        """Every ceiling that applies to this I/O on these volumes; the lowest binds."""
        return storage_envelope(
            self.instance.limits,
            [(volume.id, volume.spec) for volume in self.volumes],
            block_size,
            sequential=sequential,
            machine=self.instance.machine_limits(),
        )

    def room(self) -> Size | None:
        """How much more data the machine behind the volumes can hold; None where no such limit is known."""
        machine = self.instance.machine_limits()
        return machine.room if machine is not None else None

    def counters(self) -> CountersSnapshot | None:
        """The throttle counters of the volumes now; None where the host gives none."""
        from pytest_cloudbench.hosts.throttle_counters import read_counters

        return read_counters(self.instance.host, [volume.device for volume in self.volumes])


class Volume(_StorageTarget):
    """An EBS volume attached to an instance; as a target of a workload it is the raw device."""

    kind: Literal["block"] = "block"

    def __init__(self, instance: Instance, created: CreatedVolume) -> None:
        self.instance = instance
        self.created = created
        self.volumes = (self,)
        self._device: BlockDevice | None = None
        self._mounted: MountedVolume | None = None

    @property
    def id(self) -> str:
        """Volume id, "vol-" and 17 hexadecimal digits."""
        return self.created.id

    @property
    def spec(self) -> VolumeSpec:
        """What was asked for; ``spec.iops`` and ``spec.throughput_mib`` are plain numbers."""
        return self.created.spec

    @property
    def size(self) -> Size:
        """Provisioned size."""
        return self.created.size

    @property
    def device(self) -> BlockDevice:
        """The device on the host, found by the volume's serial number, never by order or name."""
        if self._device is None:
            from pytest_cloudbench.hosts.devices import find_device

            self._device = find_device(
                self.instance.host, self.id, size=self.size, attached_as=self.created.device
            )
        return self._device

    @property
    def path(self) -> str:
        """Path of the device on the host, such as "/dev/nvme1n1"."""
        return self.device.path

    @property
    def paths(self) -> tuple[str, ...]:
        """The one path."""
        return (self.path,)

    @property
    def label(self) -> str:
        """For messages: "io2 80 GiB/80,000 IOPS vol-0abc"."""
        return str(self.created)

    def prove_writable(self) -> None:
        """Raise NotOurs unless the device is proven to be this volume, unmounted and not the host's own."""
        from pytest_cloudbench.hosts.devices import prove_ours

        prove_ours(self.instance.host, self.device)

    def mounted(
        self,
        filesystem: Literal["xfs", "ext4"] = "xfs",
        *,
        at: str | None = None,
        owner: str | None = None,
    ) -> MountedVolume:
        """Make a file system on the volume, mount it, and return the directory as a target.

        ``at`` is the mount point (default: a directory of its own under /mnt), ``owner`` who owns it
        (default: the login user). Asked for again with the same arguments, the mounted one is returned.
        Raises NotOurs before any write unless the device is proven to be this volume.
        """
        from pytest_cloudbench.hosts.filesystems import mount_new

        at = at or f"/mnt/{self.id}"
        owner = owner or self.instance.launched.login_user
        if self._mounted is not None:
            held = self._mounted.mount
            if (held.filesystem, held.path, held.owner) == (filesystem, at, owner):
                return self._mounted
            self._mounted.unmount()
        mount = mount_new(self.instance.host, self.device, filesystem, at=at, owner=owner)
        self._mounted = MountedVolume(self, mount)
        return self._mounted

    def forget_mount(self) -> None:
        """Know that the file system is no longer mounted."""
        self._mounted = None

    def __repr__(self) -> str:
        return f"<{self.label} on {self.instance.type}>"


class MountedVolume(_StorageTarget):
    """The directory where a volume's file system is mounted."""

    kind: Literal["directory"] = "directory"

    def __init__(self, volume: Volume, mount: MountedFilesystem) -> None:
        self.instance = volume.instance
        self.volume = volume
        self.volumes = (volume,)
        self.mount = mount

    @property
    def path(self) -> str:
        """The mount point."""
        return self.mount.path

    @property
    def paths(self) -> tuple[str, ...]:
        """The one path."""
        return (self.path,)

    @property
    def size(self) -> Size:
        """Size of the volume below."""
        return self.volume.size

    @property
    def label(self) -> str:
        """For messages: "xfs on io2 80 GiB/80,000 IOPS vol-0abc"."""
        return f"{self.mount.filesystem} on {self.volume.label}"

    def prove_writable(self) -> None:
        """Raise NotOurs unless this directory is the mount of our own volume."""
        from pytest_cloudbench.hosts.filesystems import prove_mounted

        prove_mounted(self.instance.host, self.mount)

    def unmount(self) -> None:
        """Unmount the file system; the data stays on the volume."""
        from pytest_cloudbench.hosts.filesystems import unmount

        unmount(self.instance.host, self.mount)
        self.volume.forget_mount()

    def __repr__(self) -> str:
        return f"<{self.label} at {self.path}>"


class VolumeGroup(_StorageTarget):
    """Several volumes of one instance, side by side; as a target, all their devices at once."""

    kind: Literal["block"] = "block"

    def __init__(self, volumes: Sequence[Volume]) -> None:
        self.volumes = tuple(volumes)
        self.instance = self.volumes[0].instance

    def __getitem__(self, index: int) -> Volume:
        return self.volumes[index]

    def __len__(self) -> int:
        return len(self.volumes)

    def __iter__(self) -> Iterator[Volume]:
        return iter(self.volumes)

    @property
    def path(self) -> str:
        """The first device's path."""
        return self.volumes[0].path

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all devices, in the order of the volumes."""
        return tuple(volume.path for volume in self.volumes)

    @property
    def size(self) -> Size:
        """Size of all volumes together."""
        return Size(sum(volume.size.bytes for volume in self.volumes))

    @property
    def label(self) -> str:
        """For messages: "5 x gp3 ..."."""
        return f"{len(self)} x {self.volumes[0].spec}"

    def prove_writable(self) -> None:
        """Raise NotOurs unless every device is proven to be its volume."""
        for volume in self.volumes:
            volume.prove_writable()

    def __repr__(self) -> str:
        return f"<{self.label} on {self.instance.type}>"
