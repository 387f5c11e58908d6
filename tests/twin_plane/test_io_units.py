"""Counting I/Os as EBS does: the kernel's program against the rule, on a real loop device."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_cloudbench.twin import bpf, io_units, linux
from pytest_cloudbench.twin.counters import Counters
from pytest_cloudbench.twin.disk_counts import DiskCounts, PiecesPerUnit
from pytest_cloudbench.twin.io_units import Counted, open_io_units
from pytest_cloudbench.twin.loop_devices import bind_loop_device
from pytest_cloudbench.twin.workshop import Workshop

KIB, MIB = 1024, 1024**2
SIZE = 64 * MIB
UNIT = 256 * KIB
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: loop devices, programs in the kernel")
FORMAT = """name: block_bio_queue
ID: 2097
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;

	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:sector_t sector;	offset:16;	size:8;	signed:0;
	field:unsigned int nr_sector;	offset:24;	size:4;	signed:0;
	field:char rwbs[10];	offset:28;	size:10;	signed:0;

print fmt: "%d,%d"
"""


class Bench:
    """A loop device that is counted, and direct I/O on it."""

    def __init__(self, counter, loop, file):
        self.counter, self.loop, self._file = counter, loop, file
        self._buffer = memoryview(mmap.mmap(-1, 4 * MIB))

    def read(self, at, size):
        assert os.preadv(self._file, [self._buffer[:size]], at) == size

    def write(self, at, size):
        assert os.pwritev(self._file, [self._buffer[:size]], at) == size

    def start(self, unit=UNIT, *, merging=True):
        self.loop.set_queue("max_sectors_kb", str(unit // KIB))
        assert self.counter.watch(self.loop, unit, merging=merging)

    @property
    def counted(self):
        return self.counter.counted(self.loop.minor)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    directory = tmp_path_factory.mktemp("io-units")
    with contextlib.ExitStack() as undo:
        workshop = Workshop()
        undo.callback(workshop.close)

        def make_file():
            linux.mount("io-units", str(directory), "tmpfs", options=f"size={2 * SIZE}")
            file = os.open(directory, os.O_RDWR | os.O_TMPFILE, 0o600)
            os.ftruncate(file, SIZE)
            return file

        backing = workshop.run(make_file)
        undo.callback(os.close, backing)
        counter = open_io_units(workshop, directory)
        if counter is None:
            pytest.skip("this kernel runs no such programs")
        undo.callback(counter.close)
        loop = workshop.run(lambda: bind_loop_device(backing, "test/io-units", directory))
        undo.callback(loop.release)
        loop.set_queue("scheduler", "none")
        loop.set_queue("nomerges", "2")
        file = os.open(f"/proc/self/fd/{loop.descriptor}", os.O_RDWR | os.O_DIRECT)
        undo.callback(os.close, file)
        if shutil.which("udevadm"):
            # Where udev is, it reads every new device, and its I/Os would be counted too.
            subprocess.run(["udevadm", "settle"], check=False)
        yield Bench(counter, loop, file)


@needs_root
@pytest.mark.embedded
class TestTheProgram:
    def test_eight_of_32_kib_in_a_row_are_one_and_at_random_eight(self, bench):
        bench.start()
        for number in range(8):
            bench.read(5 * MIB + number * 32 * KIB, 32 * KIB)
        assert bench.counted == Counted(read_units=1, read_pieces=8)
        bench.start()
        for number in (3, 0, 6, 1, 7, 4, 2, 5):
            bench.read(number * 8 * MIB, 32 * KIB)
        assert bench.counted == Counted(read_units=8, read_pieces=8)

    def test_one_of_1024_kib_is_four_on_ssd_and_one_on_hdd(self, bench):
        bench.start()
        bench.read(8 * MIB, MIB)
        bench.write(16 * MIB, MIB)
        assert (bench.counted.read_units, bench.counted.write_units) == (4, 4)
        bench.start(MIB)
        bench.read(24 * MIB, MIB)
        assert bench.counted.read_units == 1

    def test_pieces_are_the_requests_that_the_device_takes(self, bench):
        def requests():
            return int((bench.loop.sysfs / "stat").read_text().split()[0])

        for unit, size in ((UNIT, MIB), (MIB, 4 * MIB), (16 * KIB, 64 * KIB), (UNIT, 260 * KIB)):
            bench.start(unit)
            before = requests()
            bench.read(0, size)
            assert bench.counted.read_pieces == requests() - before

    def test_a_unit_of_16_kib_merges_nothing(self, bench):
        bench.start(16 * KIB, merging=False)
        for number in range(10):
            bench.read(number * 4 * KIB, 4 * KIB)
        assert bench.counted.read_units == 10
        bench.read(MIB, 64 * KIB)
        bench.read(2 * MIB, 24 * KIB)
        assert bench.counted.read_units == 10 + 4 + 2

    def test_streams_side_by_side_merge_each_for_itself(self, bench):
        bench.start()
        for number in range(64):
            for stream in range(16):
                bench.read(stream * 4 * MIB + number * 4 * KIB, 4 * KIB)
        assert bench.counted == Counted(read_units=16, read_pieces=1024)

    def test_reads_do_not_go_on_where_writes_end(self, bench):
        bench.start()
        for number in range(0, 8, 2):
            bench.write(number * 4 * KIB, 4 * KIB)
            bench.read((number + 1) * 4 * KIB, 4 * KIB)
        assert (bench.counted.read_units, bench.counted.write_units) == (4, 4)

    def test_two_sequels_alone_are_not_believed(self, bench):
        bench.start()
        for place in (1, 9, 30):
            for number in range(3):
                bench.read(place * MIB + number * 4 * KIB, 4 * KIB)
        assert bench.counted.read_units == 9

    @pytest.mark.parametrize(
        ("region", "size"), [(4 * MIB, 64 * KIB), (16 * MIB, 64 * KIB), (16 * MIB, 4 * KIB)]
    )
    def test_random_io_on_a_small_region_is_not_taken_for_a_sequence(self, bench, region, size):
        bench.start()
        places = random.Random(7)
        for _ in range(8_000):
            bench.read(places.randrange(region // size) * size, size)
        assert 0.98 * 8_000 <= bench.counted.read_units <= 8_000

    @pytest.mark.parametrize("jobs", [1, 16])
    def test_a_small_file_read_in_a_row_again_and_again_merges(self, bench, jobs):
        bench.start()
        for _ in range(3):
            for place in range(0, 2 * MIB, 16 * KIB):
                for job in range(jobs):
                    bench.read(job * 4 * MIB + place, 16 * KIB)
        assert bench.counted.read_units == 3 * jobs * 8

    def test_a_device_that_is_forgotten_is_not_counted(self, bench):
        bench.start()
        bench.counter.forget(bench.loop)
        bench.read(0, 4 * KIB)
        assert bench.counted == Counted()

    @given(
        runs=st.lists(
            st.tuples(
                st.integers(0, 31),  # where it begins, in 2 MiB
                st.sampled_from([4, 8, 12, 20, 32, 64, 124, 128]),  # KiB an I/O
                st.integers(1, 12),  # I/Os in a row
                st.booleans(),
            ),
            min_size=1,
            max_size=12,
            unique_by=lambda run: run[0],
        )
    )
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_any_mixture_of_runs_is_counted_by_the_rule(self, bench, runs):
        """Apart from each other, a run of up to three counts I/O by I/O, a longer one by the units it fills."""
        bench.start()
        expected = {False: 0, True: 0}
        for place, kib, times, writes in runs:
            size = kib * KIB
            for number in range(times):
                (bench.write if writes else bench.read)(place * 2 * MIB + number * size, size)
            expected[writes] += -(-times * size // UNIT) if times > 3 else times
        assert (bench.counted.read_units, bench.counted.write_units) == (expected[False], expected[True])

    def test_the_counts_of_a_disk_are_those_since_the_last_look(self, bench):
        bench.start()
        counts = DiskCounts(bench.loop, bench.counter)
        try:
            assert counts.since_last_look() is None
            for number in range(8):
                bench.read(number * 32 * KIB, 32 * KIB)
            bench.write(4 * MIB, MIB)
            served = counts.since_last_look()
            assert (served.read_units, served.read_pieces, served.write_units) == (1, 8, 4)
            assert (served.units, served.size, served.ops) == (5, 256 * KIB + MIB, 8 + served.write_pieces)
            assert counts.since_last_look() is None
            counters = Counters()
            counts.show_in(counters)
            assert (counters.read_ops, counters.read_bytes) == (8, 256 * KIB)
            counts.count_by(None)
            bench.read(0, 4 * KIB)
            bench.read(4 * KIB, 4 * KIB)
            served = counts.since_last_look()
            assert (served.read_units, served.read_pieces) == (2, 2)
        finally:
            counts.close()


# --- around it --------------------------------------------------------------------------------------


def test_a_tracepoint_is_read_from_its_description():
    tracepoint = bpf.Tracepoint(FORMAT)
    assert tracepoint.number == 2097
    assert tracepoint.fields["sector"] == (16, 8)
    assert tracepoint.fields["rwbs"] == (28, 10)
    with pytest.raises(ValueError, match="no description of an event"):
        bpf.Tracepoint("nothing")


def test_jumps_reach_their_labels():
    code = bpf.Assembler()
    code.jump("end", "==", 1, 7)
    code.set_wide(2, 2**40)
    code.label("end")
    code.leave()
    assert code.assembled() == bytes.fromhex(
        "1501020007000000180200000000000000000000000100009500000000000000"
    )


def test_a_kernel_that_cannot_count_says_so_and_every_request_is_one(tmp_path, monkeypatch, caplog):
    class Direct:
        def run(self, work):
            return work()

    def refuse(*_arguments, **_more):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(io_units.linux, "mount", refuse)
    assert open_io_units(Direct(), tmp_path) is None
    assert "every request counts" in caplog.text
    assert "Operation not permitted" in caplog.text


def test_pieces_per_unit_follow_the_load():
    ratio = PiecesPerUnit()
    assert ratio.value == 1
    ratio.take(5, 320, 0.25)
    assert ratio.value == 64
    for _ in range(40):
        ratio.take(100, 100, 0.25)
    assert ratio.value == pytest.approx(1, abs=0.01)
    ratio.take(0, 50, 0.25)
    assert ratio.value > 1
    ratio.forget()
    assert ratio.value == 1
    ratio.take(-1, 3, 0.25)
    assert ratio.value == 1
