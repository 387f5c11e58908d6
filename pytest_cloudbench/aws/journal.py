"""The run's journal: every creating call is written to disk before it is made.

One file of JSON lines per run. The process of the run holds an flock on it. A journal whose lock is free belongs to a
killed run, and `reap` removes what that run left.

Records: {"record": "open", ...} first; {"record": "bound", endpoint, region, account} before the first
intention; then "intend" (action, what, token) before each creating call, and after it "done" (token, ids)
or "refused" (token, code); "gone" (ids) when it is verified that resources were removed; "kept" (ids) for what stays
after the run. No record holds a secret.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from pytest_cloudbench.evidence.folder import new_run_id as new_run_id  # noqa: PLC0414  (also for callers of `Journal.open`)
from pytest_cloudbench.evidence.journal import utc_now
from pytest_cloudbench.resources.errors import CloudError

from .access import CloudAccess
from .errors import JournalError, is_temporary
from .kinds import CREATED_BY

SUFFIX = ".jsonl"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def state_directory() -> Path:
    """Return the folder of files that outlive a run: $XDG_STATE_HOME/cloudbench, by default under ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "cloudbench"


def journal_directory() -> Path:
    """Return the folder of the journals."""
    return state_directory() / "journal"


def boot_id() -> str:
    """Return the id of this boot of the machine: no loopback endpoint outlives a boot."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


@dataclass
class Intention:
    """One creating call: its token, and after success the ids of what it created."""

    action: str
    what: str
    token: str
    time: str = ""
    ids: tuple[str, ...] = ()
    refused: str = ""

    @property
    def unresolved(self) -> bool:
        """True if it is unknown whether the call created something: its answer was not received or not written."""
        return not self.ids and not self.refused

    def done(self, ids: Sequence[str]) -> None:
        """Note what the call created."""
        self.ids = tuple(ids)


@dataclass
class JournalContent:
    """The content of a journal. Unreadable lines (the last one of a killed run) are left out."""

    run_id: str = ""
    boot_id: str = ""
    endpoint: str = ""
    region: str = ""
    account: str = ""
    intentions: list[Intention] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


class Journal:
    """The journal of one run, locked while this object is open. Thread-safe."""

    def __init__(self, path: Path, run_id: str, stream: TextIO) -> None:
        self.path = path
        self.run_id = run_id
        self._stream = stream
        self._lock = threading.Lock()
        self._bound: tuple[str, str, str] | None = None
        self._intentions: list[Intention] = []

    @classmethod
    def open(cls, run_id: str, access: CloudAccess, directory: Path | None = None) -> Journal:
        """Create the journal of `run_id` and hold its lock.

        Raises JournalError if the file cannot be written or exists already.
        """
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", run_id):
            raise JournalError(
                f"{run_id!r} cannot be a run id: letters, digits, '.', '_' and '-', at most 64"
            )
        folder = directory or journal_directory()
        path = folder / f"{run_id}{SUFFIX}"
        hidden = folder / f".{run_id}.{os.getpid()}.new"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            stream = os.fdopen(descriptor, "w", encoding="utf-8")
            try:
                # Locked before it has its real name, so that no reaper can find it unlocked. link, unlike
                # rename, does not replace the journal of a run with the same id.
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.link(hidden, path)
            except OSError:
                stream.close()
                raise
            finally:
                hidden.unlink()
        except FileExistsError:
            raise JournalError(f"there is a journal of run {run_id} already: {path}") from None
        except OSError as error:
            raise JournalError(
                f"cannot write the journal of the run under {folder} ({error.strerror or error}); "
                "without it nothing is created; set XDG_STATE_HOME to a writable folder"
            ) from error
        journal = cls(path, run_id, stream)
        journal._write(
            {
                "record": "open",
                "run": run_id,
                "pid": os.getpid(),
                "boot": boot_id(),
                "endpoint": access.endpoint_url or "",
            }
        )
        return journal

    def bind(self, endpoint: str, region: str, account: str) -> None:
        """Write where this run creates resources; call it before the first intention."""
        with self._lock:
            if self._bound == (endpoint, region, account):
                return
            self._bound = (endpoint, region, account)
        self._write({"record": "bound", "endpoint": endpoint, "region": region, "account": account})

    @contextmanager
    def creating(self, action: str, what: str) -> Iterator[Intention]:
        """Write the intention of one creating call to disk, run the block that makes the call, and write its outcome.

        The block calls `done(ids)` on the yielded intention, whose token is the call's ClientToken. Raises ValueError
        for an action that `kinds.CREATED_BY` lacks: nothing would remove what it creates.
        """
        if action not in CREATED_BY:
            raise ValueError(f"no kind of resource is known to be created by {action}: add it to CREATED_BY")
        intention = Intention(action=action, what=what, token=str(uuid.uuid4()), time=utc_now())
        with self._lock:
            self._intentions.append(intention)
        self._write(
            {"record": "intend", "action": action, "what": what, "token": intention.token, "run": self.run_id}
        )
        try:
            yield intention
        except CloudError as error:
            if _says_nothing_was_created(error):
                intention.refused = error.code
                self._note_outcome({"record": "refused", "token": intention.token, "code": error.code})
            raise
        else:
            self._note_outcome({"record": "done", "token": intention.token, "ids": list(intention.ids)})

    def note_gone(self, ids: Sequence[str]) -> None:
        """Write that these resources no longer exist, so that `reap` does not look for them."""
        self._note_outcome({"record": "gone", "ids": list(ids)})

    def note_kept(self, ids: Sequence[str]) -> None:
        """Write that these resources stay after the run. Raises JournalError."""
        self._write({"record": "kept", "ids": list(ids)})

    @property
    def intentions(self) -> tuple[Intention, ...]:
        """The creating calls of this run so far."""
        with self._lock:
            return tuple(self._intentions)

    def finish(self, *, clean: bool) -> None:
        """End the run: remove the file if nothing remains, else leave it, unlocked, for the next start to reap."""
        with self._lock:
            if self._stream.closed:
                return
            if clean:
                with suppress(OSError):
                    self.path.unlink()
            self._stream.close()

    def _note_outcome(self, record: Mapping[str, Any]) -> None:
        """Write an outcome if possible. Without it a later reap is slower, but still finds everything by tags."""
        with suppress(JournalError):
            self._write(record)

    def _write(self, record: Mapping[str, Any]) -> None:
        line = json.dumps({"time": utc_now(), **record}) + "\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
                os.fsync(self._stream.fileno())
            except (OSError, ValueError) as error:
                raise JournalError(
                    f"cannot write the journal {self.path} ({error}); nothing is created"
                ) from error


def _says_nothing_was_created(error: CloudError) -> bool:
    """Return True for a refusal by the service, False for a failure of the service or a missing answer.

    Names contain the run's id, so a duplicate was created by an earlier attempt of this run.
    """
    return bool(error.code) and not is_temporary(error) and not error.code.endswith(".Duplicate")


def read_journal(path: Path) -> JournalContent:
    """Read a journal, even one that ends in the middle of a line."""
    content = JournalContent()
    by_token: dict[str, Intention] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            _apply(record, content, by_token)
    return content


def _apply(record: Mapping[str, Any], content: JournalContent, by_token: dict[str, Intention]) -> None:
    kind = record.get("record")
    if kind == "open":
        content.run_id = record.get("run", "")
        content.boot_id = record.get("boot", "")
        content.endpoint = record.get("endpoint", "")
    elif kind == "bound":
        content.endpoint = record.get("endpoint", "")
        content.region = record.get("region", "")
        content.account = record.get("account", "")
    elif kind == "intend":
        intention = Intention(
            action=record.get("action", ""),
            what=record.get("what", ""),
            token=record.get("token", ""),
            time=record.get("time", ""),
        )
        by_token[intention.token] = intention
        content.intentions.append(intention)
    elif kind == "gone":
        content.gone += record.get("ids", ())
    elif kind == "kept":
        content.kept += record.get("ids", ())
    elif kind in ("done", "refused") and record.get("token") in by_token:
        intention = by_token[record["token"]]
        intention.ids = tuple(record.get("ids", ()))
        intention.refused = record.get("code", "")
