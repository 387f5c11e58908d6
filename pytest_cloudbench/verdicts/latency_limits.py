"""`latency_at_most`: did I/O, or network round trips, take at most the time allowed, by mean, percentile or maximum?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_cloudbench.limits.durations import parse_duration
from pytest_cloudbench.verdicts.attribution import Above, why_slow
from pytest_cloudbench.verdicts.details import details_of, unusable
from pytest_cloudbench.verdicts.little import in_flight
from pytest_cloudbench.verdicts.machine_delay import NOT_MODELLED, as_modelled, not_modelled
from pytest_cloudbench.verdicts.network_run import NetworkRun
from pytest_cloudbench.verdicts.run import AnyObservation, run_of
from pytest_cloudbench.verdicts.targets import ROUNDING
from pytest_cloudbench.verdicts.verdict import Doubt, Draft, Outcome, Verdict
from pytest_cloudbench.verdicts.wording import duration, listed

MEASURES = {
    "mean": "mean_s",
    "p50": "p50_s",
    "p95": "p95_s",
    "p99": "p99_s",
    "p999": "p999_s",
    "max": "max_s",
}
"""What may be limited, and the attribute that holds it, in seconds."""
_WORDS = {"mean": "mean", "p999": "p99.9", "max": "longest"}


@dataclass(frozen=True)
class _Limit:
    """One limit and the measured time, in seconds."""

    name: str
    limit_s: float
    measured_s: float
    how: str = ""

    @property
    def kept(self) -> bool:
        return self.measured_s <= self.limit_s * (1 + ROUNDING)

    @property
    def limit_text(self) -> str:
        return f"{measure_words(self.name)} at most {duration(self.limit_s)}"

    @property
    def figure(self) -> str:
        return f"{measure_words(self.name)} {_beside(self.measured_s, self.limit_s)}{self.how}"

    @property
    def text(self) -> str:
        return f"{self.figure}, at most {duration(self.limit_s)} required"


def latency_at_most(
    obs: AnyObservation, latency: object, limits: Mapping[str, str | float | None], *, of: str = ""
) -> Verdict:
    """Judge whether the latency of single I/Os stayed at or below ``limits``.

    ``latency`` holds what was measured (``mean_s``, ``p50_s`` ...), ``limits`` the largest allowed: "mean", "p50",
    "p95", "p99", "p999", "max", each a time with its unit ("5 ms") or seconds. ``of`` is "reads" or "writes" if only
    these are judged. Latency above a limit is violated, and the sentence says what limited the load's rate: beyond it,
    I/Os wait for each other. On an embedded region latency is modelled; the verdict is inconclusive if the machine
    underneath may have raised it above the limit (`machine_explains`), unless the mean follows from the load's own
    depth at a ceiling. It is also inconclusive if the region models no latency. For a network, ``latency`` holds round
    trips, which a region does not model.

    Raises ValueError for a percentile that was not measured or an invalid time, TypeError without any limit.
    """
    run = run_of(obs)
    how = as_modelled(run)
    checked = [_checked(name, limit, latency, how) for name, limit in limits.items() if limit is not None]
    if not checked:
        raise TypeError("at_most() needs a limit: at_most(mean='1 ms') or at_most(p99='5 ms')")
    measured = run.shown(run.rate) if isinstance(run, NetworkRun) else run.rates.iops
    what = "round trip" if isinstance(run, NetworkRun) else f"latency of {of}" if of else "latency"
    promise = f"{what}: {listed(one.limit_text for one in checked)}"
    details: dict[str, Any] = details_of(run, within=0.0, asked=None, measured=measured) | {
        "latency_limits_s": {one.name: one.limit_s for one in checked},
        "latency_s": {one.name: one.measured_s for one in checked},
    }

    judged = ", ".join(one.figure for one in checked)
    draft = Draft(promise, None, measured, details, judged)

    if wrong := unusable(run, measured):
        return draft.inconclusive(wrong)
    figures = f"{what}: {'; '.join(one.text for one in checked)}"
    law = in_flight(run)
    consistent = f"; {law.text}" if law is not None and not of else ""
    broken = [one for one in checked if not one.kept]
    if not broken and not_modelled(run) and (isinstance(run, NetworkRun) or not run.bounds(run.rates)):
        text = f"{figures}{consistent}; {NOT_MODELLED}"
        return draft.inconclusive(Doubt(text, machine_limited=True))
    if not broken:
        return draft.verdict(Outcome.HELD, figures + consistent)
    above = [Above(one.name, one.measured_s, one.limit_s) for one in broken]
    reason = why_slow(run, figures + consistent, above, float(getattr(latency, "mean_s", math.nan)))
    return draft.of(reason)


def _checked(name: str, limit: object, latency: object, how: str) -> _Limit:
    if isinstance(limit, str):
        limit_s = parse_duration(limit)
    elif isinstance(limit, bool) or not isinstance(limit, (int, float)):
        raise TypeError(f"{name}={limit!r} is not a latency: write one such as {name}='5 ms', or seconds")
    else:
        limit_s = float(limit)
    if not (math.isfinite(limit_s) and limit_s > 0):
        raise ValueError(f"{name}={limit!r} is not a latency: it must be above zero, such as {name}='5 ms'")
    measured = getattr(latency, MEASURES[name], None) if name in MEASURES else None
    if measured is None:
        known = [
            each for each, attribute in MEASURES.items() if getattr(latency, attribute, None) is not None
        ]
        instead = f"ask one of {', '.join(known)}" if known else "this run measured no such time"
        raise ValueError(f"{name}= cannot be judged, as it was not measured: {instead}")
    return _Limit(name, limit_s, float(measured), how)


def measure_words(name: str) -> str:
    """Return one of `MEASURES` as a word of a sentence."""
    return _WORDS.get(name, name)


def _beside(measured_s: float, limit_s: float) -> str:
    """Return the measured time with as many digits as it takes not to round across its limit."""
    text = duration(measured_s)
    if (measured_s > limit_s * (1 + ROUNDING)) == (text != duration(limit_s)) or measured_s <= limit_s:
        return text
    return (
        f"{measured_s * 1000:.4g} ms"
        if f"{measured_s * 1000:.4g}" != f"{limit_s * 1000:.4g}"
        else (f"{measured_s * 1000:.9g} ms")
    )
