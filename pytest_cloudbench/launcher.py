"""Start and end the embedded region, a separate process that needs root.

The region is reached like any other: through its EC2 endpoint and through SSH. This module only runs
``python -m pytest_cloudbench.twin``; it never imports it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from pytest_cloudbench.errors import InfrastructureError
from pytest_cloudbench.limits.region_settings import EBS, factor_words, package_digest

STATE_DIR = Path("/run/cloudbench")
KEPT_VARIABLE = "CLOUDBENCH_TWIN_ENDPOINT"
"""The environment variable that names the kept region to use, by its endpoint; `twin up` prints it."""
RECORD_NAME = "region.json"
"""The public record in a region's directory; sessions lock it while they measure."""
SUDO_PATH = "/usr/local/bin:/usr/bin:/bin"
START_LIMIT_S = 180.0
"""An emulated machine needs most of a minute to import the region's API."""
END_LIMIT_S = 60.0
ABANDON_S = 5.0
"""The seconds that a region may take to notice that its lease has ended."""
_LEASE, _KNOWN = "lease", "region.json"
"""Files in the folder of the processes that share a region: the named pipe; the region's record, or its start error."""


class RegionUnavailable(InfrastructureError, RuntimeError):
    """The embedded region could not be started; the message says why and what to do."""


class RegionEnded(RegionUnavailable):
    """The embedded region ended while tests needed it; the message says how, and what to do.

    Code that reports it to the user sets ``region.end_was_reported``.
    """

    def __init__(self, message: str, region: LeasedRegion | SharedRegion | None = None) -> None:
        super().__init__(message)
        self.region = region


@dataclass(frozen=True)
class RegionRecord:
    """How to reach a running embedded region, and which process it is.

    ``time_compression`` is how many times faster than the clock its burst credits drain and refill, ``latency`` how it
    models the latency of storage (`limits.region_settings`), ``weather`` the weather of its API (`limits.weather`).
    ``outbound`` names hosts that its instances reach besides this machine's package mirrors; None blocks all of them.
    ``package_digest`` is the digest of the modules that a kept region runs.
    """

    endpoint_url: str
    region: str
    access_key: str
    secret_key: str
    ssh_from_cidr: str
    pid: int
    slot: int
    time_compression: float = 1.0
    latency: str = EBS
    weather: str = ""
    outbound: str | None = None
    package_digest: str = ""

    @classmethod
    def from_json(cls, answer: dict[str, Any]) -> RegionRecord:
        """Return the record in the region's ready line; other fields are ignored."""
        return cls(**{name: answer[name] for name in cls.__dataclass_fields__ if name in answer})

    def environment(self) -> dict[str, str]:
        """Return the environment variables that make any AWS client, and tests, use this region."""
        return {
            KEPT_VARIABLE: self.endpoint_url,
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }


class LeasedRegion:
    """An embedded region that lives as long as this process holds its lease.

    The lease is the write end of the region's standard input: however this process ends, kill -9
    included, the kernel closes it and the region shuts itself down.
    """

    def __init__(self, record: RegionRecord, process: subprocess.Popen[bytes]) -> None:
        self.record = record
        self._process = process
        self.end_was_reported = False

    def check(self) -> None:
        """Raise RegionEnded, always with the same sentence, if the region's process has ended."""
        code = self._process.poll()
        if code is None:
            return
        raise RegionEnded(
            f"the embedded region (process {self.record.pid}) ended while it was needed, with {_ending(code)}: what "
            "ran on it is lost. Start the tests again; that start, or `cloudbench twin down`, removes what it left",
            self,
        )

    def close(self) -> None:
        """End the lease and wait until the region has removed everything it made.

        Raises RegionUnavailable if it does not end within 60 s, or ends with an error that was not reported before.
        """
        if self._process.stdin is None or self._process.stdin.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            code = self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise RegionUnavailable(_not_ended(self.record.pid)) from None
        if code != 0 and not self.end_was_reported:
            raise RegionUnavailable(
                f"the embedded region ended with {_ending(code)}; its log is "
                f"{STATE_DIR / str(self.record.slot)}/log if it is still there"
            )


