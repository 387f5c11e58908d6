"""What held a rate back: the load, a ceiling, the generator, the machine under an embedded region, or nothing known.

Each suspect is listed with its figures (`Bottleneck`); the leading ones decide what a verdict says about a shortfall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.ceilings import GIVEN, Ceiling
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Rate
from pytest_cloudbench.verdicts.bottleneck import Bottleneck, Kind, Standing, Suspect, leading
from pytest_cloudbench.verdicts.details import unusable
from pytest_cloudbench.verdicts.machine_delay import (
    keeps_in_flight,
    machine_explains,
    machine_text,
    machine_to_blame,
)
from pytest_cloudbench.verdicts.plateau import drift
from pytest_cloudbench.verdicts.run_view import Bound, Rates, Run
from pytest_cloudbench.verdicts.suspects import generator, machine, own_limit, suspects_of
from pytest_cloudbench.verdicts.targets import ratio
from pytest_cloudbench.verdicts.verdict import Doubt, Outcome, Reason
from pytest_cloudbench.verdicts.wording import listed, moment

DRIFT = 0.10


def bottleneck_of(run: Run) -> Bottleneck:
    """Return what held a run back; if the rate fell for good, after the last fall."""
    if wrong := unusable(run, run.rate):
        nobody = (Suspect(Kind.UNKNOWN, "nothing known", Standing.POSSIBLE, wrong.text),)
        return Bottleneck(nobody, nobody, wrong.text)
    line = run.timeline(run.rate)
    part, after = run, ""
    if line.falls.lasting:
        last = line.falls.lasting[-1]
        part = run.part(line, line.after(last), "") or run
        after = f"after {moment(last.at_s)}, " if part is not run else ""
    suspects = suspects_of(part, part.rates)
    return Bottleneck(
        suspects, leading(suspects), f"{after}{part.rate}; {_reason(part, part.rate, suspects).text}"
    )


def why_short(
    run: Run, rates: Rates, asked: Rate, *, within: float = 0.0, but: Sequence[Bound] = ()
) -> Reason:
    """Return why ``rates`` stayed more than ``within`` below ``asked``, with limits in ``but`` excluded."""
    return _reason(run, rates.like(asked), suspects_of(run, rates, asked, within=within, but=but))


def why_below(run: Run, mean: Rate, values: Sequence[float], asked: Rate, *, within: float = 0.0) -> Reason:
    """Return why some samples of a run, ``values`` with mean ``mean``, lie more than ``within`` below ``asked``."""
    return why_short(run.for_samples(values, mean), run.rates_of(mean), asked, within=within)


@dataclass(frozen=True)
class Above:
    """A time above its limit, in seconds: ``name`` is "mean", "p50" ... "max"."""

    name: str
    measured_s: float
    limit_s: float


def why_slow(run: Run, figures: str, above: Sequence[Above], mean_s: float) -> Reason:
    """Return why I/O took longer than the limits in ``above``; ``mean_s`` is the mean of the same I/Os.

    The text begins with ``figures``.
    """
    found = run.bounds(run.rates)
    text = f"{figures}; {run.bound_text(found) if found else 'no known ceiling was reached'}"
    # All I/Os in flight share the ceiling's rate, so the machine does not change their mean latency.
    of_depth = bool(found) and keeps_in_flight(run) and any(mean_s > each.limit_s for each in above)
    if not of_depth and all(
        machine_explains(run, each.name, each.measured_s, each.limit_s, mean_s) for each in above
    ):
        return Reason(Outcome.INCONCLUSIVE, f"{text}, but {machine_text(run)} may be why", (), True)
    if not found and (busy := run.saturated()):
        text = f"{figures}; the load generator was the limit: {busy}"
        return Reason(Outcome.INCONCLUSIVE, text, (), run.on_region)
    return Reason(Outcome.VIOLATED, text, tuple(bound.ceiling for bound in found))


def other_limit(run: Run, measured: Rate) -> Doubt | None:
    """Return what other than a promised limit may have set this rate; None if nothing."""
    suspects = [*own_limit(run, measured, None, None), *generator(run)]
    if machine_to_blame(run) and not at_a_promise(run, measured):
        suspects += machine(run, measured)
    suspect = next((each for each in suspects if each.standing is not Standing.EXCLUDED), None)
    if suspect is None:
        return None
    text = f"{suspect.name} was the limit" if suspect.kind is Kind.MACHINE else suspect.sentence
    return Doubt(text, machine_limited=_of_machine(run, suspect))


def beside_limits(run: Run, names: str) -> Doubt | None:
    """Return what besides the limits ``names``, at which a run lies, is likely to have held it there; else None."""
    for suspect in suspects_of(run, run.rates):
        if suspect.standing < Standing.LIKELY or suspect.bound is not None:
            continue
        if suspect.kind is Kind.LOAD:
            return Doubt(suspect.sentence)
        text = f"{names} or {suspect.name} held it there{suspect.because}"
        return Doubt(text, machine_limited=_of_machine(run, suspect))
    return None


def not_a_limit(claimed: Ceiling, asked: Rate, envelope: Envelope) -> Doubt | None:
    """Return a doubt if the plain rate at which a run lies is not one of its limits."""
    promised = envelope.promised.ordered
    if claimed.scope != GIVEN or not promised:
        return None
    known = ", ".join(map(str, promised))
    return Doubt(
        f"{asked} is not a limit of this run, so nothing shows what held it there: its limits are {known}"
    )


def demand_not_above(run: Run, asked: Rate, names: str, enough: float) -> Doubt | None:
    """Return a doubt if the job limited its load to at most ``enough`` times the limit.

    If the demand is only just above the limit, only counters can show that the limit acted.
    """
    own = run.own_limit(asked)
    if own is None or ratio(own, asked) > enough:
        return None
    return Doubt(f"the job limited its own load to {run.job_limit}, not above {names}: {run.lift_limit}")


def at_a_promise(run: Run, measured: Rate) -> bool:
    """Return True if a rate lies at a promised limit."""
    return bool(run.bounds(run.rates_of(measured)))


def region_machine(run: Run) -> str | None:
    """Return the name of the machine under a run's embedded region, with its figures if known; else None."""
    return machine_text(run) if run.on_region else None


