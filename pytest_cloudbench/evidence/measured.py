"""What recorded runs measured, workload by workload, to compare runs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_cloudbench.evidence.baseline import (
    MUST_BE_EQUAL,
    measured_calls,
    observed_in,
    parts_of,
    plain_nodeid,
)
from pytest_cloudbench.evidence.folder import EvidenceError
from pytest_cloudbench.evidence.reader import Evidence, RecordedTest, readable_runs
from pytest_cloudbench.evidence.restorable import NotRestored, measurement_from
from pytest_cloudbench.evidence.setups import recorded_setup
from pytest_cloudbench.limits.quantities import Rate
from pytest_cloudbench.verdicts.details import unusable
from pytest_cloudbench.verdicts.not_worse_than import Setup
from pytest_cloudbench.verdicts.run import run_of
from pytest_cloudbench.verdicts.run_view import Run

_ANY_WORKLOAD: Mapping[str, Any] = {"name": "all workloads", "arguments": {}}
"""Stands for the unknown request of a test whose journal cannot be read."""


@dataclass(frozen=True)
class MeasuredWorkload:
    """One measurement of one run, or one ``part`` of it. ``nth`` numbers the equal requests of a test, from 0.

    ``value`` is None if it cannot be read, and ``unread`` says why.
    """

    evidence: Evidence
    test: RecordedTest
    asked: Mapping[str, Any]
    nth: int
    value: Any
    part: str = ""
    unread: str = ""

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        """What makes it the same workload in another run: the test, the workload, its arguments, and its number."""
        arguments = sorted((name, repr(value)) for name, value in self.asked["arguments"].items())
        return plain_nodeid(self.test.nodeid), str(self.asked["name"]), repr(arguments), self.nth, self.part

    @property
    def name(self) -> str:
        """The workload in words: "fio randread 4k", with "#2" for the second of a test."""
        measured = getattr(self.value, "maximum", self.value)
        words = str(getattr(measured, "workload", "") or self.asked["name"])
        return " ".join(
            [words, *([f"#{self.nth + 1}"] if self.nth else []), *([self.part] if self.part else [])]
        )

    @cached_property
    def run(self) -> Run:
        """The view of the run that verdicts judge. Raises ValueError for a measurement that cannot be judged."""
        return run_of(observed_in(self.value, self.part))

    @property
    def incomparable(self) -> str:
        """Why verdicts cannot judge the measurement, such as files that did not wait for a device; "" if they can."""
        if self.unread:
            return ""
        try:
            self.run  # noqa: B018  raises
        except ValueError as error:
            return str(error)
        return ""

    @property
    def damage(self) -> str:
        """Why the measurement is unusable (altered, damaged, or contradicts itself); "" if it is usable."""
        if self.unread or self.incomparable:
            return self.unread
        doubt = unusable(self.run, self.run.rate)
        return doubt.text if doubt else ""

    @property
    def rate(self) -> Rate | None:
        """The mean rate; None if the measurement is damaged or cannot be judged as a whole."""
        return None if self.damage or self.incomparable else self.run.rate

    @cached_property
    def setup(self) -> Setup:
        """The conditions of the measurement."""
        return recorded_setup(self.test, getattr(self.value, "maximum", self.value))

    @property
    def outcomes(self) -> list[str]:
        """The outcome of each verdict of the test, in order."""
        return [entry["verdict"]["outcome"]["value"] for entry in self.test.of_kind("verdict")]


def measured_in(evidence: Evidence) -> Iterator[MeasuredWorkload]:
    """Yield what the last attempt of each test measured; also what cannot be read, with the reason."""
    last = {test.nodeid: test for test in evidence.tests}
    for test in last.values():
        try:
            calls = list(measured_calls(test))
        except EvidenceError as error:
            yield MeasuredWorkload(evidence, test, _ANY_WORKLOAD, 0, None, unread=str(error))
            continue
        for entry, asked, nth in calls:
            try:
                value = measurement_from(test.measurement(entry["file"]), lambda path: b"")
            except (NotRestored, EvidenceError) as error:
                yield MeasuredWorkload(evidence, test, asked, nth, None, unread=str(error))
                continue
            for part in parts_of(value):
                yield MeasuredWorkload(evidence, test, asked, nth, value, part)


def runs_in(folders: Iterable[Path]) -> tuple[list[Evidence], dict[str, str]]:
    """Return the runs in evidence folders, each once, oldest first, and for each other folder why it is unreadable."""
    runs, unreadable = readable_runs(folders)
    return list({str(evidence.run["run"]): evidence for evidence in runs}.values()), unreadable


def kind_of(evidence: Evidence) -> str:
    """Return the settings that must be equal for two runs to be comparable: "embedded, quick pace"."""
    options = evidence.run.get("options", {})
    words = [f"{options.get('cloud', '?')}, {options.get('pace', '?')} pace"]
    usual = {"twin-time": "1", "twin-latency": "ebs"}
    words += [
        f"{name} {options[name]}"
        for name in MUST_BE_EQUAL
        if name in usual and options.get(name, usual[name]) != usual[name]
    ]
    return ", ".join(words)
