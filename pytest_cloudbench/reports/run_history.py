"""Runs over time, and two runs side by side: what `cloudbench history` and `cloudbench compare` show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_cloudbench.evidence.baseline import Baseline, plain_nodeid, run_name
from pytest_cloudbench.evidence.folder import EvidenceError
from pytest_cloudbench.evidence.measured import MeasuredWorkload, kind_of, measured_in
from pytest_cloudbench.evidence.reader import Evidence, is_same_test
from pytest_cloudbench.limits.quantities import plain
from pytest_cloudbench.reports.pages import Levels, Section
from pytest_cloudbench.reports.plots.rate_scale import scale_for
from pytest_cloudbench.reports.properties import counted
from pytest_cloudbench.verdicts.compared_by import compared_by
from pytest_cloudbench.verdicts.level_changes import level_changes
from pytest_cloudbench.verdicts.not_worse_than import changes, not_worse_if_known
from pytest_cloudbench.verdicts.run_to_run import usual_noise
from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict

_HEADS = ("run", "measured", "level", "verdicts", "changed")


def history(runs: Sequence[Evidence], unreadable: Mapping[str, str] | None = None) -> list[Section]:
    """Return a table for each workload of each test over all runs, oldest first, with the changes of its level.

    A last table names what is not shown, and why: the folders that are ``unreadable``, and damaged measurements.
    Without any measurement there is no table.
    """
    found: dict[tuple[Any, ...], list[MeasuredWorkload]] = {}
    left_out = [(folder, "", why) for folder, why in (unreadable or {}).items()]
    for evidence in runs:
        for measured in measured_in(evidence):
            if measured.rate is not None:
                found.setdefault((*measured.key, kind_of(evidence)), []).append(measured)
            elif measured.damage:
                left_out.append((_when(measured), f"{measured.key[0]}: {measured.name}", measured.damage))
    sections = [_history_of(series, kind=str(key[-1])) for key, series in found.items()]
    if sections and left_out:
        sections.append(Section("Left out", ("run", "workload", "reason"), tuple(left_out)))
    return sections


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
                _measured(each.run),
                level,
                counted(each.outcomes),
                ", ".join(changed),
            )
        )
    asked = ", ".join(f"{name}={value}" for name, value in series[-1].asked["arguments"].items())
    title = f"{series[-1].key[0]}: {series[-1].name} [{asked}] ({kind})"
    levels = _levels(series, tuple(found)) if len(series) > 1 else None
    return Section(title, _HEADS, tuple(rows), tuple(sentences), levels)


def _levels(series: Sequence[MeasuredWorkload], changes: tuple[int, ...]) -> Levels:
    rates = [each.run.rate for each in series]
    scale = scale_for(rates)
    return Levels(tuple(map(scale.of, rates)), scale.unit, tuple(map(_when, series)), changes)


def compare(before: Sequence[Path], now: Evidence, *, by: float) -> tuple[str, list[Section], Outcome]:
    """Return a title, a table of a run against the earlier ones in ``before``, and the worst outcome.

    A workload that the last earlier run measured is inconclusive if this run lacks it, or if it is damaged. One that
    only runs before that measured counts as removed on purpose. Raises NoBaseline if no earlier run is comparable,
    EvidenceError if there is nothing to compare.
    """
    baseline = Baseline(before, now.run.get("options", {}), but=str(now.run["run"]))
    rows: list[tuple[str, ...]] = []
    sentences, outcomes = [], []

    def without_verdict(
        each: MeasuredWorkload, what: str, why: str, outcome: Outcome | None = None, before: str = ""
    ) -> None:
        rows.append((each.key[0], each.name, before, what, "", outcome.value if outcome else "", ""))
        sentences.append(f"{each.key[0]}, {each.name}: {what}: {why}")
        outcomes.extend([outcome] if outcome else [])

    for measured in measured_in(now):
        if measured.damage:
            without_verdict(measured, "not measured", measured.damage, Outcome.INCONCLUSIVE)
            continue
        verdict: Verdict | str = measured.incomparable
        if not verdict:
            earlier = baseline.earlier(
                measured.test.nodeid, measured.asked, measured.setup, measured.nth, parts=(measured.part,)
            )[measured.part]
            verdict = not_worse_if_known(measured.run, earlier, by=by)
        if isinstance(verdict, str):
            without_verdict(measured, "not compared", verdict)
            continue
        outcomes.append(verdict.outcome)
        rows.append(_compared(measured, verdict))
        sentences.append(f"{measured.key[0]}, {measured.name}: {verdict.sentence}")
    for each in _missing(baseline, now):
        why = f"unlike in run {_run_id(each)}, the last earlier one: {_why_missing(each, now)}"
        before_it = str(each.run.shown(each.run.rate))
        without_verdict(each, "not measured", why, Outcome.INCONCLUSIVE, before_it)
    if not outcomes:
        raise EvidenceError("; ".join([f"the run in {now.root} has no measurement to compare", *sentences]))
    heads = ("test", "workload", "before", "now", "difference", "verdict", "changed")
    worst = next(each for each in (Outcome.VIOLATED, Outcome.INCONCLUSIVE, Outcome.HELD) if each in outcomes)
    section = Section("What is compared", heads, tuple(rows), tuple(sentences))
    return f"Run {now.run['run']} against {baseline}", [section], worst


def _compared(measured: MeasuredWorkload, verdict: Verdict) -> tuple[str, ...]:
    details: Mapping[str, Any] = verdict.details
    before, now = details.get("figures", ("none", str(measured.run.shown(measured.run.rate))))
    return (
        measured.key[0],
        measured.name,
        before,
        now,
        f"{details['difference'] * 100:+.1f} %" if "difference" in details else "",
        verdict.outcome.value,
        ", ".join(details["changed"]),
    )


def _missing(baseline: Baseline, now: Evidence) -> list[MeasuredWorkload]:
    """Return what the last earlier run measured and this one did not. A damaged measurement is not missing."""
    seen = [measured.key for measured in measured_in(now)]
    return [
        each
        for each in (measured_in(baseline.runs[-1]) if baseline.runs else ())
        if each.rate is not None
        and not any(
            is_same_test(key[0], each.key[0]) and key[1:4] == each.key[1:4] and key[4] in ("", each.part)
            for key in seen
        )
    ]


def _why_missing(measured: MeasuredWorkload, now: Evidence) -> str:
    outcomes = [
        test.outcome for test in now.tests if is_same_test(plain_nodeid(test.nodeid), measured.key[0])
    ]
    if not outcomes:
        return "this run has no record of the test"
    if outcomes[-1] == "passed":
        return "the test passed without it"
    return (
        f"the outcome of the test is {outcomes[-1]}"
        if outcomes[-1]
        else "this run was killed during the test"
    )


def _changes(then: MeasuredWorkload, now: MeasuredWorkload) -> list[str]:
    """Return the conditions that changed between two runs, and the revision of the tests."""
    one, other = (str(each.evidence.run.get("git", {}).get("revision", ""))[:10] for each in (then, now))
    tests = [f"tests {one} -> {other}"] if one and other and one != other else []
    return [*changes(then.setup, now.setup), *tests]


def _run_id(measured: MeasuredWorkload) -> str:
    return str(measured.evidence.run["run"])


def _when(measured: MeasuredWorkload) -> str:
    return f"{measured.evidence.began[:16].replace('T', ' ')} {run_name(measured.test)}"


def _measured(run: Run) -> str:
    """Return the rate, with the mean latency if the job set the rate itself."""
    rate, by = str(run.shown(run.rate)), compared_by([run])
    return f"{rate}, {by.what}{by.shown(run, by.figure(run))}" if by.what else rate
