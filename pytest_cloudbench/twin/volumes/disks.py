"""The data of volumes: sparse files without a name, and the loop devices that instances use."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cloudbench.twin import linux
from pytest_cloudbench.twin.hosts.hosts import Node
from pytest_cloudbench.twin.volumes.loop_devices import LoopDevice, bind_loop_device
from pytest_cloudbench.twin.volumes.volume_process import PacedFile
from pytest_cloudbench.twin.workshop import Workshop

if TYPE_CHECKING:
    from pytest_cloudbench.twin.region_parts import RegionParts

GIB = 1024**3
MIB = 1024**2
KIB = 1024
_LEAST_ROOM = 64 * MIB  # an empty file system on a volume takes about that much
_VOLUMES_SHARE = 0.8
_RESERVE_SHARE = 0.05  # of the machine's memory: stays free for the machine
_FOLLOW_S = 0.5
_FOLLOW_STEP = 64 * MIB
_ROOTS_SHARE = 0.15


class NoRoom(RuntimeError):
    """This machine has no room for a volume's data."""


def memory_available() -> int:
    """Return the bytes of memory that the kernel estimates to be available."""
    return _memory("MemAvailable")


def _memory(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found.group(1)) * KIB if found else 0


def quota(used: int, available: int, *, reserve: int, regions: int) -> int:
    """Return how many bytes a region's volumes may take: what they have, and an equal share of what is left.

    All regions' shares together leave the reserve free, however fast they write until the next update.
    """
    return used + max(0, available - reserve) // regions


