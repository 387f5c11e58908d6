"""`not_worse_than`: is a run as good as earlier ones of the same workload, apart from the noise between runs?

The rates, or latencies at a set rate, are compared as logarithms. Runs under the same conditions show how much runs
differ. A usual noise counts as two more runs, because a few runs may be alike by chance, and one run alone shows no
noise.

The level to keep is that of the latest accepted conditions. Conditions under which every comparison was inconclusive
are not accepted: else a loss that one run cannot show would be the level for the next.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from pytest_cloudbench.limits.quantities import Iops, figure, plain
from pytest_cloudbench.verdicts.attribution import other_limit
from pytest_cloudbench.verdicts.compared_by import ByLatency, ByRate, compared_by, kept_own_limit
from pytest_cloudbench.verdicts.details import unusable
from pytest_cloudbench.verdicts.machine_delay import as_modelled
from pytest_cloudbench.verdicts.run import AnyObservation, run_of
from pytest_cloudbench.verdicts.run_to_run import noise_of_runs
from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.sample_statistics import Noise
from pytest_cloudbench.verdicts.targets import as_share
from pytest_cloudbench.verdicts.verdict import Doubt, Draft, Outcome, Verdict
from pytest_cloudbench.verdicts.wording import listed, percent, tolerance

CONFIDENCE = 0.95
_FIGURES = re.compile(r"/(?!s\b)")
"""Separates the figures of a volume: "gp3 500 GiB/6,000 IOPS/125 MiB/s"."""

Setup = Mapping[str, str]
"""The conditions of a measurement in words, by their names: "instance", "zone" ... Unknown ones are absent."""


@dataclass(frozen=True)
class EarlierRun:
    """One earlier measurement: its run's id, what was measured, and its conditions.

    ``undecided`` is True if it was itself compared with earlier runs, and the result was inconclusive.
    """

    name: str
    run: AnyObservation
    setup: Setup = field(default_factory=dict, hash=False)
    undecided: bool = False


@dataclass(frozen=True)
class Earlier:
    """The earlier measurements of one workload, oldest first, and the conditions of the present one.

    ``missing`` says why there are none.
    """

    runs: tuple[EarlierRun, ...] = ()
    setup: Setup = field(default_factory=dict, hash=False)
    missing: str = ""


@dataclass(frozen=True)
class _Levels:
    """The level to keep and the noise from run to run, both as logarithms."""

    level: float
    runs: int
    noise: Noise

    def margin(self, within: Noise | None) -> float:
        """Return half the 95 % interval of the difference of one more run, with the noise ``within`` that run."""
        spread = self.noise.error * math.sqrt(1 + 1 / self.runs)
        whole = Noise(spread, self.noise.degrees)
        if within is not None and within.error > self.noise.error:
            more = math.sqrt(within.error**2 - self.noise.error**2)
            whole = whole.combined(Noise(more, within.degrees))
        return whole.margin(CONFIDENCE)

    @property
    def own_margin(self) -> float:
        """Half the 95 % interval of the level alone: repeats share it, so it does not average out over them."""
        return self.noise.scaled(1 / math.sqrt(self.runs)).margin(CONFIDENCE)


def not_worse_than(obs: AnyObservation, earlier: Earlier, *, by: float | str = 0.05) -> Verdict:
    """Judge whether the mean rate of ``obs`` lies at most the share ``by`` below that of earlier runs.

    If the job set its own rate and kept it each time, the mean latency is compared, and may be longer by that share.

    ``by`` is a share of 1, or a text such as "5%". Held or violated if the 95 % interval of the difference lies wholly
    on one side of that share; it accounts for how much runs differ from each other and for the noise within this run. A
    better run is never violated. Inconclusive within the interval, without an earlier run under comparable conditions,
    and if this run was slower because of its job, its generator or the machine under an embedded region.

    One of several repeats leans to a side only beyond the 95 % interval of the earlier runs' level, which all repeats
    share.

    Raises TypeError and ValueError for a ``by`` that is not a share from 0 to below 1.
    """
    allowed = checked_by(by)
    now = run_of(obs)
    usable, refused = _usable(now, earlier.runs)
    changed = changes(_level_runs(usable)[-1].setup, earlier.setup) if usable else []
    details: dict[str, Any] = {
        "by": allowed,
        "earlier": {each.name: plain(run_of(each.run).rate) for each in usable},
        "left_out": refused,
        "changed": changed,
        "confidence": CONFIDENCE,
    }
    draft = Draft(f"not worse by more than {tolerance(allowed)}", None, now.rate, details)
    if wrong := _proves_nothing(now):
        return draft.inconclusive(wrong)
    if not usable:
        why = next(reversed(refused.values()), earlier.missing) or "no earlier run was given"
        return draft.inconclusive(Doubt(f"{now.shown(now.rate)}, compared with nothing: {why}"))
    return _judged(now, usable, changed, allowed, details)


def _judged(
    now: Run, usable: Sequence[EarlierRun], changed: Sequence[str], allowed: float, details: dict[str, Any]
) -> Verdict:
    by = compared_by([now, *_views(usable)])
    levels = _levels(usable, by)
    level = math.exp(by.sign * levels.level)
    margin = levels.margin(by.noise_within(now))
    gain = by.gain(now) - levels.level
    beyond = gain - by.least_gain(allowed)
    difference = math.expm1(by.sign * gain)
    low, high = sorted(math.expm1(by.sign * (gain + each)) for each in (-margin, margin))
    of_latency = isinstance(by, ByLatency)
    was, is_now = by.shown(now, level), by.shown(now, by.figure(now))
    details |= {"level": level, "runs": levels.runs, "run_noise": levels.noise.error}
    details |= {"difference": difference, "interval": [low, high], "figures": [was, is_now]}
    if of_latency:
        details["latency_s"] = {"mean": by.figure(now)}
    runs = "1 earlier run" if levels.runs == 1 else f"{levels.runs} earlier runs"
    draft = Draft(
        f"not worse than {runs} by more than {tolerance(allowed)}",
        None if of_latency else now.rate * (level * (1 - allowed) / plain(now.rate)),
        now.rate,
        details,
        f"{by.what}{is_now}" if of_latency else "",
    )
    text = (
        f"{by.what}{is_now} against {was} in {runs} "
        f"({_more_or_less(difference, math.expm1(by.sign * by.least_gain(allowed)))}, "
        f"95 % interval {_signed(low)} to {_signed(high)}; "
        f"at most {tolerance(allowed)} {by.worse} allowed)"
    )
    if of_latency:
        text += f" at {now.own_limit(now.rate)}, which the job set itself{as_modelled(now)}"
    if beyond >= margin:
        better = ": better, beyond the noise" if gain > margin else ""
        return draft.verdict(Outcome.HELD, text + better + ("" if of_latency else _own_limit(now)))
    conditions = f"; changed: {listed(changed)}" if changed else "; no change of the conditions was recorded"
    undecided = draft.verdict(
        Outcome.INCONCLUSIVE, f"{text}, too close to decide: {_advice(usable, margin)}{conditions}"
    )
    if beyond >= -levels.own_margin:
        return replace(undecided, leans=Outcome.HELD if beyond >= levels.own_margin else None)
    sure = margin if beyond <= -margin else levels.own_margin
    if limit := by.excuse(now, beyond + sure):
        return draft.inconclusive(limit, f"{text}; but ")
    if beyond > -margin:
        return replace(undecided, leans=Outcome.VIOLATED)
    found = now.bounds(now.rates)
    bound = f"; {now.bound_text(found)}" if found else ""
    return draft.verdict(Outcome.VIOLATED, f"{text}{conditions}{bound}", (each.ceiling for each in found))


def _usable(now: Run, runs: Sequence[EarlierRun]) -> tuple[list[EarlierRun], dict[str, str]]:
    """Return the earlier runs that can be compared with this one, and why the others cannot, by their names."""
    usable, refused = [], {}
    for each in runs:
        then = run_of(each.run)
        wrong = _proves_nothing(then)
        limit = other_limit(then, then.rate) if then.on_region and not wrong else None
        if why := incomparable(then, now):
            refused[each.name] = f"the run of {each.name} had {why}"
        elif wrong:
            refused[each.name] = f"of the run of {each.name}: {wrong.text}"
        elif limit is not None and limit.machine_limited:
            refused[each.name] = f"in the run of {each.name}, {limit.text}"
        else:
            usable.append(replace(each, run=then))  # its view, which is made once
    return usable, refused


def _proves_nothing(run: Run) -> Doubt | None:
    """Return what is wrong with a run: its data, or a rate that none of its limits yields; None if nothing is."""
    return unusable(run, run.rate) or run.beyond_limits()


def incomparable(then: Run, now: Run) -> str:
    """Return a difference between two runs that makes their rates incomparable; "" if there is none."""
    pairs = [
        ("a load on", then.kind, now.kind),
        ("a rate of", *("I/Os" if isinstance(run.rate, Iops) else "bytes" for run in (then, now))),
        ("block size", *(str(run.block_size) if isinstance(run.rate, Iops) else "" for run in (then, now))),
        ("a region that is", _region_kind(then), _region_kind(now)),
        ("time compressed", f"{then.time_compression:g} times", f"{now.time_compression:g} times"),
    ]
    return next((f"{what} {one}, this one {other}" for what, one, other in pairs if one != other), "")


def _region_kind(run: Run) -> str:
    if not run.on_region:
        return "not embedded"
    return "embedded" + (", without modelled latency" if run.modelled_latency == "none" else "")


def changes(then: Setup, now: Setup) -> list[str]:
    """Return each condition that differs and is known for both: "gp3 500 GiB/6,000 IOPS -> 4,000 IOPS"."""
    both = [name for name in now if name in then]
    return [change(name, then[name], now[name]) for name in both if then[name] != now[name]]


def change(name: str, then: str, now: str) -> str:
    """Return one changed condition. For a target, unchanged figures are not repeated."""
    if name != "target":
        return f"{name} {then} -> {now}"
    old, new = _FIGURES.split(then), _FIGURES.split(now)
    if len(old) != len(new):
        return f"{then} -> {now}"
    differ = [place for place, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]
    first, last = differ[0], differ[-1] + 1
    return f"{'/'.join(old[:last])} -> {'/'.join(new[first:last])}"


def _levels(runs: Sequence[EarlierRun], by: ByRate) -> _Levels:
    kept = list(map(by.gain, _views(_level_runs(runs))))
    groups = [list(map(by.gain, _views(group))) for group in _by_conditions(runs)]
    return _Levels(fmean(kept), len(kept), noise_of_runs(groups, by.usual_noise(run_of(runs[-1].run))))


def _views(runs: Sequence[EarlierRun]) -> list[Run]:
    return [run_of(each.run) for each in runs]


def _level_runs(runs: Sequence[EarlierRun]) -> list[EarlierRun]:
    """Return the runs whose mean is the level to keep: those under the latest accepted conditions, else the first."""
    groups = _by_conditions(runs)
    accepted = [group for group in groups if not all(each.undecided for each in group)]
    return accepted[-1] if accepted else groups[0]


def _by_conditions(runs: Sequence[EarlierRun]) -> list[list[EarlierRun]]:
    """Return the runs grouped by conditions, the group with the latest run last."""
    groups: dict[tuple[tuple[str, str], ...], list[EarlierRun]] = {}
    for each in runs:
        key = tuple(sorted(each.setup.items()))
        groups[key] = [*groups.pop(key, []), each]
    return list(groups.values())


def not_worse_if_known(obs: AnyObservation, earlier: Earlier, *, by: float | str = 0.05) -> Verdict | str:
    """Judge like `not_worse_than`, for a test that did not request it. Return the reason if there is no verdict.

    A rate that the job set itself says nothing about its target. Only the latency does, but it differs so much from run
    to run that only a large difference decides.
    """
    now = run_of(obs)
    usable = [] if _proves_nothing(now) else _usable(now, earlier.runs)[0]
    own = bool(usable) and all(map(kept_own_limit, [now, *_views(usable)]))
    verdict = not_worse_than(now, earlier, by=by)
    if not own:
        return verdict
    if "latency_s" not in verdict.details:
        why = (
            f"the job limits its own load to {now.own_limit(now.rate)} and kept it each time, so a slower target "
            "shows only in its latency, which is unknown"
        )
    elif verdict.outcome is Outcome.INCONCLUSIVE:
        why = verdict.sentence.partition(": ")[2]
    else:
        return verdict
    return f"{why}; a figure would decide: run.latency.at_most(...)"


def _own_limit(run: Run) -> str:
    if not kept_own_limit(run):
        return ""
    own = run.own_limit(run.rate)
    return f"; the job limited its own load to {own}, so a slower target shows in its latency"


def _advice(usable: Sequence[EarlierRun], margin: float) -> str:
    if len(usable) == 1:
        return (
            f"one earlier run does not show how much runs differ, and up to {_share(margin)} is taken as noise: "
            "compare with more runs"
        )
    return (
        f"the noise of {len(usable)} earlier runs and this one is ±{_share(margin)}: compare with more runs"
    )


def _more_or_less(difference: float, bound: float) -> str:
    if abs(difference) < 0.5e-4:
        return "the same"
    text = f"{abs(difference):.1%}".replace("%", " %")
    if (round(difference, 3) < bound) != (difference < bound):  # rounded across what is allowed
        text = percent(abs(difference), abs(bound))
    return f"{text} {'more' if difference > 0 else 'less'}"


def _signed(share: float) -> str:
    return f"{'+' if share > 0 else ''}{_share(share)}"


def _share(share: float) -> str:
    return f"{figure(share * 100, 1)} %"


def checked_by(by: object) -> float:
    """Return how much worse is allowed as a share of 1: 0.05, or "5%".

    Raises TypeError for anything but a number or text, ValueError for one that is not a share from 0 to below 1.
    """
    rule = 'how much less is allowed, from 0 to below 1, such as by=0.05 or by="5%"'
    return as_share("by", by, rule, lambda share: 0 <= share < 1)
