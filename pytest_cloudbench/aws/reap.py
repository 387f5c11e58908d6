"""Removing what killed runs left behind: at the next start by their journals, and on demand by their tags."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from pytest_cloudbench.resources.facts import Leftover

from .access import CloudAccess, is_loopback_url
from .clients import Clients
from .journal import SUFFIX, JournalContent, boot_id, journal_directory, read_journal
from .keeping import forget_logins, kept_runs
from .kinds import INSTANCE, KEY_PAIR, SECURITY_GROUP
from .lease import LEASE_TAG, why_alive
from .ledger import AskPrices, Ledger, seconds
from .removal import Removal
from .run import only_ours, reap_command, run_filter, tags_of
from .waits import Bounds

log = logging.getLogger(__name__)

_PROBE_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Reaped:
    """The resources of one killed run that were found and removed, what is left, and the problems on the way."""

    run_id: str
    removed: tuple[Leftover, ...]
    problems: tuple[str, ...] = ()
    left: tuple[Leftover, ...] = ()

    def __str__(self) -> str:
        what = ", ".join(str(leftover) for leftover in self.removed) or "nothing"
        left = f"; still there: {', '.join(str(leftover) for leftover in self.left)}" if self.left else ""
        failed = f"; problems: {'; '.join(self.problems)}" if self.problems else ""
        return f"removed what run {self.run_id} left: {what}{left}{failed}"


@dataclass(frozen=True)
class Elsewhere:
    """The journals of killed runs in other accounts, regions or endpoints, which were left alone."""

    runs: tuple[JournalContent, ...]

    def __str__(self) -> str:
        return (
            f"{len(self.runs)} killed run{'s' * (len(self.runs) > 1)} may have left resources elsewhere; with the "
            f"credentials of the account, this removes them: "
            + "; ".join(
                f"{reap_command(run.run_id, run.region)} (account {run.account}, {run.endpoint})"
                for run in self.runs
            )
        )


def reap(
    access: CloudAccess, *, directory: Path | None = None, bounds: Bounds | None = None
) -> tuple[Reaped | Elsewhere, ...]:
    """Remove what killed runs on the same endpoint, account and region left; report the journals of others.

    A locked journal belongs to a live run and is skipped. A journal of another boot is skipped while the run's lease
    lasts: if machines share a home directory, the lock may be invisible to this one. A journal of an endpoint on this
    machine that no longer exists is deleted. Once all kept instances of a run have ended, what was kept with them is
    removed too. Without a journal no request is made. Raises CloudError (no credentials, no region) if a journal may
    concern this account but the account is unknown.
    """
    clients: Clients | None = None
    reaped: list[Reaped] = []
    elsewhere: list[JournalContent] = []
    for path in journals(directory):
        with locked(path) as stream:
            if stream is None:
                continue
            content = read_journal(path)
            if not content.intentions or _endpoint_is_gone(content):
                path.unlink(missing_ok=True)
                continue
            clients = clients or Clients(access, bounds)
            if not is_of(content, clients):
                elsewhere.append(content)
                continue
            if not is_of_this_boot(content) and (why := _alive_elsewhere(clients, content)):
                log.info("run %s was left alone: %s", content.run_id, why)
                continue
            result = remove_run(clients, content.run_id, content, bounds=bounds)
            if not result.problems and not result.left:
                path.unlink(missing_ok=True)
            if result.removed or result.problems or result.left:
                reaped.append(result)
    going_on = {path.stem for path in journals(directory)}
    for run_id, content in kept_runs():
        if run_id in going_on:
            continue
        if _endpoint_is_gone(content):
            forget_logins(run_id)
            continue
        clients = clients or Clients(access, bounds)
        if is_of(content, clients) and not _has_instances(clients, run_id):
            # The rest was kept for the instances, whose leases have ended.
            result = remove_run(clients, run_id, content, bounds=bounds, kept=True)
            if not result.problems and not result.left:
                forget_logins(run_id)
            reaped.append(result)
    return (*reaped, *([Elsewhere(tuple(elsewhere))] if elsewhere else []))


def remove_run(
    clients: Clients,
    run_id: str,
    content: JournalContent | None,
    *,
    bounds: Bounds | None = None,
    ask_prices: AskPrices = lambda _: None,
    kept: bool = False,
) -> Reaped:
    """Remove all resources with the run's tag or in its journal, if there is one, and verify that they are gone.

    What the run has kept stays, unless `kept` is True.
    """
    limits = bounds or Bounds()
    ledger = ledger_of(clients, run_id, content, ask_prices, kept=kept)
    removal = Removal(clients, ledger, lambda: limits)
    problems: tuple[str, ...] = ()
    try:
        removal.run()
    except Exception as error:
        log.debug("reaping of %s failed", run_id, exc_info=True)
        problems = (str(error),)
    removed = tuple(
        Leftover(each.kind.name, each.id, "") for each in ledger.all() if each.gone and each.was_there
    )
    return Reaped(run_id, removed, (*problems, *removal.problems()), ledger.left())


def ledger_of(
    clients: Clients,
    run_id: str,
    content: JournalContent | None,
    ask_prices: AskPrices,
    *,
    kept: bool = False,
) -> Ledger:
    """Return the ledger of a run that has ended; `kept` includes kept resources for removal."""
    if content is None:
        return Ledger(clients, run_id, kept=None if kept else (), ask_prices=ask_prices)
    created, gone = content.intentions, content.gone
    stays = None if kept else content.kept
    return Ledger(clients, run_id, lambda: created, gone=gone, kept=stays, ask_prices=ask_prices)


def journals(directory: Path | None = None) -> list[Path]:
    """Return the journals on this machine."""
    folder = directory or journal_directory()
    return sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []


def is_of(content: JournalContent, clients: Clients) -> bool:
    """Return True if a run used the endpoint, the region and the account of these clients."""
    if content.region != clients.region or content.endpoint != clients.endpoint:
        return False
    return content.account == clients.identity().account


def is_of_this_boot(content: JournalContent) -> bool:
    """Return True if the run was on this machine since it booted, so that its lock is visible here."""
    return content.boot_id in ("", boot_id())


def _has_instances(clients: Clients, run_id: str) -> bool:
    """Return True if an instance of a run has not ended. Raises CloudError."""
    found = INSTANCE.find(clients, run_filter(run_id), f"kept by run {run_id}")
    return any(INSTANCE.state(each) not in INSTANCE.gone for each in only_ours(found, run_id))


def _alive_elsewhere(clients: Clients, content: JournalContent) -> str:
    """Return why the run of another machine may still be going on, "" if it has ended. Raises CloudError."""
    found = [
        tags_of(each)
        for kind in (INSTANCE, KEY_PAIR, SECURITY_GROUP)
        for each in only_ours(
            kind.find(clients, run_filter(content.run_id), f"of run {content.run_id}"), content.run_id
        )
        if kind.state(each) not in kind.gone
    ]
    ends = [end for tags in found if (end := seconds(tags.get(LEASE_TAG))) is not None]
    return why_alive(ends, seconds(content.intentions[-1].time), time.time())


def _endpoint_is_gone(content: JournalContent) -> bool:
    if not is_loopback_url(content.endpoint):
        return False
    if not is_of_this_boot(content):
        return True
    parts = urlsplit(content.endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), timeout=_PROBE_TIMEOUT_S).close()
    except OSError as error:
        return error.errno == errno.ECONNREFUSED
    return False


@contextmanager
def locked(path: Path) -> Iterator[IO[str] | None]:
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