class SharedRegion:
    """An embedded region that lives as long as any process of one session holds its lease.

    The lease is a named pipe, the region's standard input: when the last of those processes has closed it, however it
    ended, the region shuts itself down. `end_shared_region` checks that.
    """

    def __init__(self, record: RegionRecord, lease: int) -> None:
        self.record = record
        self._lease = lease
        self.end_was_reported = False

    def check(self) -> None:
        """Raise RegionEnded if the region's process has ended."""
        if not _is_region(self.record.pid):
            raise RegionEnded(
                f"the embedded region (process {self.record.pid}), which the workers of this session share, ended "
                "while it was needed: what ran on it is lost. Start the tests again; that start, or `cloudbench twin "
                "down`, removes what it left",
                self,
            )

    def close(self) -> None:
        """End this process's part of the lease."""
        if self._lease >= 0:
            os.close(self._lease)
            self._lease = -1


def open_lease(folder: Path) -> int:
    """Open the lease of the region shared through this folder, whether it runs or not; return the descriptor."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkfifo(folder / _LEASE, 0o600)
    return os.open(folder / _LEASE, os.O_RDWR)  # opening it only for writing would wait for a reader


def share_region(folder: Path, arguments: Sequence[str] = ()) -> SharedRegion:
    """Return the region that the processes with this folder share; the first of them starts it.

    Raises RegionUnavailable with the reason and the remedy.
    """
    lease = open_lease(folder)
    try:
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return SharedRegion(_known_region(folder) or _start_shared(folder, arguments), lease)
    except BaseException:
        os.close(lease)
        raise


def _known_region(folder: Path) -> RegionRecord | None:
    """Return the region that another process has started, if any. Raises RegionUnavailable if its start failed."""
    known = folder / _KNOWN
    if not known.exists():
        return None
    found = json.loads(known.read_text())
    if "error" in found:
        raise RegionUnavailable(found["error"])
    return RegionRecord.from_json(found)


def _start_shared(folder: Path, arguments: Sequence[str]) -> RegionRecord:
    known: dict[str, Any] = {}
    try:
        with (folder / _LEASE).open("rb", buffering=0) as end:
            record, _ = _start(["serve", *arguments], stdin=end.fileno())
        known = asdict(record)
        return record
    except RegionUnavailable as error:
        known = {"error": str(error)}
        raise
    finally:
        if known:
            with open(folder / _KNOWN, "w", opener=functools.partial(os.open, mode=0o600)) as file:
                json.dump(known, file)


def end_shared_region(folder: Path, lease: int) -> None:
    """Close the last descriptor of the lease, and wait until the region has ended, if one was started.

    Raises RegionUnavailable if it does not end within 60 s.
    """
    os.close(lease)
    try:
        record = _known_region(folder)
    except RegionUnavailable:  # it never ran
        return
    deadline = time.monotonic() + END_LIMIT_S
    while record is not None and _is_region(record.pid):
        if time.monotonic() >= deadline:
            raise RegionUnavailable(_not_ended(record.pid))
        time.sleep(0.02)


def twin_command(*arguments: str, needs_root: bool = True) -> list[str]:
    """Return the command line that runs the region's program as root.

    Without access to root, an action that does not need it runs as this user; for others raises RegionUnavailable.
    """
    package_parent = Path(__file__).resolve().parent.parent
    command = ["env", f"PYTHONPATH={package_parent}", "PYTHONDONTWRITEBYTECODE=1"]
    command += [sys.executable, "-m", "pytest_cloudbench.twin", *arguments]
    return _as_root(command) if needs_root or _can_be_root() else command


def backed_by(directory: str | None) -> list[str]:
    """Return the region's arguments for volume data in a directory; none for memory.

    The path is absolute, because the region runs in another directory.
    """
    return ["--backing", str(Path(directory).expanduser().absolute())] if directory else []


def time_compressed(factor: float) -> list[str]:
    """Return the region's arguments for credits that drain and refill faster than the clock; none for a factor of 1."""
    return [] if factor == 1 else ["--time", factor_words(factor)]


def with_latency(mode: str) -> list[str]:
    """Return the region's arguments for how it models the latency of storage; none for the default."""
    return [] if mode == EBS else ["--latency", mode]


def under_weather(weather: str) -> list[str]:
    """Return the region's arguments for the weather of its API; none for clear weather."""
    return ["--weather", weather] if weather else []


def with_outbound(hosts: str | None) -> list[str]:
    """Return the region's arguments for hosts allowed besides this machine's package mirrors; none for None."""
    return [] if hosts is None else [f"--outbound={hosts}"]


def with_limits(path: str | Path | None) -> list[str]:
    """Return the region's arguments for the volume types of a project's limits file; none without a file."""
    return ["--limits", str(Path(path).expanduser().absolute())] if path else []


