"""Runs over time, and two runs side by side: what `cloudbench history` and `cloudbench compare` show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_cloudbench.evidence.baseline import Baseline
from pytest_cloudbench.evidence.folder import EvidenceError
from pytest_cloudbench.evidence.measured import MeasuredWorkload, kind_of, measured_in
from pytest_cloudbench.evidence.reader import Evidence
from pytest_cloudbench.reports.pages import Section
from pytest_cloudbench.verdicts.level_changes import level_changes
from pytest_cloudbench.verdicts.not_worse_than import changes, not_worse_than
from pytest_cloudbench.verdicts.run_to_run import usual_noise
from pytest_cloudbench.verdicts.targets import plain
from pytest_cloudbench.verdicts.verdict import Outcome

_HEADS = ("run", "measured", "level", "verdicts", "changed")


def history(runs: Sequence[Evidence]) -> list[Section]:
    """Return a table for each workload of each test over all runs, oldest first, with the changes of its level."""
    found: dict[tuple[Any, ...], list[MeasuredWorkload]] = {}
    for evidence in runs:
        for measured in measured_in(evidence):
            if measured.rate is not None:
                found.setdefault((*measured.key, kind_of(evidence)), []).append(measured)
    return [_history_of(series, kind=str(key[-1])) for key, series in found.items()]


def _history_of(series: Sequence[MeasuredWorkload], *, kind: str) -> Section:
    rates = [plain(each.run.rate) for each in series]
    usual = usual_noise(on_region=series[-1].run.on_region)
    found = {change.index: change for change in level_changes(rates, usual_noise=usual)}
    rows, sentences = [], []
    for number, each in enumerate(series):
        changed = _changes(series[number - 1], each) if number else []
        level = ""
        if (change := found.get(number)) is not None:
            level = f"{abs(change.share) * 100:.1f} % {'more' if change.share > 0 else 'less'}"
            before, after = (
                each.run.shown(each.run.rate * (rate / rates[number]))
                for rate in (change.before, change.after)
            )
            cause = (
                f"changed with it: {', '.join(changed)}"
                if changed
                else "no change of the conditions was recorded"
            )
            sentences.append(f"run {_run_id(each)}: {level}, from {before} to {after}; {cause}")
        rows.append(
            (
                _when(each),
                str(each.run.shown(each.run.rate)),
                level,
                _counts(each.outcomes),
                ", ".join(changed),
            )
        )
    asked = ", ".join(f"{name}={value}" for name, value in series[-1].asked["arguments"].items())
    title = f"{series[-1].key[0]}: {series[-1].name} [{asked}] ({kind})"
    return Section(title, _HEADS, tuple(rows), tuple(sentences), tuple(rates), tuple(found))


def compare(before: Sequence[Evidence], now: Evidence, *, by: float) -> tuple[str, list[Section], Outcome]:
    """Return a title, a table of a run against earlier ones, and the worst outcome.

    Raises NoBaseline if no earlier run is comparable, EvidenceError if the run has no measurement.
    """
    baseline = Baseline([run.root for run in before], now.run.get("options", {}), but=str(now.run["run"]))
    rows, sentences, outcomes = [], [], []
    for measured in measured_in(now):
        if measured.rate is None:
            continue
        earlier = baseline.earlier(
            measured.test.nodeid, measured.asked, measured.setup, measured.nth, part=measured.part
        )
        verdict = not_worse_than(measured.run, earlier, by=by)
        outcomes.append(verdict.outcome)
        details: Mapping[str, Any] = verdict.details
        level = details.get("level")
        then = measured.run.shown(measured.run.rate * (level / plain(measured.run.rate))) if level else "none"
        difference = f"{details['difference'] * 100:+.1f} %" if "difference" in details else ""
        nodeid = measured.key[0]
        changed = ", ".join(details["changed"])
        rows.append(
            (
                nodeid,
                measured.name,
                str(then),
                str(measured.run.shown(measured.run.rate)),
                difference,
                verdict.outcome.value,
                changed,
            )
        )
        sentences.append(f"{nodeid}, {measured.name}: {verdict.sentence}")
    if not rows:
        raise EvidenceError(f"the run in {now.root} has no measurement to compare")
    heads = ("test", "workload", "before", "now", "difference", "verdict", "changed")
    worst = next(each for each in (Outcome.VIOLATED, Outcome.INCONCLUSIVE, Outcome.HELD) if each in outcomes)
    seen = {each.key for each in measured_in(now)}
    for each in measured_in(baseline.runs[-1]) if baseline.runs else ():
        if each.key not in seen:
            sentences.append(
                f"{each.key[0]}, {each.name}: measured by the last earlier run and not by this one"
            )
    section = Section("What is compared", heads, tuple(rows), tuple(sentences))
    return f"Run {now.run['run']} against {baseline}", [section], worst


def _changes(then: MeasuredWorkload, now: MeasuredWorkload) -> list[str]:
    """Return the conditions that changed between two runs, and the revision of the tests."""
    one, other = (str(each.evidence.run.get("git", {}).get("revision", ""))[:10] for each in (then, now))
    tests = [f"tests {one} -> {other}"] if one and other and one != other else []
    return [*changes(then.setup, now.setup), *tests]


def _run_id(measured: MeasuredWorkload) -> str:
    return str(measured.evidence.run["run"])


def _when(measured: MeasuredWorkload) -> str:
    return f"{measured.evidence.began[:16].replace('T', ' ')} {_run_id(measured)}"


def _counts(outcomes: Sequence[str]) -> str:
    return ", ".join(f"{outcomes.count(word)} {word}" for word in dict.fromkeys(outcomes))
