"""The recorder of one process: its journal, its tests as they begin and end, and what they measure, judge and do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_cloudbench.evidence.attempt_record import AttemptRecord
from pytest_cloudbench.evidence.cleaner import Cleaner
from pytest_cloudbench.evidence.folder import (
    JOURNALS,
    SOURCE_SUFFIX,
    SOURCES,
    EvidenceError,
    EvidenceFolder,
)
from pytest_cloudbench.evidence.journal import SUFFIX, Journal, utc_text
from pytest_cloudbench.evidence.plain_values import WorkloadRequest, figures_of, in_lines, worded
from pytest_cloudbench.evidence.restorable import NotRestorable, plain
from pytest_cloudbench.evidence.run_facts import FORMAT, run_facts

if TYPE_CHECKING:
    from pytest_cloudbench.verdicts.verdict import Verdict

T = TypeVar("T")

_CARRIED = ("measurement", "partial", "curve")
"""Attributes in which workloads' errors carry what was measured before the failure."""
RECORDER: pytest.StashKey[Recorder] = pytest.StashKey()
"""The recorder of this process."""


def recorder_of(config: pytest.Config) -> Recorder | None:
    """Return the recorder of this process; None before the first entry, with evidence off, and in a replay."""
    return config.stash.get(RECORDER, None)


