"""Earlier runs to compare the present one with: which are comparable, and what they measured for the same workload."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_cloudbench.evidence.folder import JOURNALS, EvidenceError
from pytest_cloudbench.evidence.reader import Evidence, RecordedTest, readable_runs
from pytest_cloudbench.evidence.restorable import NotRestored, measurement_from
from pytest_cloudbench.evidence.setups import recorded_setup
from pytest_cloudbench.verdicts.not_worse_than import Earlier, EarlierRun, Setup

MUST_BE_EQUAL = ("cloud", "pace", "twin-time", "twin-latency")
"""Options that must be equal in two runs; otherwise the runs measured different things."""
DIRECTIONS = ("forward", "backward")
_REPEAT = re.compile(r"(?:\[|-)repeat \d+ of \d+\]\Z")
_NUMBERED = re.compile(r"repeat \d+ of (\d+)\]\Z")


class NoBaseline(EvidenceError):
    """There is no earlier run that the present one can be compared with."""


def folders_in(paths: Iterable[Path]) -> list[Path]:
    """Return the evidence folders at or below paths, each once. Raises NoBaseline if a path is not a folder."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            raise NoBaseline(f"{path} is not a folder: give an evidence folder, or a folder of them")
        found += sorted(_evidence_below(path))
    return list(dict.fromkeys(found))


def _evidence_below(path: Path) -> Iterator[Path]:
    for directory, folders, _ in os.walk(path):
        if JOURNALS in folders:
            folders.clear()
            yield Path(directory)


class Baseline:
    """Earlier runs that can be compared with the present one, oldest first.

    ``left_out`` maps each other run, its id or the folder if it cannot be read, to the reason why it is not compared.
    ``unread`` maps plain node ids to such reasons for tests with altered or lost files; it is filled as tests are read.
    """

    def __init__(self, folders: Iterable[Path], options: Mapping[str, str], *, but: str = "") -> None:
        """Open the runs in these folders, except the one with the id ``but``.

        ``options`` are those of the present run. Raises NoBaseline if runs were found, but none of them is readable and
        has the same `MUST_BE_EQUAL` options.
        """
        found, self.left_out = readable_runs(folders)
        self.runs: list[Evidence] = []
        self.unread: dict[str, set[str]] = {}
        for evidence in found:
            name = str(evidence.run["run"])
            if name in (but, *(str(run.run["run"]) for run in self.runs)):
                continue
            if why := _differs(evidence.run.get("options", {}), options):
                self.left_out[name] = f"run {name} had {why}"
            else:
                self.runs.append(evidence)
        if self.left_out and not self.runs:
            why = next(reversed(self.left_out.values()))
            raise NoBaseline(f"no earlier run can be compared with this one: {why}")

    def __str__(self) -> str:
        if not self.runs:
            return "no earlier runs"
        runs = "1 earlier run" if len(self.runs) == 1 else f"{len(self.runs)} earlier runs"
        last = self.runs[-1]
        text = f"{runs}, the last is {last.run['run']} of {last.began[:16].replace('T', ' ')} UTC"
        if self.left_out:
            why = next(reversed(self.left_out.values()))
            text += f"; {len(self.left_out)} left out, the last because {why}"
        return text

    def earlier(
        self,
        nodeid: str,
        asked: Mapping[str, Any],
        setup: Setup,
        nth: int = 0,
        *,
        parts: Sequence[str] = ("",),
    ) -> dict[str, Earlier]:
        """Return what earlier runs measured when a test requested this workload for the ``nth`` time, counted from 0.

        ``asked`` is the request, with "name" and "arguments" as in evidence; ``setup`` are the present conditions.
        ``parts`` are the directions of a network run (`parts_of`); each has its own earlier runs.
        """
        wanted = {name: asked[name] for name in ("name", "arguments")}
        found: list[dict[str, EarlierRun]] = []
        missing = ""
        for name, test in self._tests(nodeid):
            try:
                if why := _unfit(test):
                    missing = f"in run {name}, {why}"
                    continue
                calls = measured_calls(test)
                entry = next((each for each, same, at in calls if same == wanted and at == nth), None)
                if entry is None:
                    missing = f"in run {name}, {_nearest(test, asked, nth)}"
                    continue
                found.append(_earlier_runs(name, test, entry, parts))
            except NotRestored as error:
                missing = f"in run {name}, its measurement cannot be restored: {error}"
            except EvidenceError as error:
                missing = f"in run {name}, {error}"
                self.unread.setdefault(plain_nodeid(nodeid), set()).add(missing)
        if not missing:
            no_run_has = f"no earlier run has {plain_nodeid(nodeid)}"
            missing = no_run_has if self.runs else "there are no earlier runs"
        return {part: Earlier(tuple(each[part] for each in found), setup, missing) for part in parts}

    def knows(self, nodeid: str) -> bool:
        """Return True if any earlier run has this test."""
        return any(True for _ in self._tests(nodeid))

    def _tests(self, nodeid: str) -> Iterator[tuple[str, RecordedTest]]:
        """Yield, for each run, the last attempt of a test and of each of its repeats, with the run's id."""
        wanted = plain_nodeid(nodeid)
        for by_name in self._by_name:
            name = wanted if wanted in by_name else _only_ending(wanted, by_name)
            for test in by_name.get(name, ()):
                yield run_name(test), test

    @cached_property
    def _by_name(self) -> list[dict[str, list[RecordedTest]]]:
        found = []
        for evidence in self.runs:
            last = {test.nodeid: test for test in evidence.tests}
            by_name: dict[str, list[RecordedTest]] = {}
            for nodeid, test in last.items():
                by_name.setdefault(plain_nodeid(nodeid), []).append(test)
            found.append(by_name)
        return found


