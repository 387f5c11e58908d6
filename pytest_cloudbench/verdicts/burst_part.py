"""The part of a run to which a claim on a bursting limit applies: while credits last, or once they are spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import TIE, Envelope
from pytest_cloudbench.limits.quantities import Iops, Rate, figure, plain
from pytest_cloudbench.verdicts.attribution import why_short
from pytest_cloudbench.verdicts.run_view import Bound, Run
from pytest_cloudbench.verdicts.suspects import machine_excluded
from pytest_cloudbench.verdicts.targets import ratio
from pytest_cloudbench.verdicts.verdict import Outcome, Reason
from pytest_cloudbench.verdicts.wording import moment

# The start of a late load is known only to about a second: samples are a second apart.
_LATE_NEAR = 0.10
_R = TypeVar("_R", bound=Run)


def part_for(run: _R, ceilings: Sequence[Ceiling], *, spent: bool = False) -> _R:
    """Return the part of a run on which a claim on ``ceilings`` is judged.

    If the claim may apply to a burst, and the rate fell for good to what remains of a limit once its credits are spent,
    it is the part before that fall. With ``spent``, for a claim on what remains, it is the part after the last lasting
    fall. Otherwise it is the whole run: a fall to any other level does not end a burst.
    """
    if spent:
        after = after_its_falls(run, ceilings[0].limit)
        # A device that served nothing at the end shows no remaining rate.
        silent = after is not None and plain(after.rate) == 0 and not run.falls_explain
        return run if after is None or silent else after
    if not run.may_burst(ceilings):
        return run
    line = run.timeline(run.rate_like(ceilings[0].limit))
    end = line.end_of_burst(lambda rate: run.ends_a_burst(rate, ceilings))
    if end is None:
        return run
    where = f" in the first {moment(end.at_s)}, before the rate fell to {line.rate(end.after)}"
    return run.part(line, line.before(end), where) or run


def after_its_falls(run: _R, like: Rate) -> _R | None:
    """Return the part of a run after its last lasting fall; None if nothing fell."""
    line = run.timeline(run.rate_like(like))
    falls = line.falls.lasting
    if not falls:
        return None
    before = line.rate(line.plateaus[0].mean)
    where = f" after {moment(falls[-1].at_s)}, when the rate had fallen from {before}"
    return run.part(line, line.after(falls[-1]), where)


def why_run_short(run: Run, asked: Rate, *, within: float, but: Sequence[Bound] = ()) -> Reason:
    """Return why a run, judged as a whole, lies more than ``within`` below ``asked``, with limits in ``but`` excluded.

    If the rate fell for good, the fall explains the shortfall, and the reason is that of the part after it. The latency
    of a part is unknown, so on an embedded region only the whole run shows whether its machine was late.
    """
    fallen = None if run.falls_explain and run.where else after_its_falls(run, asked)
    if fallen is None:
        if text := _late(run, run.rates.like(asked), asked):
            return Reason(Outcome.INCONCLUSIVE, text)
        return why_short(run, run.rates, asked, within=within, but=but)
    after, at = fallen.rates, moment(fallen.part_details["judged_from_s"])
    reason = why_short(fallen, after, asked, within=within, but=but)
    if reason.machine_limited and machine_excluded(run, asked * (1 - within)):
        reason = Reason(Outcome.VIOLATED, run.unexplained())
    if reason.outcome is Outcome.INCONCLUSIVE and not run.falls_explain:
        return why_short(run, run.rates, asked, within=within, but=run.nearest_bounds(run.rates))
    return replace(reason, text=f"the rate fell to {after.like(asked)} after {at}, {reason.text}")


def remaining_at(rate: Rate, envelope: Envelope) -> tuple[Ceiling, ...]:
    """Return the promised limits of which ``rate`` remains once credits are spent, each as a limit of that figure."""
    return tuple(
        replace(ceiling, limit=ceiling.base, base=None, burst_credits=None)
        for ceiling in envelope.promised.ordered
        if ceiling.base is not None
        and ceiling.of_iops == isinstance(rate, Iops)
        and abs(ratio(ceiling.base, rate) - 1) <= TIE
    )


def _late(run: Run, measured: Rate, asked: Rate) -> str | None:
    """Return a sentence if the time before the load began explains why it fell short."""
    idle_s, length_s = run.idle_at_start_s, run.runtime_s
    if not 0 < idle_s < length_s:
        return None
    rest = measured * (length_s / (length_s - idle_s))
    if ratio(rest, asked) * (1 + _LATE_NEAR) < 1:
        return None
    return (
        f"for the first {figure(idle_s, 2)} of {figure(length_s, 2)} s the load gave the device nothing to do, "
        f"and {rest} in the rest: make the load longer or its start shorter"
    )
