"""File systems on a test's storage, as directories to put load on, and files laid out in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.resources.storage_target import Layer, StorageInUse, StorageTarget

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.filesystems import Carrier, MountedFilesystem
    from pytest_cloudbench.workloads.fio.data_pass import Prefilled

Filesystem = Literal["xfs", "ext4", "btrfs"]

_NO_COPY = "btrfs without copy on write and checksums (nodatacow), where direct I/O is direct"


class Mountable(StorageTarget):
    """Storage that a file system can be made on."""

    _mounted: Mounted | None = None

    @property
    def carrier(self) -> Carrier:
        """What the file system lies on, as the host knows it."""
        raise NotImplementedError

    @property
    def default_mount_point(self) -> str:
        """Where it is mounted when nobody says where: a directory of its own under /mnt."""
        raise NotImplementedError

    def label_with(self, filesystem: str) -> str:
        """What it is called with that file system on it."""
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

        ``at`` is the mount point (default: a directory of its own under /mnt), ``owner`` who owns it
        (default: the login user). Mounted with the same arguments already, that one is returned; mounted
        otherwise, it is unmounted first. A file system of that kind which this run made there earlier is
        mounted again with its data, also after a move to another instance. Whatever else is there is refused,
        and destroyed only with ``overwrite=True``, which makes the file system anew in any case.

        Raises NotOurs before any write unless the device is proven to be this one and free, FilesystemError for
        what it carries, for a journal that the machine behind it has no room for, for a mount point in use and for
        what mkfs and mount say.
        """
        from pytest_cloudbench.hosts.filesystems import mount_new

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

    def forget_mount(self, why: str = "it was unmounted") -> None:
        """Know that the file system is no longer mounted, and let whoever still uses the directory be told why."""
        if self._mounted is not None:
            self._mounted.ended = why
        self._mounted = None

    def check_there(self) -> None:
        """Raise where what was on it is known to be gone. A disk that keeps its data has nothing to say."""


class Mounted(Layer):
    """The directory where a file system of the test's own is mounted."""

    kind: Literal["directory"] = "directory"
    ended: str | None = None
    """Why it is no longer mounted; None while it is, as far as is known here."""

    def __init__(self, below: Mountable, mount: MountedFilesystem) -> None:
        super().__init__(below)
        self.carrying = below
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
    def label(self) -> str:
        """For messages: "xfs on io2 80 GiB/80,000 IOPS vol-0abc"."""
        return self.carrying.label_with(self.mount.filesystem)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What lies below has to say, and how the file system differs from a plain one."""
        own = (_NO_COPY,) if self.mount.filesystem == "btrfs" else ()
        return (*super().conditions, *own)

    def prove_writable(self) -> None:
        """Raise NotOurs unless this directory is the mount of our own device, StorageInUse once that has ended."""
        from pytest_cloudbench.hosts.filesystems import prove_mounted

        if self.ended is not None:
            raise StorageInUse(
                f"{self.label} is not mounted on {self.path} any more: {self.ended}. mounted(...) mounts it again, "
                "with its data where the disk keeps that"
            )
        self.carrying.check_there()
        prove_mounted(self.instance.host, self.mount)

    def prefilled(self, size: str | int | Size) -> PrefilledFile:
        """Lay out one file of real data, written with direct I/O, and return it as a target of its own.

        A load on it reads and writes within the file, all jobs the same one. The quick pace makes the file
        smaller and says so. Raises BadFioJob for a size that cannot be, TargetError where it does not fit.
        """
        from pytest_cloudbench.workloads.fio.data_pass import prefill

        preparation = self.instance.preparation
        with preparation.live(f"laying out {size}") as show:
            laid_out = preparation.done(
                f"prefill {size}",
                self,
                lambda: prefill(self, Size.parse(size), pace=preparation.pace, on_progress=show),
            )
        return PrefilledFile(self, laid_out)

    def unmount(self) -> None:
        """Unmount the file system; the data stays on the device."""
        from pytest_cloudbench.hosts.filesystems import unmount

        unmount(self.instance.host, self.mount)
        self.carrying.forget_mount()

    def __repr__(self) -> str:
        return f"<{self.label} at {self.path}>"


class PrefilledFile(Layer):
    """One file that was laid out in full, as a target: loads stay within it."""

    kind: Literal["file"] = "file"

    def __init__(self, directory: Mounted, prefilled: Prefilled) -> None:
        super().__init__(directory)
        self.directory = directory
        self.prefilled_as = prefilled

    @property
    def path(self) -> str:
        """Where the file is."""
        return self.prefilled_as.path

    @property
    def paths(self) -> tuple[str, ...]:
        """The one path."""
        return (self.path,)

    @property
    def size(self) -> Size:
        """Size of the file."""
        return self.prefilled_as.size

    @property
    def seconds(self) -> float:
        """How long laying it out took."""
        return self.prefilled_as.seconds

    @property
    def label(self) -> str:
        """For messages: "file of 20 GiB on xfs on gp3 ..."."""
        return f"file of {self.size} on {self.directory.label}"

    @property
    def conditions(self) -> tuple[str, ...]:
        """What lies below has to say, how the file was made, and whether the pace made it smaller."""
        return (*super().conditions, str(self.prefilled_as), *self.prefilled_as.conditions)

    def prove_writable(self) -> None:
        """Raise NotOurs unless the file lies on the mount of our own device."""
        self.directory.prove_writable()

    def __repr__(self) -> str:
        return f"<{self.label} at {self.path}>"
