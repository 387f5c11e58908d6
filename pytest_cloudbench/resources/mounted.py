"""File systems on a test's storage, as targets of workloads, and files laid out in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pytest_cloudbench.hosts.filesystems import Carrier, MountedFilesystem, mount_new, prove_mounted, unmount
from pytest_cloudbench.hosts.paths import check_path
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.resources.storage_target import Layer, StorageInUse, StorageTarget

if TYPE_CHECKING:
    from pytest_cloudbench.workloads.fio.data_pass import Prefilled

Filesystem = Literal["xfs", "ext4", "btrfs"]

_NO_COPY = "btrfs without copy on write and checksums (nodatacow), which makes direct I/O direct"


class Mountable(StorageTarget):
    """Storage that a file system can be made on."""

    _mounted: Mounted | None = None

    @property
    def carrier(self) -> Carrier:
        """The device below the file system, as the host knows it."""
        raise NotImplementedError

    @property
    def default_mount_point(self) -> str:
        """The default mount point: a directory of its own under /mnt."""
        raise NotImplementedError

    def label_with(self, filesystem: str) -> str:
        """Return the label, prefixed with the file system."""
        return f"{filesystem} on {self.label}"

    def mounted(
        self,
        filesystem: Filesystem = "xfs",
        *,
        at: str | None = None,
        owner: str | None = None,
        overwrite: bool = False,
    ) -> Mounted:
        """Make a file system on it, mount it, and return the directory as a target.

        ``at`` is the mount point (default: a directory of its own under /mnt), ``owner`` the owner of the file
        system's root (default: the login user). A missing directory is made, and removed when it is unmounted. A
        directory of the system, such as /tmp, one with content, and a mount point are refused.

        If it is mounted with the same arguments, that mount is returned; any other mount is unmounted first. A file
        system of that kind that this run made earlier is mounted again with its data, also on another instance. Any
        other content is refused; ``overwrite=True`` destroys it and makes a new file system in any case.

        Raises, before any write, MountPointRefused for such a directory, and NotOurs unless the device is proven to be
        this one and free; FilesystemError for other content, a journal that the machine behind it has no room for, and
        errors of mkfs and mount.
        """
        self.check_alone("mounted")
        self.check_ours()
        for name, given in (("at", at), ("owner", owner)):
            if given is not None:
                check_path(name, given)
        at = at or self.default_mount_point
        owner = owner or self.instance.launched.login_user
        if self._mounted is not None:
            held = self._mounted.mount
            if (held.filesystem, held.path, held.owner) == (filesystem, at, owner) and not overwrite:
                return self._mounted
            self._mounted.unmount()
        with self.instance.preparation.step(f"format and mount {self.label_with(filesystem)}"):
            mount = mount_new(
                self.instance.host,
                self.carrier,
                filesystem,
                at=at,
                owner=owner,
                overwrite=overwrite,
                room=self.room(),
            )
        self._mounted = Mounted(self, mount)
        return self._mounted

    def unmount(self) -> None:
        """Unmount its file system, if one is mounted; the data stays."""
        if self._mounted is not None:
            self._mounted.unmount()

    def forget_mount(self, why: str = "it was unmounted") -> None:
        """Forget the mount; `why` is the reason in the error for a later use of the directory."""
        if self._mounted is not None:
            self._mounted.ended = why
        self._mounted = None

    def check_alone(self, what: str) -> None:
        """Raise if it is a part of other storage; `what` is the refused action, such as "mounted"."""

    def check_ours(self) -> None:
        """Raise ExistingHardware if it was there before the run, which makes neither file systems nor stripes on it."""

    def check_there(self) -> None:
        """Raise if its data is known to be lost. By default does nothing, for disks that keep data."""


class Mounted(Layer):
    """The directory in which a file system of the test is mounted."""

    kind: Literal["directory"] = "directory"
    ended: str | None = None
    """Why it is no longer mounted; None while it is, as far as is known."""

    def __init__(self, below: Mountable, mount: MountedFilesystem) -> None:
        super().__init__(below)
        self.carrying = below
        self.mount = mount

    @property
    def path(self) -> str:
        return self.mount.path

    @property
    def label(self) -> str:
        return self.carrying.label_with(self.mount.filesystem)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the storage below, and how the file system differs from a plain one."""
        own = (_NO_COPY,) if self.mount.filesystem == "btrfs" else ()
        return (*super().conditions, *own)

    def prove_writable(self) -> None:
        """Raise NotOurs unless this directory is the mount of our device, StorageInUse if that mount has ended."""
        if self.ended is not None:
            raise StorageInUse(
                f"{self.label} is no longer mounted on {self.path}: {self.ended}. mounted(...) mounts it again, "
                "with its data if the disk has kept that"
            )
        self.carrying.check_there()
        prove_mounted(self.instance.host, self.mount)

    def prefilled(self, size: str | int | Size) -> PrefilledFile:
        """Lay out one file of real data, written with direct I/O, and return it as a target.

        All jobs of a load read and write within this file. The quick pace makes the file smaller, and every result
        says so. Raises BadFioJob for an impossible size, TargetError if it does not fit.
        """
        return lay_out(self, size)

    def unmount(self) -> None:
        """Unmount the file system; the data stays on the device."""
        unmount(self.instance.host, self.mount)
        self.carrying.forget_mount()

    def __repr__(self) -> str:
        return f"<{self.label} at {self.path}>"


class PrefilledFile(Layer):
    """One file that was laid out in full, as a target."""

    kind: Literal["file"] = "file"

    def __init__(self, directory: StorageTarget, prefilled: Prefilled) -> None:
        super().__init__(directory)
        self.directory = directory
        self.prefilled_as = prefilled

    @property
    def path(self) -> str:
        return self.prefilled_as.path

    @property
    def size(self) -> Size:
        return self.prefilled_as.size

    @property
    def seconds(self) -> float:
        """The time that laying it out took, in seconds."""
        return self.prefilled_as.seconds

    @property
    def label(self) -> str:
        return f"file of {self.size} on {self.directory.label}"

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the storage below, how the file was made, and whether the pace made it smaller."""
        return (*super().conditions, str(self.prefilled_as), *self.prefilled_as.conditions)

    def prove_writable(self) -> None:
        self.directory.prove_writable()

    def __repr__(self) -> str:
        return f"<{self.label} at {self.path}>"


def lay_out(directory: StorageTarget, size: str | int | Size) -> PrefilledFile:
    """Lay out one file of real data in a directory, and return it as a target."""
    from pytest_cloudbench.workloads.fio.data_pass import prefill

    preparation = directory.instance.preparation
    with preparation.live(f"laying out {size}") as show:
        laid_out = preparation.done(
            f"prefill {size}",
            directory,
            lambda: prefill(directory, Size.parse(size), pace=preparation.pace, on_progress=show),
        )
    return PrefilledFile(directory, laid_out)
