"""Several disks striped into one (RAID 0), as a test sees them."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, Literal

from pytest_cloudbench.hosts.content import refuse_overwriting
from pytest_cloudbench.hosts.errors import StripeError
from pytest_cloudbench.hosts.stripes import StripedDevices, check_chunk, find_again, stripe, unstripe
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.resources.mounted import Filesystem, Mountable, Mounted
from pytest_cloudbench.resources.storage_target import Layer, StorageInUse

if TYPE_CHECKING:
    from typing_extensions import Self

    from pytest_cloudbench.resources.disks import DiskGroup
    from pytest_cloudbench.workloads.fio.data_pass import Initialisation, Way

_NAMES = {"md": "md RAID 0", "LVM": "LVM stripe", "btrfs": "btrfs raid0"}
_DATA_OF_DEVICE = Size(512 << 20)
"""Enough to spread direct I/O over every disk, and little enough to be laid out in seconds."""


class Stripe(Layer, Mountable):
    """Striped disks, made by `DiskGroup.striped`.

    Striped by md or LVM, it is a block device: ``kind`` is "block". If the host has neither, it is striped by btrfs and
    is a directory, mounted at once; ``mounted`` changes the mount point. Its label names the method, and the conditions
    of every measurement the reason. It ends with its instance, or by `dissolve`.
    """

    initialisation: Initialisation | None = None

    def __init__(self, group: DiskGroup[Any], asked_chunk: Size) -> None:
        super().__init__(group)
        self.group = group
        self._asked_chunk = asked_chunk
        self._asked_filesystem: str | None = None
        self._striped: StripedDevices | None = None

    @classmethod
    def of(cls, group: DiskGroup[Any], chunk: Size, *, overwrite: bool = False) -> Stripe:
        """Return the striped disks of the group; see `DiskGroup.striped`."""
        made = cls(group, chunk)
        made._make(overwrite=overwrite)
        return made

    def _make(self, *, overwrite: bool, at: str | None = None, owner: str | None = None) -> None:
        check_chunk(self._asked_chunk)
        self._check_together()
        self._striped = stripe(
            self.instance.host,
            [disk.device for disk in self.group],
            chunk=self._asked_chunk,
            overwrite=overwrite,
        )
        for disk in self.group:
            disk.stripe = self
        if self.kind == "directory":
            try:
                super().mounted("btrfs", at=at, owner=owner)
            except BaseException:
                with contextlib.suppress(Exception):
                    unstripe(self.instance.host, self._striped)
                self._forget()
                raise

    def _check_together(self) -> None:
        for disk in self.group:
            disk.check_alone("striped")
            disk.check_ours()
        hosts = {disk.instance.id: disk.instance for disk in self.group}
        if len(hosts) > 1:
            where = ", ".join(f"{disk.label} on {disk.instance!r}" for disk in self.group)
            raise StripeError(f"disks of {len(hosts)} instances cannot be striped: {where}")

    @property
    def striped(self) -> StripedDevices:
        """Its method, name and members on the host. Raises StorageInUse after it was dissolved."""
        if self._striped is None:
            raise StorageInUse(f"the stripe of {self.group.label} was dissolved")
        return self._striped

    @property
    def method(self) -> Literal["md", "LVM", "btrfs"]:
        """The program that stripes the disks."""
        return self.striped.method

    @property
    def chunk(self) -> Size:
        """The bytes on one disk before the next disk follows."""
        return self.striped.chunk

    @property
    def kind(self) -> Literal["block", "directory"]:
        """A block device, or a directory if striped by btrfs."""
        return "block" if self.striped.is_device else "directory"

    @property
    def carrier(self) -> StripedDevices:
        return self.striped

    @property
    def path(self) -> str:
        """The device, such as "/dev/md127", or the mount point."""
        if self.striped.is_device:
            return self.striped.path
        return self._directory.path

    @property
    def paths(self) -> tuple[str, ...]:
        """Its only path. Raises StoreLost if a stop has replaced the disks of an instance store."""
        self.check_there()
        return (self.path,)

    @property
    def size(self) -> Size:
        """The size of all disks together, without what the method itself uses."""
        return self.striped.size

    @property
    def label(self) -> str:
        how = "dissolved stripe" if self._striped is None else _NAMES[self._striped.method]
        return f"{how} of {self.group.label}"

    def label_with(self, filesystem: str) -> str:
        """Return its label with that file system on it, unless that file system stripes the disks."""
        return self.label if filesystem == self.method else super().label_with(filesystem)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the disks, the method and its reason, and requests that the host could not meet."""
        striped = self.striped
        own = [
            f"striped by {striped.method}, chunk {striped.chunk}{f' ({striped.why})' if striped.why else ''}"
        ]
        if striped.chunk != self._asked_chunk:
            own.append(f"chunk {striped.chunk} in place of {self._asked_chunk}: btrfs has no other")
        if self._asked_filesystem is not None:
            own.append(f"btrfs in place of {self._asked_filesystem}: this host stripes by btrfs only")
        if self.initialisation is not None:
            own.append(str(self.initialisation))
        return (*super().conditions, *own)

    @property
    def never_written(self) -> str:
        """Why reads of it as a device measure nothing, unless it or its disks were initialised."""
        as_device = self.striped.is_device and self.initialisation is None
        return self.group.never_written if as_device else ""

    @property
    def data_of_device(self) -> Size | None:
        return None if self.striped.is_device else min(_DATA_OF_DEVICE, self.size / 4)

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope:
        """Return every ceiling that applies to this I/O: the sums over the disks, and the instance's.

        Random I/O larger than a chunk goes to several disks and counts on each.
        """
        below = super().envelope(block_size, sequential=sequential)
        if sequential or self.chunk >= below.io_unit:
            return below
        return dataclasses.replace(below, io_unit=self.chunk)

    def prove_writable(self) -> None:
        """Raise NotOurs unless it consists of exactly our disks and, as a device, is free."""
        self.check_there()
        if self.striped.is_device:
            self.striped.prove(self.instance.host)
        else:
            self._directory.prove_writable()

    def check_content(self, *, overwrite: bool) -> None:
        """Raise WouldDestroy if it is a device with a signature, such as a file system's, unless ``overwrite``."""
        if self.striped.is_device and not overwrite:
            refuse_overwriting(self.instance.host, [self.path], "the load")

    @property
    def default_mount_point(self) -> str:
        return f"/mnt/{self.striped.name}"

    def mounted(
        self,
        filesystem: Filesystem = "xfs",
        *,
        at: str | None = None,
        owner: str | None = None,
        overwrite: bool = False,
    ) -> Mounted:
        """Make a file system on it, mount it, and return the directory; see `Mountable.mounted`.

        If it is striped by btrfs, the file system is btrfs in any case, and every measurement says so.
        """
        if self.striped.is_device:
            return super().mounted(filesystem, at=at, owner=owner, overwrite=overwrite)
        if filesystem != "btrfs":
            self._asked_filesystem = filesystem
        return super().mounted("btrfs", at=at, owner=owner, overwrite=overwrite)

    def initialised(self, *, by: Way | None = None, overwrite: bool = False) -> Self:
        """Write every block of it once and return the stripe; see `Disk.initialised`.

        If it is striped by btrfs, its disks are initialised and striped again; raises StorageInUse if it contains
        files.
        """
        from pytest_cloudbench.resources.initialising import initialise_array

        if self.striped.is_device:
            if self.initialisation is None:
                self.initialisation = initialise_array(self, self.carrier, by=by, overwrite=overwrite)
            return self
        if all(disk.initialisation is not None for disk in self.group):
            return self
        mount = self._directory.mount
        self._refuse_losing_files(mount.path)
        self.dissolve()
        try:
            self.group.initialised(by=by)
        except BaseException:
            with contextlib.suppress(Exception):
                self._make(overwrite=True, at=mount.path, owner=mount.owner)
            raise
        self._make(overwrite=True, at=mount.path, owner=mount.owner)
        return self

    def look_again(self) -> None:
        """Find the stripe again after a restart of its host, which keeps its data and may rename its devices.

        `mounted` mounts a file system on it again; if it is striped by btrfs, it is mounted at once where it was.
        """
        for disk in self.group:
            disk.look_again()
        held = self._mounted
        self.forget_mount("its host was restarted, which ends every mount")
        self._striped = find_again(self.instance.host, self.striped, [disk.device for disk in self.group])
        if held is not None and not self._striped.is_device:
            super().mounted("btrfs", at=held.path, owner=held.mount.owner)

    def dissolve(self) -> None:
        """Unmount and remove the stripe: its disks are single and empty again. The data is lost."""
        if self._mounted is not None:
            self._mounted.unmount()
        unstripe(self.instance.host, self.striped)
        self._forget()

    def lose(self, why: str) -> None:
        """Forget the stripe, because its disks are lost."""
        self.forget_mount(why)
        self._forget()

    def check_there(self) -> None:
        for disk in self.group:
            disk.check_there()

    def _forget(self) -> None:
        self._striped = self._mounted = None
        for disk in self.group:
            disk.stripe = None

    @property
    def _directory(self) -> Mounted:
        if self._mounted is None:
            raise StorageInUse(f"{self.label} is not mounted: call mounted() first")
        return self._mounted

    def _refuse_losing_files(self, directory: str) -> None:
        first = self.instance.run(["find", directory, "-mindepth", "1", "-maxdepth", "1", "-print", "-quit"])
        if name := first.stdout.strip():
            raise StorageInUse(
                f"{self.label} contains {name}, which writing every block would destroy: initialise the disks before "
                "striping them, ebs_volumes.initialised().striped()"
            )
