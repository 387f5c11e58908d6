"""Removing, at the next start, what killed runs left behind."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import Leftover

from .access import CloudAccess, is_loopback_url
from .clients import Clients
from .journal import SUFFIX, JournalContent, boot_id, journal_directory, read_journal
from .removal import RunResources
from .teardown import Teardown
from .waits import Bounds

log = logging.getLogger(__name__)

_PROBE_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Reaped:
    """The resources of one killed run that were found and removed, and the problems on the way."""

    run_id: str
    removed: tuple[Leftover, ...]
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        what = ", ".join(str(leftover) for leftover in self.removed) or "nothing"
        failed = f"; problems: {'; '.join(self.problems)}" if self.problems else ""
        return f"removed what run {self.run_id} left: {what}{failed}"


def reap(
    access: CloudAccess, *, directory: Path | None = None, bounds: Bounds | None = None
) -> tuple[Reaped, ...]:
    """Remove what killed runs on the same endpoint, account and region left, found by their tags.

    A locked journal belongs to a live run and is skipped, as are those of other endpoints, accounts and regions. A
    journal of an endpoint on this machine that no longer exists is deleted. Without a journal no request is made.
    Raises CloudError (no credentials, no region) if a journal may concern this account but that cannot be asked.
    """
    folder = directory or journal_directory()
    clients: Clients | None = None
    reaped: list[Reaped] = []
    for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else ():
        with _locked(path) as stream:
            if stream is None:
                continue
            content = read_journal(path)
            if not content.intentions or _endpoint_is_gone(content):
                path.unlink(missing_ok=True)
                continue
            clients = clients or Clients(access)
            if not _is_ours(content, clients):
                continue
            result = _reap_run(content, clients, bounds or Bounds())
            if not result.problems:
                path.unlink(missing_ok=True)
            if result.removed or result.problems:
                reaped.append(result)
    return tuple(reaped)


def _reap_run(content: JournalContent, clients: Clients, bounds: Bounds) -> Reaped:
    announced = {intention.action for intention in content.intentions}
    resources = RunResources(clients, content.run_id, bounds, announced=lambda: announced)
    found: list[Leftover] = []

    def look() -> None:
        _let_settle(content, bounds.settle_s)
        found.extend(resources.remaining())

    def verify() -> None:
        left = resources.left_over()
        if left:
            raise CloudError(", ".join(str(leftover) for leftover in left))

    teardown = Teardown()
    teardown.push("verify that nothing remains", verify)
    teardown.push_all(resources.removal_steps())
    teardown.push("list what the run left", look)
    problems = teardown.run()
    return Reaped(content.run_id, tuple(found), problems)


def _let_settle(content: JournalContent, settle_s: float) -> None:
    """Wait, because the tag of what the last call created may not be visible yet."""
    if not content.unresolved:
        return
    with suppress(ValueError):
        age_s = (
            datetime.now(timezone.utc) - datetime.fromisoformat(content.unresolved[-1].time)
        ).total_seconds()
        time.sleep(min(max(settle_s - age_s, 0.0), settle_s))


def _is_ours(content: JournalContent, clients: Clients) -> bool:
    if content.region != clients.region or content.endpoint != clients.endpoint:
        return False
    return content.account == clients.identity().account


def _endpoint_is_gone(content: JournalContent) -> bool:
    if not is_loopback_url(content.endpoint):
        return False
    if content.boot_id and content.boot_id != boot_id():
        return True
    parts = urlsplit(content.endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), timeout=_PROBE_TIMEOUT_S).close()
    except OSError as error:
        return error.errno == errno.ECONNREFUSED
    return False


@contextmanager
def _locked(path: Path) -> Iterator[IO[str] | None]:
    """Yield the journal, locked; None if its run is alive, another reaper has it, or it was deleted."""
    try:
        stream = path.open("r+", encoding="utf-8")
    except OSError:
        yield None
        return
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        try:
            same = path.stat().st_ino == os.fstat(stream.fileno()).st_ino
        except OSError:
            same = False
        yield stream if same else None
