"""One region, from the start of its process to its end.

The process prints one line of JSON on its standard output once clients may come, or one with "error" and "remedy"
when it cannot serve. It ends when its standard input does (the lease of whoever started it), or on SIGTERM or
SIGINT; a kept region has no lease.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_cloudbench.limits.latency_mode import EBS
from pytest_cloudbench.twin.access import Access, RegionRecord, say, write_access, write_record

if TYPE_CHECKING:
    from pytest_cloudbench.twin.api.front import Front
    from pytest_cloudbench.twin.slots import Slot

CANNOT_SERVE = 3  # the exit status beside an "error" line
# A fast machine's clients find the services loaded by the time they call; a slow one's would run into their
# own time limits, so there the region says that it is ready later.
_SLOW_START_S = 2.0

log = logging.getLogger(__name__)


class CannotServe(RuntimeError):
    """The region cannot come up. ``remedy`` says what to do about it."""

    def __init__(self, sentence: str, remedy: str) -> None:
        super().__init__(sentence)
        self.remedy = remedy


def serve(
    *,
    keep: bool = False,
    backing: Path | None = None,
    owner: int | None = None,
    time_compression: float = 1.0,
    latency: str = EBS,
) -> int:
    """Serve one region until it is asked to end; the exit status of the process.

    ``backing`` is a directory for the volumes' data (memory when None), ``owner`` the user id that a kept
    region's key is left to, ``time_compression`` how many times faster than the clock burst credits go,
    ``latency`` how the latency of storage is modelled (`limits.latency_mode`).
    """
    try:
        _refuse_without_root()
        _refuse_without_moto()
        return _serve(
            keep=keep, backing=backing, owner=owner, time_compression=time_compression, latency=latency
        )
    except CannotServe as error:
        say(sys.stdout, {"error": str(error), "remedy": error.remedy})
        return CANNOT_SERVE


def _serve(
    *, keep: bool, backing: Path | None, owner: int | None, time_compression: float, latency: str
) -> int:
    from pytest_cloudbench.twin.api.front import Front, Ground

    started = time.monotonic()
    end = _ended_by_signals(keep=keep)
    if not keep:  # watched from the start: who asked may be gone before the region is up
        threading.Thread(target=_watch_lease, args=(end,), name="lease", daemon=True).start()
    front = Front()
    closers: list[tuple[str, Callable[[], None]]] = []
    try:
        front.start()  # its services load while the plane is being prepared
        closers.append(("the endpoint", front.close))
        slot = _take_slot()
        closers.append(("the slot", slot.give_back))
        _log_to(slot.directory / "log")
        plane = _make_plane(slot, backing, time_compression, latency)
        closers.append(("the plane", lambda: _close_plane(plane, slot)))
        front.open(Ground(plane, slot.network, _zone_networks(slot)))
        access = Access(
            endpoint_url=front.url,
            region=front.region_name,
            access_key=front.access_key.key_id,
            secret_key=front.access_key.secret,
            ssh_from_cidr=f"{plane.caller_address}/32",
            pid=os.getpid(),
            slot=slot.number,
            version=_version(),
            time_compression=time_compression,
            latency=latency,
        )
        record = RegionRecord(
            slot.number, access.pid, access.endpoint_url, keep, time.time(), time_compression, latency
        )
        write_record(slot.directory, record)
        if keep:
            write_access(slot.directory, access, _owner(owner))
        if time.monotonic() - started > _SLOW_START_S:
            _wait_for_services(front)
        say(sys.stdout, asdict(access))
        end.wait()
    except BaseException:
        _close(closers)
        raise
    return 0 if _close(closers) else 1


def _refuse_without_root() -> None:
    if os.geteuid() != 0:
        raise CannotServe(
            "The embedded region needs root: it makes network namespaces, loop devices and file systems.",
            "Run it as root, or allow this user `sudo -n` (password-less sudo) for it.",
        )


def _refuse_without_moto() -> None:
    for module in ("moto", "werkzeug"):
        if importlib.util.find_spec(module) is None:
            raise CannotServe(
                f"The embedded region needs the Python package {module}, which is not installed for {sys.executable}.",
                "Install the extra: pip install 'pytest-cloudbench[twin]'",
            )


def _take_slot() -> Slot:
    from pytest_cloudbench.twin.slots import NoFreeSlot, take_slot
    from pytest_cloudbench.twin.sweep import sweep, sweep_slot

    try:
        sweep()

        def sweep_taken(number: int) -> None:
            sweep_slot(number)

        return take_slot(sweep_taken)
    except NoFreeSlot as error:
        raise CannotServe(str(error), "See `cloudbench twin status`.") from error
    except OSError as error:
        raise CannotServe(
            f"No slot could be taken: {error}.", "See `cloudbench twin doctor` for what this machine lacks."
        ) from error


def _make_plane(slot: Slot, backing: Path | None, time_compression: float, latency: str) -> Any:
    from pytest_cloudbench.twin.plane import Plane

    try:
        return Plane(slot, backing=backing, time_compression=time_compression, latency=latency)
    except (RuntimeError, OSError) as error:
        log.exception("the plane")
        raise CannotServe(
            f"{str(error).rstrip('.')}.",
            "See `cloudbench twin doctor` for what this machine lacks.",
        ) from error


def _zone_networks(slot: Slot) -> list[Any]:
    from pytest_cloudbench.twin.slots import ZONES

    return [slot.zone_network(index) for index in range(ZONES)]


def _ended_by_signals(*, keep: bool) -> threading.Event:
    """An event that SIGTERM and SIGINT set, however often they come."""
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: end.set())
    if keep:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGHUP, lambda _number, _frame: end.set())
    return end


def _watch_lease(end: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    end.set()


def _wait_for_services(front: Front) -> None:
    try:
        front.region()
    except RuntimeError as error:
        raise CannotServe(
            str(error), "Install the extra anew: pip install --force-reinstall 'pytest-cloudbench[twin]'"
        ) from error


def _close(closers: list[tuple[str, Callable[[], None]]]) -> bool:
    """Undo in reverse order, but stop answering first; go on whatever fails. Whether all went well."""
    fine = True
    order = [*closers[:1], *reversed(closers[1:])]
    for what, close in order:
        try:
            close()
        except Exception as error:
            log.exception("closing %s", what)
            print(f"closing {what}: {error}", file=sys.stderr)
            fine = False
    return fine


def _close_plane(plane: Any, slot: Slot) -> None:
    try:
        plane.close()
    except Exception:
        slot.keep_records()
        raise


def _log_to(path: Path) -> None:
    logging.basicConfig(
        filename=path,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s",
    )
    os.chmod(path, 0o600)


def _owner(asked: int | None) -> int:
    if asked is not None:
        return asked
    told = os.environ.get("SUDO_UID", "")
    return int(told) if told.isdigit() else os.getuid()


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("pytest-cloudbench")
    except metadata.PackageNotFoundError:
        return "unknown"
