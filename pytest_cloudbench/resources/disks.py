"""Disks as a test sees them, EBS volumes or local ones: one whole device each, alone or side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from pytest_cloudbench.hosts import content
from pytest_cloudbench.hosts.devices import BlockDevice
from pytest_cloudbench.hosts.errors import NotOurs
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.resources.errors import ExistingHardware
from pytest_cloudbench.resources.mounted import Mountable
from pytest_cloudbench.resources.storage_target import StorageInUse, StorageTarget
from pytest_cloudbench.resources.stripes import Stripe

if TYPE_CHECKING:
    from typing_extensions import Self

    from pytest_cloudbench.workloads.fio.data_pass import Initialisation, Way


_IN_FOLDER = "data in a folder of the embedded region's machine, not in memory: slower and less steady"


class Disk(Mountable):
    """One disk of an instance; as a target of a workload it is the raw device.

    ``initialisation`` describes how every block was initialised, ``stripe`` is the stripe that it is part of; both are
    None by default.
    """

    kind: Literal["block"] = "block"
    initialisation: Initialisation | None = None
    stripe: Stripe | None = None

    @property
    def existing(self) -> bool:
        """True if it was there before the run."""
        return self.instance.launched.existing

    @property
    def may_be_overwritten(self) -> bool:
        """True unless it was there before the run, and the test does not allow loads to overwrite it."""
        return not self.existing or self.instance.destructive

    @property
    def device(self) -> BlockDevice:
        """The device on the host, found by its identity rather than its name."""
        raise NotImplementedError

    @property
    def known_device(self) -> BlockDevice | None:
        """The device on the host if it was used before, else None."""
        return None

    @property
    def carrier(self) -> BlockDevice:
        return self.device

    @property
    def path(self) -> str:
        """Path of the device on the host, such as "/dev/nvme1n1"."""
        return self.device.path

    @property
    def device_names(self) -> tuple[str, ...]:
        return (self.label,)

    @property
    def from_snapshot(self) -> bool:
        """True if its blocks come from a snapshot: they are initialised by reading rather than writing."""
        return False

    @property
    def conditions(self) -> tuple[str, ...]:
        """How its latency is modelled, the place of its data if that makes it slow, and how it was initialised."""
        said = super().conditions
        if self.instance.launched.data_in_folder:
            said += (_IN_FOLDER,)
        return (*said, str(self.initialisation)) if self.initialisation is not None else said

    def prove_writable(self) -> None:
        """Raise NotOurs unless the device is proven to be this disk, unmounted and not the host's own.

        One that was there before the run must also be empty, and the test must allow loads to overwrite it.
        """
        self.check_alone("written to")
        if not self.may_be_overwritten:
            raise NotOurs(
                f"{self.label} existed before this run, and the load would destroy its data: allow that in the test "
                "by destructive=True, or load a directory of it by instance.directory(path)"
            )
        self.device.prove(self.instance.host)
        if self.existing:
            content.refuse_content(self.instance.host, [self.path])

    def check_content(self, *, overwrite: bool) -> None:
        check_content_of([self], overwrite=overwrite)

    def prove_readable(self) -> None:
        self.check_alone("read")
        self.device.prove(self.instance.host, only_read=True)

    def look_again(self) -> None:
        """Forget its mount, and what a restart of the host may have changed."""
        self.forget_mount("its host was restarted, which ends every mount")

    def check_alone(self, what: str) -> None:
        """Raise StorageInUse if it is part of a stripe."""
        if self.stripe is not None:
            raise StorageInUse(
                f"{self.label} is part of {self.stripe.label} and cannot be {what} by itself: dissolve() the "
                "stripe first"
            )

    def check_ours(self) -> None:
        if self.existing:
            raise ExistingHardware(
                f"{self.label} existed before this run, which makes neither file systems nor stripes on it: mount it "
                "yourself, and load a directory of it by instance.directory(path)"
            )

    def initialised(self, *, by: Way | None = None, overwrite: bool = False) -> Self:
        """Write every block, or read it if the disk is made from a snapshot, and return the disk itself.

        ``by`` ("write" or "read") overrides this choice. The time it took is in ``initialisation`` and in every later
        measurement. A disk that is initialised already is left as it is. Writing destroys its content: raises NotOurs
        and FilesystemError as `mounted` does, TargetError if the machine behind an embedded region has no room for the
        data.
        """
        from pytest_cloudbench.resources.initialising import initialise_disks

        initialise_disks(self, [self], by=by, overwrite=overwrite)
        return self


def check_content_of(disks: Sequence[Disk], *, overwrite: bool) -> None:
    """Raise WouldDestroy if a load would destroy content of raw disks of one instance, unless ``overwrite`` is True.

    A disk that the run made must carry no signature, such as that of a file system. One that was there before must have
    no data either, except what this process wrote to it; its signatures are never overwritten (`Disk.prove_writable`).
    """
    host = disks[0].instance.host
    made = [disk.path for disk in disks if not disk.existing]
    if made and not overwrite:
        content.refuse_overwriting(host, made, "the load")
    there = [disk.device for disk in disks if disk.existing]
    content.refuse_data(
        host, {device.path: f"{host.label} {device.hardware}" for device in there}, overwrite=overwrite
    )


AnyDisk = TypeVar("AnyDisk", bound=Disk)


class DiskGroup(StorageTarget, Generic[AnyDisk]):
    """Several disks of one instance, side by side; as a target, all their devices at once."""

    kind: Literal["block"] = "block"

    def __init__(self, disks: Sequence[AnyDisk]) -> None:
        if not disks:
            raise ValueError("a group of disks needs at least one")
        self.disks = tuple(disks)
        self.instance = self.disks[0].instance

    def __getitem__(self, index: int) -> AnyDisk:
        return self.disks[index]

    def __len__(self) -> int:
        return len(self.disks)

    def __iter__(self) -> Iterator[AnyDisk]:
        return iter(self.disks)

    @property
    def path(self) -> str:
        return self.disks[0].path

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(disk.path for disk in self.disks)

    @property
    def device_names(self) -> tuple[str, ...]:
        return tuple(name for disk in self.disks for name in disk.device_names)

    @property
    def size(self) -> Size:
        return Size(sum(disk.size.bytes for disk in self.disks))

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(sentence for disk in self.disks for sentence in disk.conditions))

    @property
    def burst_credits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for disk in self.disks for each in disk.burst_credits))

    @property
    def never_written(self) -> str:
        return next((disk.never_written for disk in self.disks if disk.never_written), "")

    def prove_writable(self) -> None:
        for disk in self.disks:
            disk.prove_writable()

    def prove_readable(self) -> None:
        for disk in self.disks:
            disk.prove_readable()

    def check_content(self, *, overwrite: bool) -> None:
        check_content_of(self.disks, overwrite=overwrite)

    def initialised(self, *, by: Way | None = None, overwrite: bool = False) -> Self:
        """Write or read every block of all disks, side by side, and return the group; see `Disk.initialised`."""
        from pytest_cloudbench.resources.initialising import initialise_disks

        initialise_disks(self, self.disks, by=by, overwrite=overwrite)
        return self

    def striped(self, chunk: str | int | Size = "64k", *, overwrite: bool = False) -> Stripe:
        """Stripe the disks into one, RAID 0: by md if the host has it, otherwise by LVM or btrfs.

        ``chunk`` is the number of bytes on one disk before the next disk follows, a power of two from 4 KiB to 4 MiB;
        btrfs has 64 KiB only, and every measurement says so if another was requested.

        Raises, before anything is written: StripeError for a single disk, unequal sizes or disks of two instances;
        NotOurs for a disk that is mounted, in use or not proven ours; FilesystemError for a disk with content, which
        ``overwrite=True`` destroys.
        """
        return Stripe.of(self, Size.parse(chunk), overwrite=overwrite)