def start_leased_region(arguments: Sequence[str] = ()) -> LeasedRegion:
    """Start an embedded region that ends with this process.

    Raises RegionUnavailable with the reason and the remedy.
    """
    record, process = _start(["serve", *arguments], stdin=subprocess.PIPE)
    return LeasedRegion(record, process)


def start_kept_region(arguments: Sequence[str] = ()) -> RegionRecord:
    """Start an embedded region that stays until ``cloudbench twin down``."""
    record, _ = _start(["serve", "--keep", *arguments], stdin=subprocess.DEVNULL)
    return record


def kept_region() -> RegionRecord | None:
    """Return the kept region that this environment names; None if it names none.

    A kept region is used only if the environment names it: another session of the same user may be using it.
    Raises RegionEnded if the environment names a region that has ended or that this user may not use.
    """
    endpoint = os.environ.get(KEPT_VARIABLE)
    if not endpoint:
        return None
    for record in _kept_regions():
        if record.endpoint_url == endpoint:
            return record
    raise RegionEnded(
        f"the region that the environment names ({KEPT_VARIABLE}={endpoint}) has ended, or belongs to another user: "
        'start one with `eval "$(cloudbench twin up)"`, or let the tests start their own: '
        f"`unset {KEPT_VARIABLE} AWS_ENDPOINT_URL`"
    )


def kept_region_of_slot(slot: int) -> RegionRecord:
    """Return the kept region that owns a slot.

    Raises RegionUnavailable if there is none, or if it belongs to another user.
    """
    for record in _kept_regions():
        if record.slot == slot:
            return record
    raise RegionUnavailable(f"slot {slot} has no kept region of this user: see `cloudbench twin status`")


