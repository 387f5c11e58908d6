"""The loop that reads and answers requests, with a socket in place of the kernel's device."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import signal
import socket
import struct
import threading
from time import monotonic

import pytest
from virtual_time import volume_state

from pytest_cloudbench.twin.volumes import fuse
from pytest_cloudbench.twin.volumes.figures import Limit, StageFigures, VolumeFigures
from pytest_cloudbench.twin.volumes.request_loop import END, MESSAGE, REQUEST, TIME

NODE = 2
SIZE = 64 * 1024
FOREVER = math.inf


class Kernel:
    """The kernel's side of a file system, and the loop that serves it.

    Such a socket holds ten messages at the most.
    """

    def __init__(self, engine, undo):
        device, self.kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control, self.region = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (device, self.kernel, control, self.region):
            undo.enter_context(end)
        device.setblocking(False)
        self.kernel.settimeout(5)
        self.ends = device, control
        self.data = os.memfd_create("data")
        undo.callback(os.close, self.data)
        os.ftruncate(self.data, SIZE)
        self.pacer = engine.Pacer()
        self.pacer.add(NODE, self.data, volume_state(), 0.0)
        self.pacer.limit_volume(NODE, VolumeFigures(256 * 1024), (None, None), monotonic())
        self.loop = engine.RequestLoop(self.pacer, device.fileno(), control.fileno())

    def limit(self, iops):
        figures = VolumeFigures(256 * 1024, limits=StageFigures(Limit(iops)))
        self.pacer.limit_volume(NODE, figures, (None, None), monotonic())

    def ask(self, operation, unique, offset=0, size=0, data=b"", node=NODE):
        fixed = struct.pack("<IIQQ16x8xQI20x", 80 + len(data), operation, unique, node, offset, size)
        self.kernel.send(fixed + data)

    def read(self, unique, offset, size, node=NODE):
        self.ask(fuse.READ, unique, offset, size, node=node)

    def write(self, unique, offset, data):
        self.ask(fuse.WRITE, unique, offset, len(data), data)

    def answer(self):
        """Return the number of a request, its error and its data."""
        said = self.kernel.recv(2**20)
        length, problem, unique = struct.unpack_from("<IiQ", said)
        assert length == len(said)
        return unique, -problem, said[16:]

    @property
    def unanswered(self):
        return not select.select([self.kernel], [], [], 0)[0]


@pytest.fixture
def kernel(engine):
    with contextlib.ExitStack() as undo:
        yield Kernel(engine, undo)


def test_reads_return_written_data(kernel):
    kernel.write(11, 4096, b"written" * 100)
    kernel.read(12, 4096 + 7, 14)
    assert kernel.loop.serve(monotonic()) == (TIME, b"")
    assert kernel.answer() == (11, 0, struct.pack("<II", 700, 0))
    assert kernel.answer() == (12, 0, b"writtenwritten")
    assert os.pread(kernel.data, 7, 4096) == b"written"
    figures = kernel.pacer.figures(NODE, monotonic())
    assert figures[:4] == (1, 1, 14, 700)
    assert figures.queue_length == 0


def test_reads_behind_the_end_of_the_data_return_zeros(kernel):
    os.pwrite(kernel.data, b"end", SIZE - 3)
    kernel.read(1, SIZE - 3, 10)
    kernel.read(2, 2 * SIZE, 4096)
    kernel.loop.serve(monotonic())
    assert kernel.answer() == (1, 0, b"end" + bytes(7))
    assert kernel.answer() == (2, 0, bytes(4096))


@pytest.mark.alone  # judges milliseconds
def test_answers_come_when_they_are_due(kernel):
    kernel.limit(100)
    begin = monotonic()
    for number in range(5):
        kernel.read(number, number * 7 * 2**20, 512)
    kernel.loop.serve(begin + 0.005)
    assert kernel.answer()[0] == 0
    assert kernel.unanswered
    kernel.loop.serve(begin + 0.06)
    assert [kernel.answer()[0] for _ in range(4)] == [1, 2, 3, 4]
    figures = kernel.pacer.figures(NODE, monotonic())
    assert figures.modelled_s == pytest.approx(0.096, abs=0.005)
    assert figures.read_time_s >= figures.modelled_s - 0.0005


def test_without_a_time_the_first_requests_end_the_wait(kernel):
    begin = monotonic()
    threading.Timer(0.05, kernel.read, [1, 0, 512]).start()
    assert kernel.loop.serve(FOREVER) == (TIME, b"")
    assert monotonic() - begin >= 0.05
    assert kernel.answer()[0] == 1


def test_a_time_ends_the_wait(kernel):
    begin = monotonic()
    assert kernel.loop.serve(begin + 0.05) == (TIME, b"")
    assert monotonic() >= begin + 0.0498


def test_other_requests_are_returned_to_the_caller(kernel):
    kernel.read(1, 0, 512)
    kernel.kernel.send(struct.pack("<IIQQ16x", 47, fuse.LOOKUP, 2, 1) + b"volume\0")
    kernel.kernel.send(struct.pack("<IIQQ16x", 200, 4, 3, 1) + bytes(160))
    event, request = kernel.loop.serve(FOREVER)
    assert event == REQUEST
    assert fuse.IN_HEADER(request) == (47, fuse.LOOKUP, 2, 1)
    assert request[fuse.IN_HEADER_BYTES :] == b"volume\0"
    event, request = kernel.loop.serve(FOREVER)
    assert (event, len(request), request[40:]) == (REQUEST, 200, bytes(160))
    assert kernel.loop.serve(monotonic()) == (TIME, b"")
    assert kernel.answer()[0] == 1


def test_a_message_of_the_region_is_noticed(kernel):
    threading.Timer(0.05, kernel.region.send, [b"message"]).start()
    assert kernel.loop.serve(FOREVER) == (MESSAGE, b"")
    kernel.region.close()
    assert kernel.loop.serve(FOREVER) == (MESSAGE, b"")


def test_a_message_is_noticed_under_a_steady_load(kernel):
    for number in range(8):
        kernel.read(number, 0, 512)
    kernel.region.send(b"message")
    assert kernel.loop.serve(monotonic() + 1) == (MESSAGE, b"")


def test_the_end_of_the_file_system_is_an_end(kernel):
    kernel.kernel.close()
    assert kernel.loop.serve(FOREVER) == (END, b"")


@pytest.mark.parametrize("node", [NODE, 9])
def test_requests_to_a_failed_or_removed_volume_are_refused(kernel, node):
    kernel.pacer.fail(NODE)
    kernel.read(5, 0, 512, node=node)
    kernel.loop.serve(monotonic())
    assert kernel.answer() == (5, errno.EIO, b"")


def test_dropped_requests_are_refused(kernel):
    kernel.limit(1)
    for number in range(3):
        kernel.read(number, number * 7 * 2**20, 512)
    kernel.loop.serve(monotonic())
    kernel.answer()
    kernel.pacer.fail(NODE)
    for dropped in kernel.pacer.drop(NODE):
        kernel.loop.answer(dropped)
    assert [kernel.answer() for _ in range(2)] == [(1, errno.EIO, b""), (2, errno.EIO, b"")]
    assert kernel.pacer.figures(NODE, monotonic()).queue_length == 0


def test_an_error_of_the_data_is_returned(kernel, engine):
    read_only = os.open("/dev/null", os.O_RDONLY)
    directory = os.open("/", os.O_RDONLY)
    try:
        for node, backing in ((5, read_only), (6, directory)):
            kernel.pacer.add(node, backing, volume_state(), 0.0)
            kernel.pacer.limit_volume(node, VolumeFigures(256 * 1024), (None, None), monotonic())
        kernel.ask(fuse.WRITE, 1, 0, 512, bytes(512), node=5)
        kernel.read(2, 0, 512, node=6)
        kernel.loop.serve(monotonic())
        assert kernel.answer() == (1, errno.EBADF, b"")
        assert kernel.answer() == (2, errno.EISDIR, b"")
    finally:
        os.close(read_only)
        os.close(directory)


def test_many_requests_are_answered_once_each(kernel):
    kernel.limit(20_000)
    asked, answered = 2000, []

    def keep_eight_in_flight():
        for number in range(asked):
            if number >= 8:
                answered.append(kernel.answer()[0])
            kernel.read(number, number * 7919 % 16 * 4096, 4096)
        answered.extend(kernel.answer()[0] for _ in range(8))

    load = threading.Thread(target=keep_eight_in_flight)
    begin = monotonic()
    load.start()
    while load.is_alive():
        kernel.loop.serve(monotonic() + 0.05)
    load.join()
    assert sorted(answered) == list(range(asked))
    assert monotonic() - begin >= 0.095


def test_a_signal_ends_the_wait(kernel):
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel.loop.serve(FOREVER)
    finally:
        signal.signal(signal.SIGALRM, before)


class TestCompiled:
    """Refusals that only code without managed memory needs."""

    @pytest.fixture
    def engine(self, core):
        return core

    def test_malformed_requests_are_refused(self, kernel):
        kernel.ask(fuse.WRITE, 1, 0, 8192, b"less than it says")
        kernel.read(2, 0, fuse.LARGEST_REQUEST + 1)
        kernel.read(3, 2**63, 4096)
        kernel.kernel.send(struct.pack("<IIQQ16x", 40, fuse.READ, 4, NODE))
        kernel.loop.serve(monotonic())
        assert [kernel.answer() for _ in range(4)] == [(number, errno.EIO, b"") for number in (1, 2, 3, 4)]
        kernel.kernel.send(b"short")
        assert kernel.loop.serve(FOREVER) == (REQUEST, b"short")

    def test_an_answer_larger_than_a_request_is_refused(self, kernel):
        for size in (-1, fuse.LARGEST_REQUEST + 1):
            with pytest.raises(ValueError, match="bytes"):
                kernel.loop.answer((0.0, NODE, 0.0, size, False, 0, 0, 0))

    def test_a_loop_needs_a_compiled_pacer(self, kernel, core, python):
        with pytest.raises(TypeError):
            core.RequestLoop(python.Pacer(), *(end.fileno() for end in kernel.ends))
