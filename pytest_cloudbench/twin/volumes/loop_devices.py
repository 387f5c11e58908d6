"""Loop devices: binding one to an open file, and unbinding it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import time
from dataclasses import dataclass
from pathlib import Path

_LOOP_CLR_FD = 0x4C01
_LOOP_SET_CAPACITY = 0x4C07
_LOOP_SET_DIRECT_IO = 0x4C08
_LOOP_CONFIGURE = 0x4C0A
_LOOP_CTL_GET_FREE = 0x4C82
_LO_FLAGS_AUTOCLEAR = 4
_LO_FLAGS_DIRECT_IO = 16
_SYS = Path("/sys/block")
_TRIES = 64  # another process may take the device that the kernel reported as free
RELEASE_S = 5.0
"""Longest wait, in seconds, until the kernel releases a halted instance's mounts after its last process (chosen)."""


@dataclass
class LoopDevice:
    """A bound loop device. It unbinds by itself when its last holder closes it or dies."""

    number: int
    major: int
    minor: int
    descriptor: int

    def busy(self) -> bool:
        """Return True if it is mounted or opened exclusively."""
        path = f"/proc/self/fd/{self.descriptor}"
        try:
            probe = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.EBUSY:
                return True
            raise
        os.close(probe)
        return False

    def wait_until_free(self, limit_s: float) -> bool:
        """Wait until it is not busy; return False if it still is after ``limit_s`` seconds."""
        deadline = time.monotonic() + limit_s
        while self.busy():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def set_queue(self, name: str, value: str) -> None:
        """Write one queue setting. Without effect if the kernel lacks it."""
        with contextlib.suppress(OSError):
            (_SYS / f"loop{self.number}" / "queue" / name).write_text(value)

    def take_new_size(self) -> None:
        """Resize the device to the present size of its backing file."""
        fcntl.ioctl(self.descriptor, _LOOP_SET_CAPACITY)

    def release(self) -> None:
        """Unbind it. If others have it open, it unbinds when the last of them closes it."""
        if self.descriptor < 0:
            return
        with contextlib.suppress(OSError):
            fcntl.ioctl(self.descriptor, _LOOP_CLR_FD)
        os.close(self.descriptor)
        self.descriptor = -1


def _configuration(backing: int, flags: int, label: str) -> bytes:
    info = struct.pack("=5Q4I64s64s32s2Q", 0, 0, 0, 0, 0, 0, 0, 0, flags, label.encode()[:63], b"", b"", 0, 0)
    return struct.pack("=II", backing, 0) + info + bytes(64)


def _open_node(number: int, nodes: Path) -> int:
    """Open the loop device's node in /dev, or, if /dev lacks it (containers), one made in ``nodes``."""
    try:
        return os.open(f"/dev/loop{number}", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        major, minor = (_SYS / f"loop{number}" / "dev").read_text().split(":")
        node = nodes / f"loop{number}"
        if not node.exists():
            os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(int(major), int(minor)))
        return os.open(node, os.O_RDWR | os.O_CLOEXEC)


def bind_loop_device(backing: int, label: str, nodes: Path) -> LoopDevice:
    """Bind a free loop device to the open file ``backing``, with direct I/O if the file supports it.

    ``nodes`` is a directory on a file system that allows device nodes. Raises `OSError`.
    """
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(_TRIES):
            number = fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
            descriptor = _open_node(number, nodes)
            try:
                _configure(descriptor, backing, label)
            except OSError as error:
                os.close(descriptor)
                if error.errno == errno.EBUSY:
                    continue
                raise
            device = os.fstat(descriptor).st_rdev
            if (_SYS / f"loop{number}" / "loop" / "dio").read_text().strip() != "1":
                with contextlib.suppress(OSError):
                    fcntl.ioctl(descriptor, _LOOP_SET_DIRECT_IO, 1)
            return LoopDevice(number, os.major(device), os.minor(device), descriptor)
    finally:
        os.close(control)
    raise OSError(errno.EBUSY, f"no loop device could be bound in {_TRIES} tries")


def _configure(descriptor: int, backing: int, label: str) -> None:
    try:
        fcntl.ioctl(
            descriptor,
            _LOOP_CONFIGURE,
            _configuration(backing, _LO_FLAGS_AUTOCLEAR | _LO_FLAGS_DIRECT_IO, label),
        )
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # Some kernels refuse the flag if the file has no direct I/O.
        fcntl.ioctl(descriptor, _LOOP_CONFIGURE, _configuration(backing, _LO_FLAGS_AUTOCLEAR, label))
