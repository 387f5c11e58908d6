"""Volumes' data: sparse files without a name, and the loop devices through which instances see them."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pytest_cloudbench.twin import linux
from pytest_cloudbench.twin.hosts.hosts import Node
from pytest_cloudbench.twin.volumes.loop_devices import LoopDevice, bind_loop_device
from pytest_cloudbench.twin.volumes.volume_process import PacedFile
from pytest_cloudbench.twin.workshop import Workshop

GIB = 1024**3
MIB = 1024**2
KIB = 1024
_LEAST_ROOM = 64 * MIB  # a file system on a volume takes about that much before the first file
_VOLUMES_SHARE = 0.8
_RESERVE_SHARE = 0.05  # of what was available at the start: the machine's own, whoever else takes memory
_FOLLOW_S = 0.5
_FOLLOW_STEP = 64 * MIB
_ROOTS_SHARE = 0.15


class NoRoom(RuntimeError):
    """There is no room for a volume's data on this machine."""


def memory_available() -> int:
    """Bytes of memory this machine can still give, by its own estimate."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found.group(1)) * KIB if found else 0


class Store:
    """Where the region keeps its bytes: two private tmpfs, or a directory of the user for volumes.

    ``data`` holds the volumes, ``roots`` the instances' root disks. Memory for volumes is bounded by a
    share of what was available at the start and, from then on, by what the machine has left, so that a test
    that writes too much gets an I/O error, as from a full disk, and the machine stays alive. The bound is
    drawn anew twice a second: other regions and programs take memory too. A backing directory is slower
    and roomier.
    """

    def __init__(self, directory: Path, workshop: Workshop, backing: Path | None) -> None:
        self.in_memory = backing is None
        self.roots = directory / "roots"
        self.data = directory / "data" if backing is None else backing
        self._workshop = workshop
        available = memory_available()
        workshop.run(lambda: self._mount(available))
        self._data_descriptor = workshop.run(lambda: os.open(self.data, os.O_RDONLY | os.O_DIRECTORY))
        self._closed = threading.Event()
        self._most = self._bound = int(available * _VOLUMES_SHARE)
        self._reserve = int(available * _RESERVE_SHARE)
        self._follower = threading.Thread(target=self._follow_memory, name="memory bound", daemon=True)
        if self.in_memory:
            self._follower.start()

    def _mount(self, available: int) -> None:
        self.roots.mkdir(exist_ok=True)
        linux.mount(
            "cloudbench", str(self.roots), "tmpfs", options=f"mode=700,size={int(available * _ROOTS_SHARE)}"
        )
        if self.in_memory:
            self.data.mkdir(exist_ok=True)
            size = int(available * _VOLUMES_SHARE)
            linux.mount("cloudbench", str(self.data), "tmpfs", options=f"mode=700,size={size}")
        elif not self.data.is_dir():
            raise NoRoom(f"the backing directory {self.data} does not exist or is no directory")

    def _follow_memory(self) -> None:
        while not self._closed.wait(_FOLLOW_S):
            facts = os.fstatvfs(self._data_descriptor)
            used = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
            # Never none: to tmpfs a size of 0 is no limit at all.
            bound = max(MIB, min(self._most, used + max(0, memory_available() - self._reserve)))
            if abs(bound - self._bound) >= _FOLLOW_STEP:
                self._workshop.run(partial(self._resize, bound))
                self._bound = bound

    def _resize(self, size: int) -> None:
        # A file system cannot be made smaller than what it holds; it is full then, which is what is wanted.
        with contextlib.suppress(OSError):
            linux.mount("cloudbench", str(self.data), "tmpfs", linux.MS_REMOUNT, f"mode=700,size={size}")

    def room(self) -> int:
        """Bytes that volumes can still take."""
        facts = os.fstatvfs(self._data_descriptor)
        free = facts.f_bavail * facts.f_frsize
        return min(free, memory_available()) if self.in_memory else free

    def new_file(self, size: int) -> int:
        """A descriptor of a sparse file that has no name, so it goes with its last holder."""

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
        """Let the directory go; the mounts go with the workshop."""
        self._closed.set()
        if self._follower.is_alive():
            self._follower.join()
        if self._data_descriptor >= 0:
            os.close(self._data_descriptor)
            self._data_descriptor = -1


@dataclass
class Disk:
    """The data of one volume and, while it is attached, its loop device.

    ``size`` and ``io_unit`` in bytes; up to an ``io_unit`` counts as one I/O.
    """

    volume_id: str
    size: int
    io_unit: int
    descriptor: int
    store: Store
    workshop: Workshop
    label: str
    loop: LoopDevice | None = field(default=None)

    def plug_in(self, paced: PacedFile | None = None) -> LoopDevice:
        """Bind the loop device, with a queue that splits what is larger than one I/O of the volume.

        ``paced`` is the file through which the data are paced; without it nothing paces them.
        """
        if self.loop is None:
            behind = os.dup(self.descriptor) if paced is None else paced.open()
            try:
                loop = self.workshop.run(lambda: bind_loop_device(behind, self.label, self.store.roots))
            finally:
                os.close(behind)
            loop.set_queue("scheduler", "none")
            loop.set_queue("nomerges", "2")
            self.loop = loop
            self._set_largest_request()
        return self.loop

    def _set_largest_request(self) -> None:
        if self.loop is not None:
            self.loop.set_queue("max_sectors_kb", str(self.io_unit // KIB))

    def modify(self, *, size: int, io_unit: int) -> None:
        """Make room for ``size`` bytes, and count I/Os of up to ``io_unit``. The device does not grow yet."""
        if io_unit != self.io_unit:
            self.io_unit = io_unit
            self._set_largest_request()
        if size > self.size:
            os.ftruncate(self.descriptor, size)
            self.size = size

    def grow(self) -> None:
        """Have the device take the size that the file behind it has by now."""
        if self.loop is not None:
            self.loop.take_new_size()

    def unplug(self) -> None:
        """Unbind the loop device; the data stay."""
        if self.loop is not None:
            self.loop.release()
            self.loop = None

    def close(self) -> None:
        """Give up loop device and data."""
        self.unplug()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def create_disk(
    volume_id: str, *, size_gib: int, io_unit: int, store: Store, workshop: Workshop, label: str
) -> Disk:
    """Make the data of a volume. Raises `NoRoom` when nothing could ever be written to it."""
    return new_disk(
        volume_id, size=size_gib * GIB, io_unit=io_unit, store=store, workshop=workshop, label=label
    )


def new_disk(name: str, *, size: int, io_unit: int, store: Store, workshop: Workshop, label: str) -> Disk:
    """Make an empty disk of ``size`` bytes. Raises `NoRoom` when nothing could ever be written to it."""
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
    return Disk(name, size, io_unit, descriptor, store, workshop, label)


def nitro_node(number: int, volume_id: str, loop: LoopDevice) -> Node:
    """The node of the ``number``-th NVMe device of an instance; number 0 would be its root disk."""
    link = f"disk/by-id/nvme-Amazon_Elastic_Block_Store_{volume_id.replace('-', '')}"
    return Node(f"nvme{number}n1", loop.major, loop.minor, (link, f"{link}_1", f"{link}-ns-1"))


def xen_node(device_name: str, loop: LoopDevice) -> Node:
    """The node on a Xen type: the attachment's device name, as /dev/xvdX."""
    letters = re.sub(r"^(?:/dev/)?(?:xvd|sd|hd)", "", device_name)
    return Node(f"xvd{letters}", loop.major, loop.minor)