def plain_nodeid(nodeid: str) -> str:
    """Return a test's node id without its repeat: "test_x[3]" for "test_x[3-repeat 1 of 6]"."""
    found = _REPEAT.search(nodeid)
    if found is None:
        return nodeid
    return nodeid[: found.start()] + ("]" if found[0].startswith("-") else "")


def run_name(test: RecordedTest) -> str:
    """Return the id of a test's run, and the repeat if the test is one: "20261120-1 (repeat 2 of 6)"."""
    found = _REPEAT.search(test.nodeid)
    return f"{test.evidence.run['run']}{f' ({found[0][1:-1]})' if found else ''}"


def parts_of(measurement: Any) -> tuple[str, ...]:
    """Return the parts that are judged: both directions of a two-way network run, else only "", the whole."""
    return DIRECTIONS if getattr(measurement, "directions", ()) else ("",)


def observed_in(value: Any, part: str = "") -> Any:
    """Return the value to compare: a sweep's maximum, a direction (``part``), or the device's side of created files."""
    value = getattr(value, "maximum", value)
    value = getattr(value, part) if part else value
    observed = getattr(value, "_observed", None)
    return observed() if observed is not None else value


def _differs(recorded: Mapping[str, str], present: Mapping[str, str]) -> str:
    words = [
        f"{name} {recorded[name] or 'not set'}, this one {present[name] or 'not set'}"
        for name in MUST_BE_EQUAL
        if name in recorded and recorded[name] != present.get(name, recorded[name])
    ]
    return " and ".join(words)


def _unfit(test: RecordedTest) -> str:
    """Return why an attempt of a test is unfit for comparison; "" if it is fit.

    A test that failed only because a verdict was inconclusive still measured a normal run. A repeat is not judged by
    itself, so the verdicts on all repeats together count too.
    """
    whole = _all_repeats_of(test)
    return _failure(test) or (_failure(whole) if whole is not None else "")