def _kept_regions() -> Iterator[RegionRecord]:
    """Yield the running kept regions whose key this user may read."""
    for path in sorted(STATE_DIR.glob("[0-9]*/access.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record = RegionRecord.from_json(json.loads(path.read_text()))
            if _is_region(record.pid):
                yield record


def kept_region_with(
    time_compression: float | None = None,
    latency: str | None = None,
    weather: str | None = None,
    outbound: str | None = None,
) -> RegionRecord | None:
    """Return the kept region that this environment names, if any. It matches each argument that is not None.

    Raises RegionUnavailable if one differs: a burst would end at a different time than the test expects, or latencies
    would be modelled differently. Raises it too if this package has changed since the region started. Raises
    RegionEnded as `kept_region` does.
    """
    record = kept_region()
    if record is None:
        return None
    if record.package_digest not in ("", package_digest()):
        raise RegionUnavailable(
            f"pytest-cloudbench is not as it was when the region that is kept (slot {record.slot}) started, and parts "
            "of the region would be of another version. Restart it with its options: `cloudbench twin down "
            f'{record.slot}; eval "$(cloudbench twin up)"`'
        )
    differs, options, arguments = [], [], []
    if time_compression is not None:
        arguments += time_compressed(time_compression)
        if time_compression != record.time_compression:
            runs = factor_words(record.time_compression)
            differs.append(f"with a factor of time of {runs}, not {factor_words(time_compression)}")
            options.append(f"--cloudbench-twin-time={runs}")
    if latency is not None:
        arguments += with_latency(latency)
        if latency != record.latency:
            differs.append(f"with latency {record.latency!r}, not {latency!r}")
            options.append(f"--cloudbench-twin-latency={record.latency}")
    if weather is not None:
        arguments += under_weather(weather)
        if weather != record.weather:
            differs.append(f"under the weather {record.weather!r}, not {weather!r}")
            options.append(f"--cloudbench-twin-weather={record.weather}")
    if outbound is not None:
        arguments += with_outbound(outbound)
        if record.outbound is None or set(outbound.split(",")) - {"", *record.outbound.split(",")}:
            differs.append(f"without a way out to {outbound or 'package mirrors'}")
    if not differs:
        return record
    raise RegionUnavailable(
        f"the region that is kept (slot {record.slot}) runs {' and '.join(differs)}: use it as it is"
        f"{f' (pytest {shlex.join(options)})' if options else ''}, or restart it: `cloudbench twin down {record.slot}; "
        f"{shlex.join(['cloudbench', 'twin', 'up', *arguments])}`"
    )


def check_kept(record: RegionRecord) -> None:
    """Raise RegionEnded once the process of a region that is kept is gone."""
    if _is_region(record.pid):
        return
    raise RegionEnded(
        f"the embedded region that was kept (slot {record.slot}, process {record.pid}) ended while it was needed: what "
        "ran on it is lost. Start it again with `cloudbench twin up`, or let the tests start one of their own"
    )


def _is_region(pid: int) -> bool:
    """Return True if a process is that of a region; one that has ended has no command line."""
    try:
        return b"pytest_cloudbench.twin" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _not_ended(pid: int) -> str:
    return (
        f"the embedded region (process {pid}) has not ended within {END_LIMIT_S:.0f} s; "
        "the next start, or `cloudbench twin down`, sweeps what it left"
    )


def _ending(code: int) -> str:
    """Return how a process ended: "exit code -9, SIGKILL ..."; sudo reports a signal as 128 plus its number."""
    number = -code if code < 0 else code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"exit code {code}"
    why = ", perhaps by the kernel because memory ran out (see dmesg)" if name == "SIGKILL" else ""
    return f"exit code {code}, {name}{why}"


def _as_root(command: list[str]) -> list[str]:
    if os.geteuid() == 0:
        return command
    sudo = shutil.which("sudo", path=SUDO_PATH)
    if sudo is None:
        raise RegionUnavailable(
            "the embedded region needs root (namespaces, mounts, loop devices); this user is not root and "
            "sudo is not installed: run as root, or use --cloudbench-cloud=aws"
        )
    return [sudo, "-n", *command]


def _can_be_root() -> bool:
    with contextlib.suppress(RegionUnavailable, OSError, subprocess.SubprocessError):
        subprocess.run(
            _as_root(["true"]), check=True, timeout=10, stdin=subprocess.DEVNULL, capture_output=True
        )
        return True
    return False


def _start(arguments: list[str], *, stdin: int) -> tuple[RegionRecord, subprocess.Popen[bytes]]:
    command = twin_command(*arguments, "--owner", str(os.getuid()))
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=complaints,
            cwd="/",
            # The region must not use the user's AWS settings, such as a profile that may not exist.
            env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            # Ctrl-C at the terminal must reach the test run only, which still needs the region to tidy up;
            # a new session would also lose the terminal for which sudo remembers its permission.
            preexec_fn=os.setpgrp,  # noqa: PLW1509  (process_group= needs Python 3.11)
        )
        assert process.stdout is not None
        with process.stdout:
            try:
                return RegionRecord.from_json(_ready_line(process, complaints, command)), process
            except BaseException:
                _abandon(process)
                raise


def _ready_line(
    process: subprocess.Popen[bytes], complaints: IO[bytes], command: list[str]
) -> dict[str, Any]:
    assert process.stdout is not None
    for line in _lines_until(process.stdout.fileno(), time.monotonic() + START_LIMIT_S):
        with contextlib.suppress(ValueError):
            answer = json.loads(line)
            if "error" in answer:
                why = ". ".join(filter(None, (str(answer["error"]).rstrip("."), answer.get("remedy"))))
                raise RegionUnavailable(f"the embedded region cannot start: {why}")
            return dict(answer)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
    code = process.poll()
    complaints.seek(0)
    said = complaints.read().decode(errors="replace").strip()[-2000:]
    if command[0].endswith("sudo") and "password is required" in said:
        raise RegionUnavailable(
            "the embedded region needs root (namespaces, mounts, loop devices) and sudo needs a password here; "
            "run `sudo -v` first, run as root, or use --cloudbench-cloud=aws"
        )
    ended = (
        f"ended with exit code {code}" if code is not None else f"was not ready within {START_LIMIT_S:g} s"
    )
    raise RegionUnavailable(f"the embedded region {ended}; it said: {said or 'nothing'}")


def _lines_until(fd: int, deadline: float) -> Iterator[bytes]:
    """Yield whole lines from ``fd`` until its end or the deadline."""
    pending = b""
    ready = select.poll()  # select() takes no descriptor above 1023
    ready.register(fd, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0:
        if not ready.poll(left * 1000):
            return
        chunk = os.read(fd, 65536)
        if not chunk:
            return
        *lines, pending = (pending + chunk).split(b"\n")
        yield from lines


def _abandon(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(ABANDON_S)
    except subprocess.TimeoutExpired:
        _terminate(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)


def _terminate(process: subprocess.Popen[bytes]) -> None:
    try:
        process.terminate()
    except PermissionError:
        # If sudo started it, it belongs to root. An error here would hide the one to be shown.
        with contextlib.suppress(RegionUnavailable, OSError, subprocess.TimeoutExpired):
            kill = _as_root(["kill", str(process.pid)])
            subprocess.run(kill, check=False, stderr=subprocess.DEVNULL, timeout=10)
