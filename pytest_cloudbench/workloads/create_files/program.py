"""The program that creates the files. It runs on the host as a job and needs only Python 3.7.

Writers are processes that only create files and count them in shared memory. Their parent reads the counts once a
second, so watching costs the writers one store per file. The parent writes the record (record.py) to standard output
in a separate thread, because a write to a busy disk may take seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import mmap
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from typing import NoReturn

CHUNK_BYTES = 1 << 20
SAMPLE_S = 1.0
BALLAST = "ballast"
BALLAST_BYTES = 1 << 16
SLOT_BYTES = 64  # one cache line per writer, so that writers do not share one
FILES, PART, END_NS, ERRNO = range(4)
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Plan:
    """The parsed command line and the pieces of a file."""

    def __init__(self, argv: list[str]) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("folder")
        parser.add_argument("--count", type=int, required=True)
        parser.add_argument("--size", type=int, required=True)
        parser.add_argument("--content", choices=("random", "zero"), default="random")
        parser.add_argument("--sync", choices=("end", "each", "none"), default="end")
        parser.add_argument("--workers", type=int, default=1)
        parser.add_argument("--per-folder", type=int, default=0)
        parser.add_argument("--stat", action="append", default=[])
        given = parser.parse_args(argv)
        self.folder: str = given.folder
        self.count: int = given.count
        self.size: int = given.size
        self.sync: str = given.sync
        self.workers: int = given.workers
        self.per_folder: int = given.per_folder
        self.stats: list[str] = given.stat
        length = min(self.size, CHUNK_BYTES)
        block = memoryview(os.urandom(length) if given.content == "random" else bytes(length))
        self.pieces = [block] * (self.size // length)
        if self.size % length:
            self.pieces.append(block[: self.size % length])

    def share(self, worker: int) -> range:
        """Return the file numbers of one worker."""
        return range(worker * self.count // self.workers + 1, (worker + 1) * self.count // self.workers + 1)


class Reporter:
    """Writes lines to standard output, in order, without blocking the caller."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def say(self, *words: object) -> None:
        self._lines.put(" ".join(str(word) for word in words) + "\n")

    def begin(self) -> None:
        """Start the writing thread. Call it after all forks: a fork does not copy threads."""
        if not self._thread.is_alive():
            self._thread.start()

    def close(self) -> None:
        """Write the remaining lines and stop."""
        self.begin()
        self._lines.put(None)
        self._thread.join()

    def _write(self) -> None:
        unwritten = b""
        for line in iter(self._lines.get, None):
            unwritten += line.encode()
            # If the disk is full, the text stays here until the ballast is removed.
            with contextlib.suppress(OSError):
                unwritten = unwritten[os.write(1, unwritten) :]
        while unwritten:
            unwritten = unwritten[os.write(1, unwritten) :]


class Device:
    """The write counters of the devices below the file system, counted from the creation of this object."""

    def __init__(self, paths: list[str]) -> None:
        self._files = [os.open(path, os.O_RDONLY) for path in paths]
        self._ios, self._bytes = self._now()

    def words(self) -> tuple[object, object]:
        """Return the write I/Os and bytes since creation; dashes if there are no counters."""
        if not self._files:
            return "-", "-"
        ios, size = self._now()
        return ios - self._ios, size - self._bytes

    def _now(self) -> tuple[int, int]:
        ios = size = 0
        for descriptor in self._files:
            fields = os.pread(descriptor, 4096, 0).split()
            ios += int(fields[4])
            size += int(fields[6]) * 512
        return ios, size