class Store:
    """The storage of a region: two private tmpfs, or a directory of the user for volumes.

    ``data`` holds the volumes, ``roots`` the instances' root disks. Volumes may use a share of the memory that was
    available at the start, and never more than the machine has left: a test that writes too much gets an I/O error, as
    from a full disk, and the machine stays alive. This bound is updated twice a second, since other programs take
    memory too. What is left is divided among the machine's regions, which ``regions`` counts: together they cannot
    exhaust it. A backing directory is slower and larger.
    """

    def __init__(
        self, directory: Path, workshop: Workshop, backing: Path | None, regions: Callable[[], int]
    ) -> None:
        self._regions = regions
        self.in_memory = backing is None
        self.roots = directory / "roots"
        self.data = directory / "data" if backing is None else backing
        self._workshop = workshop
        available = memory_available()
        self.root_disks_bytes = int(available * _ROOTS_SHARE)
        """The bytes that the root disks of all instances may take together."""
        workshop.run(lambda: self._mount(available))
        self._data_descriptor = workshop.run(lambda: os.open(self.data, os.O_RDONLY | os.O_DIRECTORY))
        self._closed = threading.Event()
        self._most = self._bound = int(available * _VOLUMES_SHARE)
        self._reserve = int(_memory("MemTotal") * _RESERVE_SHARE)
        self._follower = threading.Thread(target=self._follow_memory, name="memory bound", daemon=True)
        if self.in_memory:
            self._follower.start()

    def _mount(self, available: int) -> None:
        self.roots.mkdir(exist_ok=True)
        _mount_tmpfs(self.roots, self.root_disks_bytes)
        if self.in_memory:
            self.data.mkdir(exist_ok=True)
            _mount_tmpfs(self.data, int(available * _VOLUMES_SHARE))
        elif not self.data.is_dir():
            raise NoRoom(f"the backing directory {self.data} does not exist or is not a directory")

    def _follow_memory(self) -> None:
        while not self._closed.wait(_FOLLOW_S):
            facts = os.fstatvfs(self._data_descriptor)
            used = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
            # At least 1 MiB: a size of 0 means no limit to tmpfs.
            most = quota(used, memory_available(), reserve=self._reserve, regions=self._regions())
            bound = max(MIB, min(self._most, most))
            if abs(bound - self._bound) >= _FOLLOW_STEP:
                self._workshop.run(partial(self._resize, bound))
                self._bound = bound

    def _resize(self, size: int) -> None:
        # A file system cannot become smaller than its data; it is full then, as intended.
        with contextlib.suppress(OSError):
            _mount_tmpfs(self.data, size, linux.MS_REMOUNT)

    def room(self) -> int:
        """Return the bytes that volumes can still take."""
        facts = os.fstatvfs(self._data_descriptor)
        free = facts.f_bavail * facts.f_frsize
        return min(free, memory_available()) if self.in_memory else free

    def new_file(self, size: int) -> int:
        """Return a descriptor of a sparse file without a name, which vanishes with its last holder."""

        def make() -> int:
            descriptor = os.open(self.data, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(descriptor, size)
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor

        return self._workshop.run(make)

    def close(self) -> None:
        """Close the directory. The mounts vanish with the workshop."""
        self._closed.set()
        if self._follower.is_alive():
            self._follower.join()
        if self._data_descriptor >= 0:
            os.close(self._data_descriptor)
            self._data_descriptor = -1


def _mount_tmpfs(place: Path, size: int, flags: int = 0) -> None:
    linux.mount("cloudbench", str(place), "tmpfs", flags, f"mode=700,size={size}")


@dataclass
class Disk:
    """The data of one volume and, while it is attached, its loop device and the file that paces its data.

    ``size`` and ``io_unit`` are in bytes; up to an ``io_unit`` counts as one I/O. ``label`` names the disk in the
    kernel's list of loop devices.
    """

    size: int
    io_unit: int
    descriptor: int
    parts: RegionParts
    label: str
    loop: LoopDevice | None = None
    paced: PacedFile | None = None

    def plug_in(self, paced: PacedFile | None = None) -> LoopDevice:
        """Bind the loop device, whose queue splits requests larger than one I/O of the volume.

        ``paced`` is the file that paces the data, which `unplug` detaches; without it the data are not paced.
        """
        self.paced = paced
        try:
            behind = os.dup(self.descriptor) if paced is None else paced.open()
            try:
                self.loop = self.parts.workshop.run(
                    lambda: bind_loop_device(behind, self.label, self.parts.store.roots)
                )
            finally:
                os.close(behind)
        except BaseException:
            self.unplug()
            raise
        self.loop.set_queue("scheduler", "none")
        self.loop.set_queue("nomerges", "2")
        self.loop.set_queue("max_sectors_kb", str(self.io_unit // KIB))
        return self.loop

    def modify(self, *, size: int, io_unit: int) -> None:
        """Enlarge the data to ``size`` bytes and count I/Os of up to ``io_unit``. `grow` enlarges the device."""
        if io_unit != self.io_unit:
            self.io_unit = io_unit
            if self.loop is not None:
                self.loop.set_queue("max_sectors_kb", str(io_unit // KIB))
        if size > self.size:
            os.ftruncate(self.descriptor, size)
            self.size = size

    def grow(self) -> None:
        """Enlarge the device to the size of its file."""
        if self.loop is not None:
            self.loop.take_new_size()

    def flush(self) -> None:
        """Write the data that the kernel still buffers for the device.

        The kernel does that when the last program closes a device, but the region has this one open too.
        """
        if self.loop is not None:
            with contextlib.suppress(OSError):  # its I/O fails: there is nothing to save
                os.fsync(self.loop.descriptor)

    def fail(self) -> None:
        """Make all I/O fail until `unplug`, as on an NVMe device that was removed.

        The device becomes empty; otherwise the page cache would continue to answer buffered I/O.
        """
        if self.paced is not None:
            self.paced.fail()
            if self.loop is not None:
                with contextlib.suppress(OSError):
                    self.loop.take_new_size()

    def unplug(self) -> None:
        """Unbind the loop device and keep the data."""
        if self.loop is not None:
            self.loop.release()
        if self.paced is not None:
            self.paced.detach()
        self.loop = self.paced = None

    def close(self) -> None:
        """Remove the loop device and the data."""
        self.unplug()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def new_disk(name: str, size: int, io_unit: int, parts: RegionParts, *, owner: str = "") -> Disk:
    """Make an empty disk of ``size`` bytes. Raises `NoRoom` if nothing could ever be written to it.

    ``owner`` is the instance whose local disk it is.
    """
    store = parts.store
    room = store.room()
    words = f"{size // GIB} GiB"
    if room < _LEAST_ROOM:
        where = "memory" if store.in_memory else str(store.data)
        raise NoRoom(
            f"no room for {name} ({words}): {room // MIB} MiB of {where} are left for volumes' data, "
            f"at least {_LEAST_ROOM // MIB} MiB are needed; delete volumes or start the region with --backing DIR"
        )
    try:
        descriptor = store.new_file(size)
    except OSError as error:
        raise NoRoom(f"no file of {words} can be made for {name}: {error.strerror}") from error
    label = "/".join(part for part in (parts.slot.name, owner, name) if part)
    return Disk(size, io_unit, descriptor, parts, label)


def nitro_node(number: int, volume_id: str, loop: LoopDevice) -> Node:
    """Return the node of an instance's NVMe device; number 0 is its root disk."""
    return nvme_node(f"nvme{number}n1", f"Amazon_Elastic_Block_Store_{volume_id.replace('-', '')}", loop)


def nvme_node(name: str, model_and_serial: str, loop: LoopDevice) -> Node:
    """Return the node of an NVMe device, with the links that identify it."""
    link = f"disk/by-id/nvme-{model_and_serial}"
    return Node(name, loop.major, loop.minor, (link, f"{link}_1", f"{link}-ns-1"))


def xen_node(device_name: str, loop: LoopDevice) -> Node:
    """Return the node on a Xen type: the attachment's device name as /dev/xvdX."""
    letters = re.sub(r"^(?:/dev/)?(?:xvd|sd|hd)", "", device_name)
    return Node(f"xvd{letters}", loop.major, loop.minor)