def _reason(run: Run, measured: Rate, suspects: Sequence[Suspect]) -> Reason:
    """Return the reason for a shortfall: violated only if promised limits alone, or nothing known, explain it."""
    first = leading(tuple(suspects))
    bounds = [each.bound for each in first if each.bound is not None]
    others = [each for each in first if each.bound is None]
    ceilings = tuple(bound.ceiling for bound in bounds)
    if not others:
        return Reason(Outcome.VIOLATED, run.bound_text(bounds), ceilings)
    on_machine = any(_of_machine(run, each) for each in others)
    if bounds:
        names = [run.labels(bounds), *(each.name for each in others)]
        text = f"{listed(names, 'or')} held it back{others[0].because}"
        return Reason(Outcome.INCONCLUSIVE, text, (), on_machine)
    (other,) = others
    if other.kind is Kind.MACHINE:
        return Reason(Outcome.INCONCLUSIVE, f"no promised limit held it back: {other.sentence}", (), True)
    if other.kind is not Kind.UNKNOWN:
        return Reason(Outcome.INCONCLUSIVE, other.sentence, (), on_machine)
    if moved := drift(run, measured, DRIFT):
        return Reason(Outcome.INCONCLUSIVE, moved)
    return Reason(Outcome.VIOLATED, other.sentence)


def _of_machine(run: Run, suspect: Suspect) -> bool:
    """Return True if a suspect is the machine under an embedded region, whose CPUs are also the generator's."""
    return suspect.kind is Kind.MACHINE or (suspect.kind is Kind.GENERATOR and run.on_region)