class Writers:
    """The processes that create the files. They are forked at once and wait for `begin`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._memory = mmap.mmap(-1, SLOT_BYTES * plan.workers)
        self._slots = [
            memoryview(self._memory)[SLOT_BYTES * worker : SLOT_BYTES * (worker + 1)].cast("Q")
            for worker in range(plan.workers)
        ]
        self._gate, self._open_gate = os.pipe()
        self._ended, ended = os.pipe()
        self._running = [self._fork(worker, ended) for worker in range(plan.workers)]
        os.close(ended)
        os.close(self._gate)
        self.cpu_s = [0.0] * plan.workers

    def begin(self) -> None:
        """Let the processes start."""
        os.close(self._open_gate)

    def made(self) -> tuple[int, int]:
        """Return the files created and the bytes written so far."""
        files = sum(slot[FILES] for slot in self._slots)
        return files, files * self._plan.size + sum(slot[PART] for slot in self._slots)

    def wait(self, until_s: float) -> bool:
        """Wait until all have ended, at most until this monotonic time; True if they have."""
        while True:
            left_s = until_s - time.monotonic()
            if not select.select([self._ended], [], [], max(0.0, left_s))[0]:
                return False
            if not os.read(self._ended, 64):
                return True
            self.stop()  # a writer reported a failure

    def stop(self) -> None:
        """End the processes that still run."""
        for pid in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def reap(self) -> None:
        """Reap all processes and store the CPU seconds of each in `cpu_s`."""
        for worker, pid in enumerate(self._running):
            usage = os.wait4(pid, 0)[2]
            self.cpu_s[worker] = usage.ru_utime + usage.ru_stime

    @property
    def ended_s(self) -> float:
        """The monotonic time at which the last file was written; now if a writer has not finished."""
        return max(slot[END_NS] or time.monotonic_ns() for slot in self._slots) / 1e9

    @property
    def failure(self) -> int:
        """The error number of a failed writer; 0 if none failed."""
        return max(slot[ERRNO] for slot in self._slots)

    def _fork(self, worker: int, ended: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        slot = self._slots[worker]
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(self._open_gate)
            os.read(self._gate, 1)
            write_files(self._plan, self._plan.share(worker), slot)
        except OSError as error:
            slot[ERRNO] = error.errno or errno.EIO
            os.write(ended, b"!")
        except BaseException as error:  # nothing may unwind into the parent's code
            sys.stderr.write(f"{error!r}\n")
            slot[ERRNO] = errno.EIO
            os.write(ended, b"!")
        finally:
            slot[END_NS] = time.monotonic_ns()
            os.close(ended)
            os._exit(0)


def write_files(plan: Plan, numbers: range, slot: memoryview) -> None:
    """Create the files with these numbers. The speed of this loop is measured."""
    open_, write, close, fsync = os.open, os.write, os.close, os.fsync
    pieces, per_folder, each = plan.pieces, plan.per_folder, plan.sync == "each"
    one = pieces[0] if len(pieces) == 1 else None
    size = plan.size
    os.chdir(plan.folder)
    if per_folder:
        enter_folder(plan, numbers[0])
    for made, number in enumerate(numbers, 1):
        if per_folder and number % per_folder == 1 % per_folder:
            enter_folder(plan, number)
        descriptor = open_(f"file{number}", FLAGS, 0o644)
        try:
            if one is None or write(descriptor, one) != size:
                write_rest(descriptor, plan, slot)
            if each:
                fsync(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(f"file{number}")
            slot[PART] = 0
            raise
        finally:
            close(descriptor)
        slot[FILES] = made


def write_rest(descriptor: int, plan: Plan, slot: memoryview) -> None:
    """Write the rest of the file piece by piece, also after a short write."""
    done = os.lseek(descriptor, 0, os.SEEK_CUR)
    while done < plan.size:
        piece = plan.pieces[done // CHUNK_BYTES]
        done += os.write(descriptor, piece[done % CHUNK_BYTES :])
        slot[PART] = done
    slot[PART] = 0


def enter_folder(plan: Plan, number: int) -> None:
    path = os.path.join(plan.folder, f"folder{(number - 1) // plan.per_folder + 1}")
    with contextlib.suppress(FileExistsError):  # another writer may have created it
        os.mkdir(path)
    os.chdir(path)


class Sync:
    """Syncs the data of one file system only. `error` is the message of a failure."""

    def __init__(self, folder: str) -> None:
        self._process = subprocess.Popen(
            ["sync", "-f", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert self._process.stdout is not None
        self._output = self._process.stdout
        self.error = ""
        self.ended_s = 0.0

    def wait(self, until_s: float | None = None) -> bool:
        """Wait until the sync has ended, at most until this monotonic time; True if it has."""
        left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
        if not select.select([self._output], [], [], left_s)[0]:
            return False
        with self._output:
            text = self._output.read().decode("utf-8", "replace").strip()
        self.ended_s = time.monotonic()
        if self._process.wait():
            self.error = text or f"sync ended with exit code {self._process.returncode}"
        return True


def mark(folder: str, name: str) -> str:
    """Create an empty file; return its modification time as `stat` prints it, to the nanosecond."""
    descriptor = os.open(os.path.join(folder, name), FLAGS, 0o644)
    try:
        return "{}.{:09d}".format(*divmod(os.fstat(descriptor).st_mtime_ns, 10**9))
    finally:
        os.close(descriptor)


def watch(plan: Plan, report: Reporter) -> bool:
    """Create the files and report progress until they are on the device. True on success."""
    # Sync older data in the page cache first: the device's counters and the time would include it.
    before = Sync(plan.folder)
    before.wait()
    if before.error:
        raise OSError(errno.EIO, before.error)
    device = Device(plan.stats)
    writers = Writers(plan)
    try:
        return until_on_device(plan, report, device, writers)
    except BaseException:
        writers.stop()
        raise


def until_on_device(plan: Plan, report: Reporter, device: Device, writers: Writers) -> bool:
    """Start the writers and report progress until all data is on the device. True on success."""
    report.begin()
    report.say("start", mark(plan.folder, "start"))
    clock = Clock()
    writers.begin()
    while not writers.wait(clock.next_s):
        report.say("at", clock.words(), *writers.made(), *device.words())
    report.say("written", clock.words(writers.ended_s), *writers.made(), *device.words())
    if not writers.failure:
        report.say("end", mark(plan.folder, "end"))
    syncing = None if plan.sync == "none" else Sync(plan.folder)
    drop_ballast()
    writers.reap()
    report.say("cpu", *(f"{cpu_s:.6f}" for cpu_s in (max(writers.cpu_s), sum(writers.cpu_s))))
    if writers.failure:
        report.say("failed", writers.failure, os.strerror(writers.failure))
    if syncing is None:
        return not writers.failure
    while not syncing.wait(clock.next_s):
        report.say("at", clock.words(), *writers.made(), *device.words())
    if syncing.error:
        report.say("unsynced", 0, syncing.error)
        return False
    report.say("synced", clock.words(syncing.ended_s), *device.words())
    return not writers.failure


class Clock:
    """Seconds since the first file was begun."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    @property
    def next_s(self) -> float:
        """The next full second, by the monotonic clock."""
        return self._began_s + (int((time.monotonic() - self._began_s) / SAMPLE_S) + 1) * SAMPLE_S

    def words(self, at_s: float | None = None) -> str:
        return f"{(time.monotonic() if at_s is None else at_s) - self._began_s:.6f}"


def keep_ballast() -> None:
    """Reserve space for the record: the job's directory may be on the file system that is being filled."""
    with open(BALLAST, "wb") as file:
        file.write(bytes(BALLAST_BYTES))


def drop_ballast() -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(BALLAST)


def stop_on_signals() -> None:
    def stop(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def main(argv: list[str]) -> int:
    plan = Plan(argv)
    stop_on_signals()
    report = Reporter()
    report.say("tool", "Python", sys.version.split()[0])
    well = False
    try:
        os.mkdir(plan.folder)
        keep_ballast()
        well = watch(plan, report)
    except OSError as error:
        report.say("failed", error.errno or errno.EIO, error.strerror)
    report.say("done")
    report.close()
    return 0 if well else 1


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        # Do not wait for threads: one may be blocked by the disk.
        os._exit(128 + signal.SIGINT)
    sys.exit(code)
