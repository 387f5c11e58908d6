"""The loop that reads requests from the kernel and answers each when it is due. `core.c` has the same loop compiled."""

from __future__ import annotations

import errno
import math
import mmap
import os
import select
from time import monotonic

from pytest_cloudbench.twin.volumes import fuse
from pytest_cloudbench.twin.volumes.pacer import Answer, Pacer

_BATCH = 32  # at most this many are read before due ones are answered, and answered before more are read
_LARGE_WRITE = 64 * 1024  # takes as long as many small ones, so other requests may be due afterwards
# Timers of the kernel are late. The usual delay, at most this much, is subtracted from each wait.
_MOST_OVERSHOOT_S = 0.0002
_EARLY_S = 0.00001

MESSAGE, TIME, REQUEST, END = "message", "time", "request", "end"


class RequestLoop:
    """Serves ``device``, the non-blocking descriptor of a FUSE file system, by the law of ``pacer``.

    The region sends its messages on the socket ``control``.
    """

    def __init__(self, pacer: Pacer, device: int, control: int) -> None:
        self._pacer = pacer
        self._device = device
        self._control = control
        self._data = memoryview(mmap.mmap(-1, fuse.LARGEST_REQUEST))
        self._head = bytearray(fuse.FIXED_BYTES)
        self._overshoot_s = 0.0

    def serve(self, until: float) -> tuple[str, bytes]:
        """Serve reads and writes until another event; return that event, and its request if it has one.

        MESSAGE: the region has sent a message. TIME: ``until`` on the monotonic clock is reached. REQUEST: a request
        that is neither a read nor a write. END: the file system is gone. If ``until`` is infinite, TIME is returned
        after the first request, so that the caller can set a time.
        """
        idle = math.isinf(until)
        # Under a steady load the loop below never waits, so messages are noticed here.
        if select.select([self._control], [], [], 0.0)[0]:
            return MESSAGE, b""
        while True:
            took, other = self._take_requests()
            if other is not None:
                return other
            gave = self._answer_due()
            now = monotonic()
            if now >= until or (idle and took):
                return TIME, b""
            if not took and not gave and self._wait(now, min(until, self._pacer.next_event())):
                return MESSAGE, b""

    def _wait(self, now: float, until: float) -> bool:
        """Wait for requests until a time; return True if the region has sent a message."""
        timeout = None if math.isinf(until) else max(0.0, until - now - self._overshoot_s)
        ready, _, _ = select.select([self._device, self._control], [], [], timeout)
        if not ready and timeout:
            late = monotonic() - now - timeout
            self._overshoot_s += 0.05 * (min(late, _MOST_OVERSHOOT_S) - self._overshoot_s)
        return self._control in ready

    def _take_requests(self) -> tuple[int, tuple[str, bytes] | None]:
        device, pacer, head, data = self._device, self._pacer, self._head, self._data
        buffers: list[bytearray | memoryview] = [head, data]
        for taken in range(_BATCH):
            try:
                length = os.readv(device, buffers)
            except BlockingIOError:
                return taken, None
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return taken, (END, b"")
                continue  # the request was interrupted meanwhile
            if not length:
                return taken, (END, b"")
            _, operation, unique, node, offset, size = fuse.READ_OR_WRITE(head)
            if operation not in (fuse.READ, fuse.WRITE):
                request = bytes(head[:length]) + bytes(data[: max(0, length - fuse.FIXED_BYTES)])
                return taken, (REQUEST, request)
            backing = pacer.backing(node)
            if backing < 0:
                self._send(fuse.refused(unique, errno.EIO))
                continue
            write, problem = operation == fuse.WRITE, 0
            if write:
                try:
                    if os.pwrite(backing, data[:size], offset) < size:
                        problem = errno.ENOSPC
                except OSError as error:
                    problem = error.errno or errno.EIO
            pacer.arrive(node, monotonic(), offset, size, write, unique, problem)
            if length > _LARGE_WRITE:
                return taken + 1, None
        return _BATCH, None

    def _answer_due(self) -> int:
        take_due = self._pacer.take_due
        for given in range(_BATCH):
            found = take_due(monotonic() + _EARLY_S)
            if found is None:
                return given
            self.answer(found)
        return _BATCH

    def answer(self, found: Answer) -> None:
        """Answer a request that was removed from the pacer."""
        pacer = self._pacer
        _, node, _, size, write, offset, unique, problem = found
        backing = pacer.backing(node)
        if problem or backing < 0:
            self._send(fuse.refused(unique, problem or errno.EIO))
        elif write:
            self._send(fuse.written(unique, size))
        else:
            data = self._data[:size]
            try:
                got = os.preadv(backing, (data,), offset)
            except OSError as error:
                self._send(fuse.refused(unique, error.errno or errno.EIO))
            else:
                if got < size:
                    data[got:] = bytes(size - got)
                self._send(fuse.read_head(unique, size), data)
        pacer.done(found, monotonic())

    def _send(self, head: bytes, data: bytes | memoryview = b"") -> None:
        try:
            os.writev(self._device, (head, data))
        except OSError as error:
            # The request was interrupted, or the file system is gone, which the next read reports.
            if error.errno not in (errno.ENOENT, errno.ENODEV):
                raise
