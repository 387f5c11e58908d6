"""The part of the FUSE protocol that a flat directory of files needs. Pure: bytes in, bytes out.

A file is a volume: its node number is the volume's number, and its size the volume's. The region chooses its name. The
layouts are those of the kernel's include/uapi/linux/fuse.h, protocol 7.31 and later.
"""

from __future__ import annotations

import errno
import stat
import struct
from collections.abc import Mapping
from typing import Protocol

LOOKUP, FORGET, GETATTR, OPEN, READ, WRITE = 1, 2, 3, 14, 15, 16
STATFS, RELEASE, INIT, INTERRUPT, DESTROY, BATCH_FORGET, FALLOCATE = 17, 18, 26, 36, 38, 42, 43

ROOT = 1
LARGEST_REQUEST = 1 << 20
"""Bytes of one read or write: 256 pages, the most that the kernel sends."""

IN_HEADER_BYTES = 40
FIXED_BYTES = 80
"""Header and fixed part of a read or a write. A write's data follow."""
IN_HEADER = struct.Struct("<IIQQ").unpack_from
"""Length, operation, number of the request and node of any request."""
READ_OR_WRITE = struct.Struct("<IIQQ16x8xQI").unpack_from
"""The same, then offset and size of a read or write."""

_OUT_HEADER = struct.Struct("<IiQ")
_WRITTEN = struct.Struct("<IiQII")
_INIT_IN = struct.Struct("<IIII")
_INIT_OUT = struct.Struct("<IIIIHHIIHHI28x")
_MAJOR, _MINOR = 7, 31
_ASYNC_READ, _BIG_WRITES, _ASYNC_DIO, _MAX_PAGES = 1 << 0, 1 << 5, 1 << 15, 1 << 22
_MOST_IN_BACKGROUND = 65_535  # the default of 12 costs a third of the rate
_OPEN_DIRECT_IO, _OPEN_PARALLEL_DIRECT_WRITES = 1 << 0, 1 << 6
_ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
_ENTRY = struct.Struct("<QQQQII")
_ATTRIBUTES_VALID = struct.Struct("<QII")
_OPENED = struct.Struct("<QII")
_STATFS = struct.Struct("<QQQQQIIII24x")
_FALLOCATE_IN = struct.Struct("<QQQII")
_PUNCH_HOLE, _ZERO_RANGE = 0x02, 0x10
_SILENT = (FORGET, BATCH_FORGET, INTERRUPT)


class File(Protocol):
    """A volume as a file."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def name(self) -> str:
        """The file's name."""

    def clear(self, offset: int, length: int) -> None:
        """Punch a hole. Raises OSError."""


def read_head(unique: int, size: int) -> bytes:
    """Return the header of the answer to a read of ``size`` bytes."""
    return _OUT_HEADER.pack(_OUT_HEADER.size + size, 0, unique)


def written(unique: int, size: int) -> bytes:
    """Return the answer to a write of ``size`` bytes."""
    return _WRITTEN.pack(_WRITTEN.size, 0, unique, size, 0)


def refused(unique: int, number: int) -> bytes:
    """Return the answer to a request that failed with an error number."""
    return _OUT_HEADER.pack(_OUT_HEADER.size, -number, unique)


def answered(unique: int, body: bytes = b"") -> bytes:
    """Return the answer to a request that succeeded."""
    return _OUT_HEADER.pack(_OUT_HEADER.size + len(body), 0, unique) + body


def answer(operation: int, unique: int, node: int, body: bytes, files: Mapping[int, File]) -> bytes | None:
    """Return the answer to a request other than a read or a write; None if the kernel expects none.

    Other operations are refused with ENOSYS. The kernel then sends no further flush or fsync.
    """
    if operation in _SILENT:
        return None
    try:
        return _answer(operation, unique, node, body, files)
    except OSError as error:
        return refused(unique, error.errno or errno.EIO)


def _answer(  # noqa: PLR0911 - one for each operation
    operation: int, unique: int, node: int, body: bytes, files: Mapping[int, File]
) -> bytes:
    if operation == INIT:
        return answered(unique, _init(body))
    if operation == LOOKUP:
        name = body.rstrip(b"\0").decode(errors="replace")
        for number, file in files.items():
            if file.name == name:
                return answered(unique, _ENTRY.pack(number, 0, 0, 0, 0, 0) + _attributes(number, files))
        return refused(unique, errno.ENOENT)
    if operation == GETATTR:
        if node != ROOT and node not in files:
            return refused(unique, errno.ENOENT)
        return answered(unique, _ATTRIBUTES_VALID.pack(0, 0, 0) + _attributes(node, files))
    if operation == OPEN:
        return answered(unique, _OPENED.pack(node, _OPEN_DIRECT_IO | _OPEN_PARALLEL_DIRECT_WRITES, 0))
    if operation == FALLOCATE:
        _, offset, length, mode, _ = _FALLOCATE_IN.unpack_from(body)
        volume = files.get(node)
        if volume is None or not mode & (_PUNCH_HOLE | _ZERO_RANGE):
            return refused(unique, errno.EIO if volume is None else errno.EOPNOTSUPP)
        volume.clear(offset, length)
        return answered(unique)
    if operation == STATFS:
        return answered(unique, _STATFS.pack(0, 0, 0, 0, 0, 4096, 255, 4096, 0))
    if operation in (RELEASE, DESTROY):
        return answered(unique)
    return refused(unique, errno.ENOSYS)


def _init(body: bytes) -> bytes:
    _, minor, max_readahead, offered = _INIT_IN.unpack_from(body)
    flags = offered & (_ASYNC_READ | _BIG_WRITES | _ASYNC_DIO | _MAX_PAGES)
    return _INIT_OUT.pack(
        _MAJOR, min(minor, _MINOR), max_readahead, flags,
        _MOST_IN_BACKGROUND, _MOST_IN_BACKGROUND, LARGEST_REQUEST, 1, LARGEST_REQUEST // 4096, 0, 0,
    )  # fmt: skip


def _attributes(node: int, files: Mapping[int, File]) -> bytes:
    if node == ROOT:
        size, mode = 0, stat.S_IFDIR | 0o500
    else:
        size, mode = files[node].size, stat.S_IFREG | 0o600
    return _ATTRIBUTES.pack(node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
