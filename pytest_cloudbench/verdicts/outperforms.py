"""`outperforms`: was this run faster than another, beyond what the noise of both explains?"""

from __future__ import annotations

import math

from pytest_cloudbench.limits.quantities import figure
from pytest_cloudbench.verdicts.comparison import compared, limits_text, margin
from pytest_cloudbench.verdicts.timeline import AnyObservation
from pytest_cloudbench.verdicts.verdict import Outcome, Verdict
from pytest_cloudbench.verdicts.wording import tolerance

_ROUNDING = 1e-9


def outperforms(obs: AnyObservation, other: AnyObservation, *, by: float = 0.0) -> Verdict:
    """Judge whether the mean of ``obs`` lies above that of ``other`` by the share ``by`` of it, or more.

    Held and violated when the difference from what is wanted exceeds its 95 % interval, which counts how
    the seconds of each run follow each other; inconclusive within it, for runs of fewer than five samples,
    and when what the run at a disadvantage could really do is not known: its job, its generator or the
    machine under an embedded region was its limit. It compares these two runs: how runs differ from day to
    day is not in the noise of one.

    Raises TypeError for what is no measurement, for a network against storage, and for a ``by`` that is no
    number; ValueError for one below zero.
    """
    wanted = _checked_by(by)
    found = compared("outperforms", obs, other, within=wanted)
    promise = "outperforms the other run" + (f" by {tolerance(wanted)}" if wanted else "")
    details = found.details() | {"by": wanted}

    def verdict(outcome: Outcome, text: str, *, machine: bool = False) -> Verdict:
        sentence = f"{outcome.value}: {text}{found.remark}"
        asked = found.second.mean * (1 + wanted)
        return Verdict(outcome, sentence, promise, asked, found.first.mean, (), machine, details)

    if wrong := found.unfit:
        return verdict(Outcome.INCONCLUSIVE, wrong.text, machine=wrong.machine_limited)
    noise = margin(found.first, found.second, 1 + wanted)
    details["margin"] = noise
    text = f"{found.text}, {_wanted(wanted)}; the noise of both is ±{figure(noise * 100)} %)"
    beyond = found.share - (1 + wanted)
    equal = abs(found.share - 1) <= _ROUNDING and wanted <= _ROUNDING
    if abs(beyond) < noise or equal:
        whose = found.machines_noise(noise)
        text += f", too little beside the noise to tell{whose}"
        return verdict(Outcome.INCONCLUSIVE, text, machine=bool(whose))
    outcome = Outcome.HELD if beyond >= -_ROUNDING else Outcome.VIOLATED
    name, loser = ("second", found.second) if outcome is Outcome.HELD else ("first", found.first)
    if loser.limit is not None:
        text += f"; but {limits_text((name, loser))}"
        return verdict(Outcome.INCONCLUSIVE, text, machine=loser.limit.machine)
    return verdict(outcome, text)


def _wanted(by: float) -> str:
    return f"at least {tolerance(by)} more wanted" if by else "more wanted"


def _checked_by(by: object) -> float:
    if isinstance(by, bool) or not isinstance(by, (int, float)):
        raise TypeError(f"by={by!r} is no number: write a share of 1, such as by=0.10 for 10 %")
    if not math.isfinite(by) or by < 0:
        raise ValueError(f"by={by}: by how much more is a share of 1, not below 0, such as by=0.10 for 10 %")
    return float(by)
