"""The recorder: writes measurements, verdicts and steps into a test's record as they happen."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_cloudbench.evidence.attempt_record import AttemptRecord
from pytest_cloudbench.evidence.journal import utc_text
from pytest_cloudbench.evidence.plain_values import WorkloadRequest, figures_of, in_lines
from pytest_cloudbench.evidence.restorable import NotRestorable, plain
from pytest_cloudbench.evidence.run_facts import FORMAT
from pytest_cloudbench.evidence.run_recorder import RunRecorder

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


class Recorder(RunRecorder):
    """The recorder of one process, a pytest plugin; `recorder_of` finds it."""

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

    def _keep_result(
        self, record: AttemptRecord, asked: Mapping[str, Any], result: object, began: float
    ) -> str | None:
        """Write a result, or an error, into a file of its own, and an entry with its name. Return the path."""
        failed = isinstance(result, BaseException)
        times = {"started": utc_text(began), "seconds": round(time.time() - began, 6)}
        with self.guarded(f"what {asked['name']} measured in {record.nodeid}"):
            record.measurements += 1
            record.last_measurement = None
            self.measurements += 1
            file_name = f"measurement-{record.measurements}"
            outcome: dict[str, Any] = {"outcome": "failed" if failed else "measured"}
            try:
                value = record.plain(result, file_name)
            except NotRestorable as error:
                record.add("workload", {**asked, **times, **outcome, "not_kept": str(error)}, sync=True)
                return None
            content = {
                "format": FORMAT,
                **asked,
                **times,
                **outcome,
                "figures": plain(figures_of(_measured_in(result)), clean=self.cleaner.named),
                "value": value,
            }
            path = record.keep(f"{file_name}.json", in_lines(content), "measurement")
            record.add("workload", {**asked, **times, **outcome, "file": path}, sync=True)
            record.last_measurement = path
            return path
        return None


def _measured_in(result: object) -> object:
    """Return the measurement that an error carries, or the result itself."""
    if not isinstance(result, BaseException):
        return result
    return next((found for name in _CARRIED if (found := getattr(result, name, None)) is not None), None)
