"""`faster_than`: did the same work reach its device sooner than in another run?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from pytest_cloudbench.limits.quantities import Throughput, figure
from pytest_cloudbench.verdicts.machine_delay import machine_disturbed, machine_text
from pytest_cloudbench.verdicts.observation import Observation
from pytest_cloudbench.verdicts.run import run_of
from pytest_cloudbench.verdicts.run_to_run import of_single_runs, usual_noise
from pytest_cloudbench.verdicts.targets import ROUNDING
from pytest_cloudbench.verdicts.verdict import Doubt, Draft, Outcome, Verdict
from pytest_cloudbench.verdicts.wording import duration, listed, percent

RESOLUTION_S = 0.1
"""Uncertainty of the time until data is on the device, in seconds: throttles work in slices of about this length."""


class TimedWork(Protocol):
    """Work of a known amount, and when it reached its device."""

    @property
    def target(self) -> str:
        """The readable name of where it was done."""

    @property
    def work(self) -> Mapping[str, object]:
        """What was done, by the names of the options."""

    @property
    def complete(self) -> bool:
        """True if all requested work was done."""

    @property
    def on_device_s(self) -> float | None:
        """Seconds until all data was on the device; None if the work did not wait for that."""

    @property
    def device_side(self) -> Observation:
        """The load on the device."""


def faster_than(run: TimedWork, other: TimedWork, *, by: float = 1.0) -> Verdict:
    """Judge whether the work of ``run`` reached its device at least ``by`` times as fast as that of ``other``.

    Inconclusive if the two did not do the same work, if one did not wait for its device, if the ratio is too close to
    ``by`` given times known to about 0.1 s and the usual noise from run to run (`run_to_run`), and if the machine under
    an embedded region was the limit in a way that could have changed the answer: it can only make a run slower.

    Raises TypeError if one has no created files or ``by`` is not a number, ValueError for a ``by`` below 1.
    """
    factor = _checked_factor(by)
    for each in (run, other):
        if not all(hasattr(each, name) for name in ("work", "complete", "on_device_s", "device_side")):
            raise TypeError(f"faster_than compares two measurements of created files, not {each!r}")
    promise = f"{run.target} is at least {figure(factor)} times as fast as {other.target}"
    details: dict[str, Any] = {
        "by": factor,
        "on_device_s": run.on_device_s,
        "other_on_device_s": other.on_device_s,
        "target": run.target,
        "other_target": other.target,
        "work": {name: str(value) for name, value in run.work.items()},
        "other_work": {name: str(value) for name, value in other.work.items()},
    }
    draft = Draft(
        promise,
        Throughput.from_mib(other.device_side.throughput_mib * factor),
        Throughput.from_mib(run.device_side.throughput_mib),
        details,
    )
    if reason := _not_comparable(run, other):
        return replace(draft, asked=None, measured=None).inconclusive(Doubt(reason))
    assert run.on_device_s is not None
    assert other.on_device_s is not None
    ratio = other.on_device_s / run.on_device_s
    details["ratio"] = ratio
    figures = (
        f"on the device after {_seconds(run.on_device_s)}, {other.target} after {_seconds(other.on_device_s)}: "
        f"{_times(ratio, factor)} times as fast (at least {figure(factor)} required)"
    )
    return _judged(run, other, factor, figures, draft)


def _judged(run: TimedWork, other: TimedWork, factor: float, figures: str, draft: Draft) -> Verdict:
    mine, theirs = run.on_device_s or math.nan, other.on_device_s or math.nan
    held = theirs / mine >= factor * (1 - ROUNDING)
    # The machine can only slow a run down, so the side that was too slow is the suspect.
    suspect, faster = (other, run) if held else (run, other)
    machine = _held_by_machine(suspect)
    noise = _noise_of_ratio(run, other)
    low = max(0.0, theirs - RESOLUTION_S) / (mine + RESOLUTION_S) / noise
    high = (theirs + RESOLUTION_S) / (mine - RESOLUTION_S) * noise if mine > RESOLUTION_S else math.inf
    interval = [low, high if math.isfinite(high) else None]
    draft = replace(draft, details={**draft.details, "ratio_interval": interval})
    if low < factor <= high:
        most = "more" if math.isinf(high) else _times(high, factor)
        whose = machine or _held_by_machine(faster)
        undecided = draft.verdict(
            Outcome.INCONCLUSIVE,
            f"{figures}; times are known to about {duration(RESOLUTION_S)} and two single runs "
            f"differ by up to {percent(noise - 1)}, so it may be {_times(low, factor)} to {most}"
            + (f"; {whose}" if whose else ": repeat both with more files"),
            machine_limited=bool(whose),
        )
        return replace(undecided, leans=None if machine else Outcome.HELD if held else Outcome.VIOLATED)
    if machine:
        return draft.inconclusive(Doubt(f"{figures}; {machine}", machine_limited=True))
    if held:
        return draft.verdict(Outcome.HELD, figures)
    seen = run_of(run.device_side)
    found = seen.bounds(seen.rates)
    reason = f"; {seen.bound_text(found)}" if found else ""
    return draft.verdict(Outcome.VIOLATED, f"{figures}{reason}", (bound.ceiling for bound in found))


def _noise_of_ratio(run: TimedWork, other: TimedWork) -> float:
    """Return the factor by which the ratio of two single runs may be off, at 95 %."""
    usual = (usual_noise(on_region=run_of(each.device_side).on_region) for each in (run, other))
    return math.exp(of_single_runs(*usual).margin())


def _held_by_machine(work: TimedWork) -> str | None:
    """Return a sentence if the machine under an embedded region was, or may have been, what limited the work.

    The region's limits are exact: a rate that no promised ceiling explains was limited by the machine's disks or CPUs.
    """
    seen = run_of(work.device_side)
    if not seen.on_region:
        return None
    found = seen.bounds(seen.rates)
    if found and (any(bound.acted for bound in found) or not machine_disturbed(seen)):
        return None
    return f"no promised ceiling but {machine_text(seen)} was the limit on {work.target}"


def _not_comparable(run: TimedWork, other: TimedWork) -> str | None:
    for each in (run, other):
        if not each.complete:
            return f"on {each.target} not everything was done that was asked for, so its time says nothing"
        if each.on_device_s is None:
            return (
                f"with sync='none' nothing says when the files on {each.target} had reached their device, only when "
                "the page cache had them: use sync='end' or sync='each'"
            )
    mine, theirs = run.work, other.work
    names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    if names:
        differ = listed(
            f"{name} {_shown(mine.get(name))} against {_shown(theirs.get(name))}" for name in names
        )
        return f"the two did not do the same work: {differ}"
    return None


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _seconds(value: float) -> str:
    return f"{figure(value, 2 if value < 100 else 0)} s"


def _times(ratio: float, factor: float) -> str:
    """Return a ratio with as many decimals as it takes not to round across the factor."""
    for decimals in range(2, 7):
        text = f"{ratio:.{decimals}f}"
        if (float(text) >= factor) == (ratio >= factor):
            return text
    return f"{ratio:.6f}"


def _checked_factor(by: object) -> float:
    if isinstance(by, bool) or not isinstance(by, (int, float)):
        raise TypeError(f"by={by!r} is not a number: write by=1.3 for 30 % faster")
    if not math.isfinite(by) or by < 1:
        raise ValueError(f"by={by}: how many times as fast, at least 1; write by=1.3 for 30 % faster")
    return float(by)