def _failure(test: RecordedTest) -> str:
    if test.outcome in ("passed", "skipped"):
        return ""
    outcomes = [entry["verdict"]["outcome"]["value"] for entry in test.of_kind("verdict")]
    if test.outcome == "failed" and "violated" in outcomes:
        return f"{test.nodeid} violated a promise"
    if test.outcome == "failed" and "inconclusive" in outcomes:
        return ""
    return f"{test.nodeid} {test.outcome or 'did not end'}"


def _all_repeats_of(test: RecordedTest) -> RecordedTest | None:
    """Return the record of the verdicts on all repeats together if ``test`` is one of them; else None."""
    name = _NUMBERED.sub(r"all \1 repeats]", test.nodeid)
    attempts = test.evidence.attempts_of(name) if name != test.nodeid else []
    return attempts[-1] if attempts else None


def _undecided(test: RecordedTest, entry: Mapping[str, Any]) -> bool:
    """Return True if a measurement was itself compared with earlier runs, and the verdict was inconclusive."""
    own = [each["verdict"] for each in _comparisons(test) if each["of"] == entry["file"]]
    compared = [each for each in own if each["details"].get("earlier")]
    whole = _all_repeats_of(test)
    if compared and whole is not None:
        compared = [each["verdict"] for each in _comparisons(whole)]
    return any(each["outcome"]["value"] == "inconclusive" for each in compared)


def _comparisons(test: RecordedTest) -> list[dict[str, Any]]:
    entries = test.of_kind("verdict")
    return [entry for entry in entries if str(entry["verdict"].get("promise")).startswith("not worse ")]


def measured_calls(test: RecordedTest) -> Iterator[tuple[dict[str, Any], dict[str, Any], int]]:
    """Yield the entry of each workload that measured something, its request, and the number of equal requests before.

    A workload that failed does not count, as its test may have called it again. Raises EvidenceError for a journal that
    cannot be read.
    """
    before: list[dict[str, Any]] = []
    for entry in test.of_kind("workload"):
        if entry.get("outcome") == "failed":
            continue
        asked = {name: entry[name] for name in ("name", "arguments")}
        if "file" in entry:
            yield entry, asked, before.count(asked)
        before.append(asked)


def _earlier_runs(
    name: str, test: RecordedTest, entry: Mapping[str, Any], parts: Sequence[str]
) -> dict[str, EarlierRun]:
    # No verdict reads the tool's own files.
    value = measurement_from(test.measurement(entry["file"]), lambda path: b"")
    setup, undecided = recorded_setup(test, getattr(value, "maximum", value)), _undecided(test, entry)
    return {part: EarlierRun(name, observed_in(value, part), setup, undecided) for part in parts}


def _nearest(test: RecordedTest, asked: Mapping[str, Any], nth: int) -> str:
    """Return how the most similar workload of a test differs from the requested one."""
    alike = [entry for entry in test.of_kind("workload") if entry["name"] == asked["name"]]
    if not alike:
        return f"the test did not run {asked['name']}"
    if any(entry["arguments"] == asked["arguments"] for entry in alike):
        return f"the test measured this {asked['name']} fewer than {nth + 1} times"

    def differing(entry: Mapping[str, Any]) -> list[str]:
        names = {**entry["arguments"], **asked["arguments"]}
        return [name for name in names if entry["arguments"].get(name) != asked["arguments"].get(name)]

    nearest = min(alike, key=lambda entry: len(differing(entry)))
    words = [
        f"{name}={nearest['arguments'].get(name)!r}, here {name}={asked['arguments'].get(name)!r}"
        for name in differing(nearest)
    ]
    return f"{asked['name']} had {' and '.join(words)}"


def _only_ending(wanted: str, names: Iterable[str]) -> str:
    """Return the only name that is ``wanted`` relative to another root folder; "" if none or several are."""
    alike = [name for name in names if name.endswith(f"/{wanted}") or wanted.endswith(f"/{name}")]
    return alike[0] if len(alike) == 1 else ""