class Recorder:
    """Writes an evidence folder, test by test; a pytest plugin.

    ``part`` names this process within the run ("main", with xdist the worker's name), ``options`` are the settings of
    the run, ``cleaner`` removes secrets. `open`, or the first entry, creates the folder. An error in recording never
    fails a test: it is noted in ``trouble``, and the run reports at its end that its evidence is incomplete.
    `recorder_of` finds it.
    """

    def __init__(
        self,
        config: pytest.Config,
        root: Path,
        *,
        run_id: str,
        part: str,
        options: Mapping[str, str],
        cleaner: Cleaner,
    ) -> None:
        self.root = root
        self.folder = EvidenceFolder(root)
        self.run_id = run_id
        self.part = part
        self.cleaner = cleaner
        self.trouble: list[str] = []
        self.measurements = 0
        self._config = config
        self._options = dict(options)
        self._journal: Journal | None = None
        self._attempts: dict[str, AttemptRecord] = {}
        # The record of the running test, for callers that do not know their test; None between tests.
        self.current: AttemptRecord | None = None
        self._sources: dict[str, Path | None] = {}
        self._lock = threading.RLock()

    @property
    def opened(self) -> bool:
        """True if anything was recorded."""
        return self._journal is not None

    # The run ---------------------------------------------------------------------------------------

    def open(self) -> Journal:
        """Create the folder and this process's journal; a second call returns the same journal.

        Raises EvidenceError if the folder cannot be written: call it before the run measures for hours.
        """
        with self._lock:
            if self._journal is None:
                self.folder.prepare()
                self.folder.lock()
                journal = Journal(self.root / JOURNALS / f"{self.part}{SUFFIX}")
                facts = {
                    "run": self.run_id,
                    "part": self.part,
                    "options": self._options,
                    **run_facts(self._config),
                }
                journal.add("open", self.cleaner.value(facts))
                self._journal = journal
            return self._journal

    def note(self, kind: str, **content: Any) -> None:
        """Add an entry about the run as a whole, not about a test."""
        with self.guarded(f"an entry about the run ({kind})"):
            self.open().add(kind, self.cleaner.value(content))

    def end(self) -> Journal:
        """End the records of all tests and write this process's last entry. Return its journal, still open."""
        with self._lock:
            for nodeid in list(self._attempts):
                self.pytest_runtest_logfinish(nodeid)
            journal = self.open()
            journal.add("close", self.cleaner.value({"trouble": self.trouble}))
            journal.sync()
            return journal

    # Tests -----------------------------------------------------------------------------------------

    def attempt(self, item: pytest.Item) -> AttemptRecord:
        """Return the record of the test's present attempt; the first call begins it."""
        with self._lock:
            found = self._attempts.get(item.nodeid)
            if found is None:
                found = self._begin(item)
            self.current = found
            return found

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """End the record of an earlier attempt before the test is set up again."""
        with self._lock:
            found = self._attempts.get(item.nodeid)
            if found is not None and found.torn_down:
                self.pytest_runtest_logfinish(item.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record how a phase (setup, call, teardown) of a test ended."""
        record = self._attempts.get(report.nodeid)
        if record is None:
            return
        with self.guarded(f"the {report.when} of {report.nodeid}"):
            record.outcomes[report.when or ""] = report.outcome
            record.torn_down = record.torn_down or report.when == "teardown"
            properties = report.user_properties[record.properties :]
            record.properties += len(properties)
            record.add(
                "phase",
                {
                    "when": report.when,
                    "outcome": report.outcome,
                    "seconds": round(report.duration, 6),
                    **(record.text("message", report.longreprtext) if report.longrepr else {}),
                    "properties": [worded(pair) for pair in properties],
                },
            )

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Close a test's record, after other plugins added their entries, and chain it to this process's journal."""
        with self._lock:
            record = self._attempts.pop(nodeid, None)
            if record is None:
                return
            if self.current is record:
                self.current = None
            with self.guarded("the source of a test"):
                self._keep_sources()
            with self.guarded(f"the end of {nodeid}"):
                record.add("end", {"outcome": record.outcome, "measurements": record.measurements}, sync=True)
                record.journal.close()
                self.open().add(
                    "test",
                    self.cleaner.value(
                        {
                            "test": nodeid,
                            "folder": record.path,
                            "attempt": record.attempt,
                            "outcome": record.outcome,
                            "measurements": record.measurements,
                            "entries": record.journal.entries,
                            "head": record.journal.head,
                            "files": record.files,
                        }
                    ),
                )

    # What a test does ------------------------------------------------------------------------------

    def workload(self, item: pytest.Item, request: WorkloadRequest, run: Callable[[], T]) -> T:
        """Run a workload and record its arguments and its result, or its error."""
        record = self.attempt(item)
        asked = request.plain()
        began = time.time()
        try:
            with record.inside(request.name):
                result = run()
        except BaseException as error:
            self._keep_result(record, asked, error, began)
            raise
        self._keep_result(record, asked, result, began)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_partial_measurement(self, item: pytest.Item, measurement: Any) -> None:
        """Record a completed part of a workload, such as one step of a sweep, so that a kill does not lose it."""
        with self.guarded(f"a part of what {item.nodeid} measures"):
            record = self.attempt(item)
            name = f"part-{record.journal.entries + 1}"
            value = record.plain(measurement, name)
            content = {
                "format": FORMAT,
                "figures": plain(figures_of(measurement), clean=self.cleaner.named),
                "value": value,
            }
            path = record.keep(f"{name}.json", in_lines(content), "part")
            record.add("part", {"file": path}, sync=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_measurement(self, item: pytest.Item, measurement: Any) -> None:
        """Remember the file of the latest workload's result, for verdicts on this measurement."""
        record = self.attempt(item)
        record.measured_in[id(measurement)] = record.last_measurement

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_curve(self, item: pytest.Item, curve: Any) -> None:
        """Remember the file of the latest workload's result, for verdicts on this curve."""
        self.pytest_cloudbench_measurement(item, curve)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_verdict(self, item: pytest.Item, verdict: Verdict, measurement: Any) -> None:
        """Record a verdict with all figures it is based on, and the file of the judged measurement."""
        with self.guarded(f"a verdict of {item.nodeid}"):
            record = self.attempt(item)
            of = record.measured_in.get(id(measurement))
            kept = record.plain(verdict)
            record.add("verdict", {"of": of, "sentence": str(verdict), "verdict": kept})

    @pytest.hookimpl(tryfirst=True)
    def pytest_cloudbench_step(
        self, item: pytest.Item, name: str, started_s: float, ended_s: float, error: BaseException | None
    ) -> None:
        """Record a step with its times in seconds since the epoch, and the error that ended it, if any."""
        with self.guarded(f"a step of {item.nodeid}"):
            times = {"started": utc_text(started_s), "ended": utc_text(ended_s)}
            broken = {} if error is None else {"error": f"{type(error).__name__}: {error}"}
            self.attempt(item).add("step", {"name": name, **times, **broken})

    def attach(self, item: pytest.Item, name: str, data: bytes, mime: str) -> str | None:
        """Store a file with the test, such as a plot. Return its path below the evidence folder."""
        with self.guarded(f"the attachment {name} of {item.nodeid}"):
            record = self.attempt(item)
            path = record.keep(f"attachments/{len(record.files) + 1}-{record.safe(name)}", data, "attachment")
            record.add("attachment", {"name": name, "mime": mime, "path": path})
            return path
        return None

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Return a context in which an error is noted as trouble in recording ``what``, and not raised."""
        try:
            yield
        except Exception as error:
            self.trouble.append(f"{what} could not be recorded: {type(error).__name__}: {error}")

    def _begin(self, item: pytest.Item) -> AttemptRecord:
        journal = self.open()
        nodeid = self.cleaner.text(item.nodeid)
        try:
            name, attempt = self.folder.new_test(nodeid)
            journal.add("begin", {"test": nodeid, "folder": name})
            record = AttemptRecord(self.folder, nodeid, name, attempt, self.cleaner)
        except OSError as error:
            raise EvidenceError(
                f"the record of {nodeid} cannot be created in {self.root}: {error}"
            ) from error
        path, line, _ = item.location
        callspec = getattr(item, "callspec", None)
        record.add(
            "begin",
            {
                "format": FORMAT,
                "run": self.run_id,
                "part": self.part,
                "test": nodeid,
                "attempt": record.attempt,
                "file": path,
                "line": (line or 0) + 1,
                "source": self._source_name(item),
                "doc": getattr(getattr(item, "function", None), "__doc__", None),
                "parameters": worded(callspec.params) if callspec else {},
                "markers": [worded([mark.name, mark.args, mark.kwargs]) for mark in item.iter_markers()],
            },
        )
        self._attempts[item.nodeid] = record
        return record

    def _source_name(self, item: pytest.Item) -> str | None:
        """Return the name under which the test's source file will be stored."""
        path = getattr(item, "path", None)
        if path is None or not path.is_file():
            return None
        try:
            below = path.relative_to(self._config.rootpath).as_posix()
        except ValueError:
            below = path.name
        # With another suffix, because below the root folder pytest would collect it as a test.
        name = f"{SOURCES}/{self.part}/{below}{SOURCE_SUFFIX}"
        self._sources.setdefault(name, path)
        return name

    def _keep_sources(self) -> None:
        """Store each test file, once a run, so that an auditor can read the tests.

        This happens at the end of the first test of each file, when the run's secrets are known.
        """
        for name, path in self._sources.items():
            if path is None:
                continue
            self._sources[name] = None
            kept = self.folder.write(name, self.cleaner.data(path.read_bytes()))
            self.open().add("file", kept.entry("source"))

    def _keep_result(
        self, record: AttemptRecord, asked: Mapping[str, Any], result: object, began: float
    ) -> None:
        """Write a result, or an error, into a file of its own, and an entry with its name."""
        outcome = "failed" if isinstance(result, BaseException) else "measured"
        times = {"started": utc_text(began), "seconds": round(time.time() - began, 6)}
        entry: dict[str, Any] = {**asked, **times, "outcome": outcome}
        with self.guarded(f"what {asked['name']} measured in {record.nodeid}"):
            record.measurements += 1
            record.last_measurement = None
            self.measurements += 1
            file_name = f"measurement-{record.measurements}"
            try:
                value = record.plain(result, file_name)
            except NotRestorable as error:
                record.add("workload", {**entry, "not_kept": str(error)}, sync=True)
                return
            figures = plain(figures_of(_measured_in(result)), clean=self.cleaner.named)
            content = {"format": FORMAT, **entry, "figures": figures, "value": value}
            path = record.keep(f"{file_name}.json", in_lines(content), "measurement")
            record.add("workload", {**entry, "file": path}, sync=True)
            record.last_measurement = path


def _measured_in(result: object) -> object:
    """Return the measurement that an error carries, or the result itself."""
    if not isinstance(result, BaseException):
        return result
    return next((found for name in _CARRIED if (found := getattr(result, name, None)) is not None), None)
