"""The region's side of the process that paces an instance's volumes: starting it, sending commands, ending it."""

from __future__ import annotations

import array
import contextlib
import json
import os
import pickle
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from mmap import mmap
from pathlib import Path
from typing import Any

from pytest_cloudbench.twin import linux
from pytest_cloudbench.twin.volumes.figures import StageFigures, VolumeFigures
from pytest_cloudbench.twin.volumes.loop_devices import LoopDevice, bind_loop_device
from pytest_cloudbench.twin.volumes.shared_pages import VolumePage, VolumeState
from pytest_cloudbench.twin.workshop import Workshop

_SERVER = Path(__file__).with_name("server.py")
_RECORD = "volume-processes"
_ANSWER_S = 30.0
_END_S = 2.0
_PATH_READS = 200
_BLOCK = 4096
_CORE = "CLOUDBENCH_TWIN_CORE"


class VolumeProcessError(RuntimeError):
    """A command to the process that paces an instance's volumes failed; the message is a sentence."""


class VolumeProcessEnded(VolumeProcessError):
    """The process has ended. All I/O of its volumes fails."""


class VolumeProcess:
    """A process that paces volumes, and its file system, which only the region sees.

    ``label`` names it in errors. ``directory`` is the mount point, which only the region sees. ``records`` is the
    slot's directory, in which the process is recorded: if the region is killed, the next start ends the process.
    """

    def __init__(self, label: str, *, workshop: Workshop, directory: Path, records: Path) -> None:
        self._label = label
        self._records = records
        self._nodes = 1
        self._lock = threading.Lock()
        with contextlib.ExitStack() as undo:
            device, self._root, self._connection = workshop.run(lambda: _mount(directory))
            undo.callback(os.close, self._root)
            try:
                self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                undo.callback(self._control.close)
                with theirs:
                    self._process = subprocess.Popen(
                        [sys.executable, "-I", "-S", str(_SERVER), str(device), str(theirs.fileno())],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        pass_fds=(device, theirs.fileno()),
                        env={name: os.environ[name] for name in (_CORE,) if name in os.environ},
                        cwd="/",
                        start_new_session=True,  # Ctrl-C in the user's terminal must not end it
                    )
            finally:
                os.close(device)  # only the process holds it, so the file system fails when it ends
            undo.callback(self._kill)
            self._control.settimeout(_ANSWER_S)
            _record(records, self._process.pid, self._connection)
            undo.pop_all()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        """CPU seconds that it has used."""
        fields = _stat(self.pid)
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def limit(self, figures: StageFigures, state: VolumeState) -> None:
        """Limit all volumes together. ``state`` keeps their credits."""
        self._ask("limit instance", state.descriptor, figures=figures)

    def attach(
        self,
        size: int,
        figures: VolumeFigures,
        backing: int,
        page: VolumePage,
        state: VolumeState,
        *,
        path_s: float = 0.0,
    ) -> PacedFile:
        """Pace a volume of ``size`` bytes.

        ``backing`` is the descriptor of its data. The caller may close it and the pages. ``path_s`` is the time in
        seconds that an I/O takes on this machine without any limit. Raises `VolumeProcessError`.
        """
        with self._lock:
            self._nodes += 1
            node = self._nodes
        self._ask(
            "attach", backing, page.descriptor, state.descriptor,
            node=node, name=f"{node}", size=size, path_s=path_s, figures=figures,
        )  # fmt: skip
        return PacedFile(self, node)

    def pace(self, paced: bool) -> None:
        """Apply the limits, or suspend them: every request is answered at once."""
        self._ask("pace", paced=paced)

    def close(self) -> None:
        """End it. Volumes that are still attached fail with I/O errors."""
        self._kill()
        self._control.close()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def _kill(self) -> None:
        if self.alive:
            self._process.kill()
        for last in (False, True):
            try:
                self._process.wait(_END_S)
                return
            except subprocess.TimeoutExpired as error:
                if last:
                    raise VolumeProcessError(
                        f"the process {self.pid} that paces the volumes of {self._label} cannot be ended"
                    ) from error
                _abort(self._connection, self._records)

    def open_file(self, name: str) -> int:
        """Open a file of its file system."""
        try:
            return os.open(name, os.O_RDWR | os.O_CLOEXEC, dir_fd=self._root)
        except OSError as error:
            raise self._gone() from error

    def stat_file(self, name: str) -> None:
        """Make the kernel read a file's size again."""
        try:
            os.stat(name, dir_fd=self._root)
        except OSError as error:
            raise self._gone() from error

    def _ask(self, command: str, *descriptors: int, **details: Any) -> None:
        message = pickle.dumps((command, details))
        with self._lock:
            try:
                socket.send_fds(self._control, [message], descriptors)
                answer = self._control.recv(65_536)
            except TimeoutError as error:
                self._kill()  # its late answer would be read as the answer to the next command
                raise VolumeProcessEnded(
                    f"the process {self.pid} that paces the volumes of {self._label} did not answer for "
                    f"{_ANSWER_S:g} s and was ended"
                ) from error
            except OSError as error:
                raise self._gone() from error
        if not answer:
            raise self._gone()
        problem = json.loads(answer).get("error")
        if problem:
            raise VolumeProcessError(f"{command!r} failed for the volumes of {self._label}: {problem}")

    def _gone(self) -> VolumeProcessError:
        who = f"the process {self.pid} that paces the volumes of {self._label}"
        try:
            status = self._process.wait(_END_S)  # it closes its descriptors a moment before it has ended
        except subprocess.TimeoutExpired:
            return VolumeProcessError(f"{who} does not answer")
        return VolumeProcessEnded(f"{who} has ended with status {status}")


