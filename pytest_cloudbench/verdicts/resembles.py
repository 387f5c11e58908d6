"""`resembles`: are two runs alike, and is the noise small enough to say so?"""

from __future__ import annotations

from pytest_cloudbench.limits.quantities import figure
from pytest_cloudbench.verdicts.comparison import compared, limits_text, margin
from pytest_cloudbench.verdicts.targets import checked_within, plain, ratio
from pytest_cloudbench.verdicts.timeline import AnyObservation
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict
from pytest_cloudbench.verdicts.wording import tolerance

_ROUNDING = 1e-9


def resembles(obs: AnyObservation, other: AnyObservation, *, within: float = 0.10) -> Verdict:
    """Judge whether the means of two runs are the same but for the share ``within``.

    The larger may exceed the smaller by that share, so it does not matter which run is asked. Held when the
    whole 95 % interval of their difference lies within it, violated when the whole lies outside, and
    inconclusive when the noise is too large to say, for runs of fewer than five samples, and when the job,
    the generator or the machine under an embedded region was a run's limit.

    Raises TypeError for what is no measurement, for a network against storage and for a tolerance that is
    no number; ValueError for one outside 0 to 1.
    """
    tolerated = checked_within(within)
    found = compared("resembles", obs, other, within=tolerated)
    promise = f"resembles the other run within {tolerance(tolerated)}"
    details = found.details() | {"within": tolerated}

    def verdict(outcome: Outcome, text: str, *, machine: bool = False) -> Verdict:
        sentence = f"{outcome.value}: {text}{found.remark}"
        return Verdict(outcome, sentence, promise, found.second.mean, found.first.mean, (), machine, details)

    if wrong := found.unfit:
        return verdict(Outcome.INCONCLUSIVE, wrong.text, machine=wrong.machine_limited)
    sides = [("first", found.first), ("second", found.second)]
    low, high = sorted(sides, key=lambda one: plain(one[1].mean))
    noise = margin(high[1], low[1], 1 + tolerated)
    apart = ratio(high[1].mean, low[1].mean) - 1
    details |= {"apart": apart, "margin": noise}
    text = (
        f"{found.text}, at most {tolerance(tolerated)} apart wanted; the noise of both is "
        f"±{figure(noise * 100)} %)"
    )
    if apart - noise > tolerated + _ROUNDING:
        # What holds the faster back makes the two no more alike.
        doubtful, outcome = [low], Outcome.VIOLATED
    elif apart + noise <= tolerated + _ROUNDING:
        doubtful, outcome = sides, Outcome.HELD
    else:
        whose = found.machines_noise(noise)
        return verdict(Outcome.INCONCLUSIVE, f"{text}, too much of it to tell{whose}", machine=bool(whose))
    if limits := limits_text(*doubtful):
        machine = any(side.limit is not None and side.limit.machine for _, side in doubtful)
        return verdict(Outcome.INCONCLUSIVE, f"{text}; but {limits}", machine=machine)
    return verdict(outcome, text)
