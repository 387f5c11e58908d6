"""Snapshots: copies of volumes' data that outlive the volumes. Holes are not copied.

If the file system can share blocks (btrfs or XFS under a backing directory), a copy is instantaneous. Otherwise it
takes time, and data written to the volume meanwhile may or may not be in it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_cloudbench.twin.volumes.disks import MIB, NoRoom, Store

_FICLONE = 0x40049409
_PIECE = 16 * MIB
_CANNOT_COPY = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOSYS)


class Cancelled(RuntimeError):
    """The snapshot was deleted while it was being made."""


@dataclass
class Snapshot:
    """The data of one snapshot: ``data`` bytes without holes, of which ``copied`` are copied so far."""

    descriptor: int
    size: int
    data: int = 0
    copied: int = 0
    complete: bool = False
    deleted: bool = False

    @property
    def percent(self) -> int:
        if self.complete:
            return 100
        return min(99, self.copied * 100 // self.data) if self.data else 0


class Snapshots:
    """All snapshots of a region. Methods may be called from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: dict[str, Snapshot] = {}

    def take(self, snapshot_id: str, descriptor: int, size: int) -> None:
        """Copy a volume's data; returns when the copy is complete.

        Raises `NoRoom` if the copy does not fit, `Cancelled` if it was deleted meanwhile, or OSError; then there is no
        snapshot.
        """
        with contextlib.ExitStack() as held:
            source = os.dup(descriptor)  # the volume may be deleted meanwhile
            held.callback(os.close, source)
            target = self._new_file(size, snapshot_id)
            held.callback(os.close, target)
            snapshot = Snapshot(os.dup(target), size)
            with self._lock:
                self._kept[snapshot_id] = snapshot
            try:
                self._fill(snapshot, source, target, snapshot_id)
            except BaseException:
                self.delete(snapshot_id)
                raise
        with self._lock:
            if snapshot.deleted:
                raise Cancelled(f"{snapshot_id} was deleted while it was being made")
            snapshot.complete = True

    def percent(self, snapshot_id: str) -> int:
        """Return the progress of a snapshot in percent; 0 before its copy begins."""
        snapshot = self._kept.get(snapshot_id)
        return snapshot.percent if snapshot is not None else 0

    def restore(self, snapshot_id: str, descriptor: int) -> int:
        """Copy a snapshot into a new volume's file, which may be larger; return the bytes of data.

        Raises `NoRoom`, and KeyError if there is no complete snapshot of this id.
        """
        with self._lock:
            snapshot = self._kept[snapshot_id]
            if not snapshot.complete:
                raise KeyError(snapshot_id)
            source = os.dup(snapshot.descriptor)
        try:
            if not _shared(source, descriptor):
                self._refuse_without_room(snapshot.data, f"a volume from {snapshot_id}")
                for _ in copied_pieces(source, descriptor, snapshot.size):
                    pass
            elif snapshot.size < (whole := os.fstat(descriptor).st_size):
                os.ftruncate(descriptor, whole)
        finally:
            os.close(source)
        return snapshot.data

    def delete(self, snapshot_id: str) -> None:
        """Remove a snapshot, complete or not. Unknown ones are ignored."""
        with self._lock:
            snapshot = self._kept.pop(snapshot_id, None)
            if snapshot is not None:
                snapshot.deleted = True
                os.close(snapshot.descriptor)

    def close(self) -> None:
        for snapshot_id in list(self._kept):
            self.delete(snapshot_id)

    def _new_file(self, size: int, snapshot_id: str) -> int:
        try:
            return self._store.new_file(size)
        except OSError as error:
            raise NoRoom(f"no file can be made for {snapshot_id}: {error.strerror}") from error

    def _fill(self, snapshot: Snapshot, source: int, target: int, snapshot_id: str) -> None:
        os.fdatasync(source)
        snapshot.data = sum(end - start for start, end in data_pieces(source, snapshot.size))
        if _shared(source, target):
            return
        self._refuse_without_room(snapshot.data, snapshot_id)
        for copied in copied_pieces(source, target, snapshot.size):
            snapshot.copied += copied
            if snapshot.deleted:
                return

    def _refuse_without_room(self, needed: int, what: str) -> None:
        room = self._store.room()
        if needed > room:
            raise NoRoom(
                f"{what} needs {needed // MIB} MiB for its data, {room // MIB} MiB are left: delete volumes and "
                "snapshots, or start the region with --backing DIR"
            )


def data_pieces(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a sparse file that hold data, as (start, end)."""
    end = 0
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole follows
                return
            raise
        if start >= size:
            return
        end = min(size, os.lseek(descriptor, start, os.SEEK_HOLE))
        yield start, end


def copied_pieces(source: int, target: int, size: int) -> Iterator[int]:
    """Copy the data of a sparse file to the same places of another; yield the bytes of each piece."""
    copy = _by_the_kernel
    for start, end in data_pieces(source, size):
        at = start
        while at < end:
            try:
                copied = copy(source, target, min(_PIECE, end - at), at)
            except OSError as error:
                if copy is _through_memory or error.errno not in _CANNOT_COPY:
                    raise
                copy = _through_memory
                continue
            if copied == 0:  # the file was truncated meanwhile
                return
            at += copied
            yield copied


def _by_the_kernel(source: int, target: int, count: int, at: int) -> int:
    return os.copy_file_range(source, target, count, at, at)


def _through_memory(source: int, target: int, count: int, at: int) -> int:
    data = memoryview(os.pread(source, count, at))
    written = 0
    while written < len(data):
        written += os.pwrite(target, data[written:], at + written)
    return written


def _shared(source: int, target: int) -> bool:
    """Let the target share the source's blocks; return False if that is not possible."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(target, _FICLONE, source)
        return True
    return False