class PacedFile:
    """One volume in a `VolumeProcess`."""

    def __init__(self, process: VolumeProcess, node: int) -> None:
        self._process = process
        self._node = node

    def open(self) -> int:
        """Return a descriptor of the file, for a loop device."""
        return self._process.open_file(f"{self._node}")

    def confirm(self) -> None:
        """Raise `VolumeProcessEnded` unless the process answers. A process that does not answer in time is ended."""
        self._process._ask("report")

    def change(self, size: int, figures: VolumeFigures) -> None:
        """Apply new figures or a larger size while I/O runs."""
        self._process._ask("change", node=self._node, size=size, figures=figures)
        self._process.stat_file(f"{self._node}")

    def fail(self) -> None:
        """Make the volume empty and all its I/O fail, including waiting requests.

        Without effect if the process has ended.
        """
        with contextlib.suppress(VolumeProcessEnded):
            self._process._ask("fail", node=self._node)
            self._process.stat_file(f"{self._node}")

    def detach(self) -> None:
        """Remove the volume. Its pages keep its last figures. Without effect if the process has ended."""
        with contextlib.suppress(VolumeProcessEnded):
            self._process._ask("detach", node=self._node)


def _mount(directory: Path) -> tuple[int, int, int]:
    """Mount a FUSE file system and unmount it lazily, so that nobody else sees it.

    Returns the descriptors of the device and of the root, and the number of the connection.
    """
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        directory.mkdir(exist_ok=True)
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
        flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
        linux.mount("cloudbench", str(directory), "fuse", flags, options)
        root = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        mounts = [line.split() for line in Path("/proc/thread-self/mountinfo").read_text().splitlines()]
        (number,) = (fields[2] for fields in mounts if fields[4] == str(directory))
        linux.unmount(str(directory), lazily=True)  # it lives as long as the descriptor and the files in use
        directory.rmdir()
    except BaseException:
        os.close(device)
        raise
    return device, root, int(number.partition(":")[2])


def _abort(connection: int, directory: Path) -> None:
    """End a FUSE connection: every request fails, including those for which its own server waits.

    If memory is short, and the machine does not permit PR_SET_IO_FLUSHER, the process may wait for I/O that only it
    could serve. It cannot be ended before its I/O has failed.
    """
    place = directory / "connections"

    def abort() -> None:
        place.mkdir(exist_ok=True)
        linux.mount("cloudbench", str(place), "fusectl")
        try:
            (place / f"{connection}" / "abort").write_text("1")
        finally:
            linux.unmount(str(place), lazily=True)
            place.rmdir()

    with contextlib.closing(Workshop()) as workshop:
        workshop.run(abort)


# --- leftovers of a killed region ------------------------------------------------------------------------


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on (proc_pid_stat(5))."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _record(directory: Path, pid: int, connection: int) -> None:
    with open(directory / _RECORD, "a", encoding="ascii") as file:
        file.write(f"{pid} {_stat(pid)[19]} {connection}\n")


def end_leftovers(directory: Path) -> None:
    """End the processes recorded in a slot's directory: a stopped process does not notice the end of its region."""
    with contextlib.suppress(FileNotFoundError):
        for line in (directory / _RECORD).read_text().splitlines():
            pid, started_at, connection = (int(field) for field in line.split())
            if _lives(pid, started_at):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                deadline = time.monotonic() + _END_S
                while _lives(pid, started_at):
                    if time.monotonic() > deadline:
                        with contextlib.suppress(OSError):
                            _abort(connection, directory)
                        break
                    time.sleep(0.01)


def _lives(pid: int, started_at: int) -> bool:
    try:
        fields = _stat(pid)
    except OSError:
        return False
    return fields[0] != "Z" and int(fields[19]) == started_at


# --- the time of an I/O without any limit ----------------------------------------------------------------


def measure_path(process: VolumeProcess, *, backing: int, nodes: Path) -> float:
    """Measure the time in seconds of a single read without any limit on an idle machine, in about 20 ms.

    ``backing`` is a file of at least 4 KiB, ``nodes`` a directory that allows device nodes.
    """
    size = os.fstat(backing).st_size
    with contextlib.closing(VolumePage.create()) as page, contextlib.closing(VolumeState.create()) as state:
        file = process.attach(size, VolumeFigures(_BLOCK), backing, page, state)
    try:
        descriptor = file.open()
        try:
            loop = bind_loop_device(descriptor, "cloudbench/path", nodes)
        finally:
            os.close(descriptor)
        try:
            return undisturbed(_read_times(loop))
        finally:
            loop.release()
    finally:
        file.detach()


def undisturbed(times: Sequence[float]) -> float:
    """Return the time of a read that no other process delayed: the fastest tenth of `times`.

    A busy machine adds a delay that is not part of the path. Subtracted from the service time of every later I/O, that
    delay would make the volume too fast.
    """
    return statistics.quantiles(times, n=10)[0]


def _read_times(loop: LoopDevice) -> Sequence[float]:
    buffer = mmap(-1, _BLOCK)
    descriptor = os.open(f"/proc/self/fd/{loop.descriptor}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        times = array.array("d")
        for _ in range(_PATH_READS):
            before = time.perf_counter()
            os.preadv(descriptor, [buffer], 0)
            times.append(time.perf_counter() - before)
        return times
    finally:
        os.close(descriptor)
