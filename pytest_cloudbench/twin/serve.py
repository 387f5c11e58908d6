"""One region, from the start of its process to its end.

The process prints one line of JSON on its standard output when clients may connect, or one with "error" and "remedy"
if it cannot serve. It ends when its standard input ends (the lease of the process that started it), or on SIGTERM or
SIGINT. A kept region has no lease.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
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

from pytest_cloudbench.limits.region_settings import package_digest

if TYPE_CHECKING:
    from pytest_cloudbench.limits.weather import Weather
    from pytest_cloudbench.twin.api.front import Front
    from pytest_cloudbench.twin.plane import Plane
    from pytest_cloudbench.twin.slots import Slot

CANNOT_SERVE = 3  # the exit status with an "error" line
# On a fast machine the services are loaded before the first call. On a slow one clients would reach their own time
# limits, so the region waits for the services before it reports that it is ready.
_SLOW_START_S = 2.0

log = logging.getLogger(__name__)


class CannotServe(RuntimeError):
    """The region cannot start. ``remedy`` says what to do."""

    def __init__(self, sentence: str, remedy: str) -> None:
        super().__init__(sentence)
        self.remedy = remedy


def serve(keep: bool, owner: int | None, weather: Weather | None, options: dict[str, Any]) -> int:
    """Serve one region until a request to end; return the exit status of the process.

    ``owner`` is the user id that may read a kept region's key. For ``weather`` see `Front`; ``options`` are the keyword
    arguments of `Plane`.
    """
    try:
        _refuse_without_root()
        _refuse_without_moto()
        return _serve(keep, owner, weather, options)
    except CannotServe as error:
        _print_json({"error": str(error), "remedy": error.remedy})
        return CANNOT_SERVE


def _serve(keep: bool, owner: int | None, weather: Weather | None, options: dict[str, Any]) -> int:
    from pytest_cloudbench.twin.api.front import Front
    from pytest_cloudbench.twin.api.moto_loading import REGION

    started = time.monotonic()
    digest = package_digest() if keep else ""
    end = _ended_by_signals(keep=keep)
    if not keep:  # watched from the start: the lease may end before the region is up
        threading.Thread(target=_watch_lease, args=(end,), name="lease", daemon=True).start()
    front = Front(weather)
    closers: list[tuple[str, Callable[[], None]]] = []
    try:
        front.start()  # its services load during the remaining setup, imports included
        from pytest_cloudbench.twin.regions import Access, write_access, write_record

        closers.append(("the endpoint", front.close))
        slot = _take_slot()
        closers.append(("the slot", slot.release))
        _log_to(slot.directory / "log")
        plane, outbound = _make_plane(slot, options), options["outbound"]
        closers.append(("the plane", lambda: _close_plane(plane, slot)))
        front.open(plane)
        access = Access(
            endpoint_url=front.url,
            region=REGION,
            access_key=front.access_key.key_id,
            secret_key=front.access_key.secret,
            ssh_from_cidr=f"{slot.caller_address}/32",
            pid=os.getpid(),
            slot=slot.number,
            kept=keep,
            started_at=time.time(),
            package_digest=digest,
            time_compression=plane.time_compression,
            latency=plane.latency,
            weather=str(weather or ""),
            outbound=None if outbound is None else ",".join(sorted(outbound)),
        )
        write_record(slot.directory, access)
        if keep:
            write_access(slot.directory, access, _owner(owner))
        if time.monotonic() - started > _SLOW_START_S:
            _wait_for_services(front)
        _print_json(asdict(access))
        end.wait()
    except BaseException:
        _close(closers)
        raise
    return 0 if _close(closers) else 1


def _print_json(message: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # the reader may have ended
        print(json.dumps(message), flush=True)


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
    from pytest_cloudbench.twin.regions import sweep, sweep_slot
    from pytest_cloudbench.twin.slots import NoFreeSlot, take_slot

    try:
        sweep()
        return take_slot(sweep_slot)
    except NoFreeSlot as error:
        raise CannotServe(str(error), "See `cloudbench twin status`.") from error
    except OSError as error:
        raise CannotServe(
            f"No slot could be taken: {error}.", "See `cloudbench twin doctor` for what this machine lacks."
        ) from error


def _make_plane(slot: Slot, options: dict[str, Any]) -> Plane:
    from pytest_cloudbench.twin.plane import Plane

    try:
        return Plane(slot, **options)
    except (RuntimeError, OSError) as error:
        log.exception("the plane")
        raise CannotServe(
            f"{str(error).rstrip('.')}.", "See `cloudbench twin doctor` for what this machine lacks."
        ) from error


def _ended_by_signals(*, keep: bool) -> threading.Event:
    """Return an event that SIGTERM, SIGINT and SIGHUP set, any number of times; SIGHUP does not end a kept region."""
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: end.set())
    if keep:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
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
            str(error), "Install the extra again: pip install --force-reinstall 'pytest-cloudbench[twin]'"
        ) from error


def _close(closers: list[tuple[str, Callable[[], None]]]) -> bool:
    """Close the endpoint, then the others in reverse order; return True if none failed."""
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


def _close_plane(plane: Plane, slot: Slot) -> None:
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


def _owner(requested: int | None) -> int:
    if requested is not None:
        return requested
    sudo_user = os.environ.get("SUDO_UID", "")
    return int(sudo_user) if sudo_user.isdigit() else os.getuid()
