"""Two runs side by side: are their means alike, or is one faster, beyond what the noise of both explains?

The noise is that within each run plus the usual noise from run to run, which two single runs cannot show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pytest_cloudbench.limits.ceilings import MACHINE_OWNER
from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput, figure, plain
from pytest_cloudbench.verdicts.attribution import other_limit
from pytest_cloudbench.verdicts.details import details_of, unusable
from pytest_cloudbench.verdicts.machine_delay import machine_text, machine_to_blame, rate_on_time
from pytest_cloudbench.verdicts.run import AnyObservation, run_of
from pytest_cloudbench.verdicts.run_to_run import of_single_runs, usual_noise
from pytest_cloudbench.verdicts.run_view import NEAR, Run
from pytest_cloudbench.verdicts.sample_statistics import FEWEST_FOR_NOISE, NOISE_METHOD, Noise, noise_of
from pytest_cloudbench.verdicts.targets import ROUNDING, checked_more, checked_within, ratio
from pytest_cloudbench.verdicts.verdict import Doubt, Draft, Outcome, Verdict
from pytest_cloudbench.verdicts.wording import listed, percent, tolerance

CONFIDENCE = 0.95
_REPEAT = ": repeat both runs"


@dataclass(frozen=True)
class Side:
    """One of two runs.

    ``noise`` is that within the run, None if its series is too short to show it, ``run_to_run`` the usual standard
    deviation from run to run, ``on_time`` the result of `rate_on_time`. ``machine`` names the machine under an embedded
    region if it may have set the rate: for storage its share of the delay is measured; for a network the promised
    limits are exact, so the machine may have caused any other rate.
    """

    mean: Rate
    samples: int
    noise: Noise | None
    run_to_run: float
    limit: Doubt | None
    failed: Doubt | None
    machine: str | None
    on_time: Rate | None
    details: dict[str, Any]

    def excused_below(self, least: Rate) -> Side:
        """Return this run with the machine as its limit if the machine kept it below ``least``."""
        if self.limit is not None or self.on_time is None or plain(self.on_time) < plain(least):
            return self
        text = f"{MACHINE_OWNER} was the limit ({self.on_time} if it had been on time)"
        return replace(self, limit=Doubt(text, machine_limited=True))


def margin(one: Side, other: Side, times: float) -> float:
    """Return half the 95 % interval of (``one`` - ``times`` x ``other``), as a share of ``other``."""
    assert one.noise is not None
    assert other.noise is not None
    within = one.noise.combined(other.noise.scaled(times))
    together = within.combined(of_single_runs(one.run_to_run, other.run_to_run * times))
    return together.margin(CONFIDENCE) / plain(other.mean)


@dataclass(frozen=True)
class Comparison:
    """Both runs, the first judged against the second."""

    first: Side
    second: Side
    remark: str

    @property
    def unfit(self) -> Doubt | None:
        """Why one of the runs cannot be compared; None if both can."""
        for which, side in (("first", self.first), ("second", self.second)):
            if side.failed:
                return replace(side.failed, text=f"of the {which} run: {side.failed.text}")
            if side.noise is None:
                return Doubt(
                    f"{side.samples} samples of the {which} run are too few to know its noise, at least "
                    f"{FEWEST_FOR_NOISE} are needed: lengthen the run"
                )
        return None

    @property
    def share(self) -> float:
        return ratio(self.first.mean, self.second.mean)

    @property
    def text(self) -> str:
        """Both figures, without the closing bracket: "9.93 Gbit/s against 4.97 Gbit/s (100 % more"."""
        more = self.share - 1
        how = f"{percent(abs(more))} {'more' if more > 0 else 'less'}" if more else "the same"
        return f"{self.first.mean} against {self.second.mean} ({how}"

    def machines_noise(self, noise: float) -> str:
        """Return a remark if the machine under an embedded region may have caused this much noise; else ""."""
        machine = self.first.machine or self.second.machine
        return (
            f"; limits of the embedded region are steady: {machine} may be why"
            if machine and noise > NEAR
            else ""
        )

    def details(self) -> dict[str, Any]:
        """Return plain values for a report."""
        found = {"first": self.first.details, "second": self.second.details}
        return {**found, "confidence": CONFIDENCE, "noise_method": NOISE_METHOD}


def compared(call: str, first: AnyObservation, second: object, within: float) -> Comparison:
    """Return two runs in their common quantity: Gbit/s for networks, IOPS for equal block sizes, else throughput.

    Raises TypeError if one is not a measurement, or if one is of a network and the other of storage.
    """
    if isinstance(second, (str, int, float)) or not hasattr(second, "series"):
        raise TypeError(
            f"{call}({second!r}): that is not a measurement; pass another run, or ask reaches or capped_by of a rate"
        )
    one, other = run_of(first), run_of(second)  # type: ignore[arg-type]  # it has a series, as just seen
    like = _common_quantity(call, one, other)
    return Comparison(_side(one, like, within), _side(other, like, within), _remark(one, other))


def _common_quantity(call: str, first: Run, second: Run) -> Rate:
    if first.kind != second.kind:
        raise TypeError(
            f"{call}: a run over {first.kind} cannot be compared with one on {second.kind}: compare runs of one kind"
        )
    same = first.block_size == second.block_size and type(first.rate) is type(second.rate)
    return first.rate if same else Throughput(0)


def _side(run: Run, like: Rate, within: float) -> Side:
    mean = run.rate_like(like)
    line = run.timeline(mean)
    pieces = [plateau.values for plateau in line.plateaus]
    enough = len(line.values) >= FEWEST_FOR_NOISE
    failed = unusable(run, mean)
    # After a fall, the run's mean matches no limit; the first plateau shows what set the rate.
    first = line.rate(line.plateaus[0].mean) if len(pieces) > 1 else mean
    limit = None if failed else other_limit(run, first)
    noise = noise_of(pieces) if enough and not failed else None
    usual = usual_noise(on_region=run.on_region)
    details = details_of(run, measured=mean, within=within, asked=None, line=line)
    details |= {
        "noise_error": noise.error if noise else None,
        "noise_degrees": noise.degrees if noise else None,
        "run_to_run": usual,
    }
    on_time = rate_on_time(run)
    return Side(
        mean,
        len(line.values),
        noise,
        usual * plain(mean),
        limit,
        failed,
        machine_text(run) if machine_to_blame(run) else None,
        None if on_time is None else run.rates_of(on_time).like(mean),
        details,
    )


def _remark(first: Run, second: Run) -> str:
    """Return a remark on the conditions in which two runs differ: they do not invalidate the comparison."""
    words = []
    if first.block_size != second.block_size and all(isinstance(run.rate, Iops) for run in (first, second)):
        words.append(f"blocks of {first.block_size} against {second.block_size}")
    if first.time_compression != second.time_compression:
        factors = [f"{each.time_compression:g}" for each in (first, second)]
        words.append(f"time compressed {' against '.join(factors)} times")
    for which, mine, theirs in (("first", first, second), ("second", second, first)):
        only = [text for text in mine.conditions if text not in theirs.conditions]
        if only:
            words.append(f"only the {which} run: {', '.join(only)}")
    return f"; the conditions differ ({'; '.join(words)})" if words else ""


def limits_text(*sides: tuple[str, Side]) -> str:
    """Return which runs were limited by something other than a promised limit, in words."""
    return listed(f"in the {which} run, {side.limit.text}" for which, side in sides if side.limit)


def outperforms(obs: AnyObservation, other: AnyObservation, *, by: float | str = 0.0) -> Verdict:
    """Judge whether the mean of ``obs`` lies above that of ``other`` by at least the share ``by`` of it.

    A negative ``by`` allows a lower mean: -0.05 requires that it is at most 5 % lower. Held or violated if the
    difference from the required one exceeds its 95 % interval, which accounts for the correlation of a run's seconds
    and for the usual noise from run to run (`run_to_run`). Inconclusive within that interval, for runs of fewer than
    five samples, and if the slower run's true capacity is unknown: its job, its generator or the machine under an
    embedded region was the limit.

    Raises TypeError if ``other`` is not a measurement or of another kind, and for a ``by`` that is neither a number nor
    text; ValueError for text that is not per cent, for a share of -1 or less, and for a bare number of 5 or more, as it
    would mean 500 %.
    """
    required = checked_more(by)
    found = compared("outperforms", obs, other, within=required)
    promise = "outperforms the other run" + (f" by {tolerance(required)}" if required else "")
    if required < 0:
        promise = f"is at most {tolerance(-required)} below the other run"
    details = found.details() | {"by": required}

    asked = found.second.mean * (1 + required)
    draft = Draft(promise, asked, found.first.mean, details, after=found.remark)
    if wrong := found.unfit:
        return draft.inconclusive(wrong)
    noise = margin(found.first, found.second, 1 + required)
    details["margin"] = noise
    text = f"{found.text}, {_required_text(required)}; {_noise_text(noise)})"
    beyond = found.share - (1 + required)
    equal = abs(found.share - 1) <= ROUNDING and abs(required) <= ROUNDING
    outcome = Outcome.HELD if beyond >= -ROUNDING else Outcome.VIOLATED
    name, loser = ("second", found.second) if outcome is Outcome.HELD else ("first", found.first)
    if abs(beyond) < noise or equal:
        whose = found.machines_noise(noise)
        undecided = draft.verdict(
            Outcome.INCONCLUSIVE,
            f"{text}, too small a difference for that{whose or _REPEAT}",
            machine_limited=bool(whose),
        )
        return undecided if equal or whose or loser.limit else replace(undecided, leans=outcome)
    enough = asked if outcome is Outcome.VIOLATED else found.first.mean * (1 / (1 + required))
    loser = loser.excused_below(enough)
    if loser.limit is not None:
        text += f"; but {limits_text((name, loser))}"
        return draft.verdict(Outcome.INCONCLUSIVE, text, machine_limited=loser.limit.machine_limited)
    return draft.verdict(outcome, text)


def _noise_text(noise: float) -> str:
    return f"the noise of two single runs is ±{figure(noise * 100)} %"


def _required_text(by: float) -> str:
    if by < 0:
        return f"at most {tolerance(-by)} less required"
    return f"at least {tolerance(by)} more required" if by else "more required"


def resembles(obs: AnyObservation, other: AnyObservation, *, within: float | str = 0.10) -> Verdict:
    """Judge whether the means of two runs are the same within the share ``within``.

    The larger may exceed the smaller by that share, so the order of the runs does not matter. Held if the whole 95 %
    interval of their difference, as in `outperforms`, lies within it, violated if all of it lies outside. Inconclusive
    if the noise is too large to decide, for runs of fewer than five samples, and if the job, the generator or the
    machine under an embedded region was a run's limit.

    Raises TypeError if ``other`` is not a measurement or of another kind, and for a tolerance that is neither a number
    nor text; ValueError for one outside 0 to 1.
    """
    tolerated = checked_within(within)
    found = compared("resembles", obs, other, within=tolerated)
    promise = f"resembles the other run within {tolerance(tolerated)}"
    details = found.details() | {"within": tolerated}

    draft = Draft(promise, found.second.mean, found.first.mean, details, after=found.remark)
    if wrong := found.unfit:
        return draft.inconclusive(wrong)
    sides = [("first", found.first), ("second", found.second)]
    low, high = sorted(sides, key=lambda one: plain(one[1].mean))
    noise = margin(high[1], low[1], 1 + tolerated)
    apart = ratio(high[1].mean, low[1].mean) - 1
    details |= {"apart": apart, "margin": noise}
    text = f"{found.text}, at most {tolerance(tolerated)} apart required; {_noise_text(noise)})"
    if apart - noise > tolerated + ROUNDING:
        # A limit on the faster run only makes the two more alike.
        enough = high[1].mean * (1 / (1 + tolerated))
        doubtful, outcome = [(low[0], low[1].excused_below(enough))], Outcome.VIOLATED
    elif apart + noise <= tolerated + ROUNDING:
        doubtful, outcome = sides, Outcome.HELD
    else:
        whose = found.machines_noise(noise)
        undecided = draft.verdict(
            Outcome.INCONCLUSIVE, f"{text}, too much to decide{whose or _REPEAT}", machine_limited=bool(whose)
        )
        if whose or limits_text(*sides):
            return undecided
        return replace(undecided, leans=Outcome.HELD if apart <= tolerated else Outcome.VIOLATED)
    if limits := limits_text(*doubtful):
        machine = any(side.limit is not None and side.limit.machine_limited for _, side in doubtful)
        return draft.verdict(Outcome.INCONCLUSIVE, f"{text}; but {limits}", machine_limited=machine)
    return draft.verdict(outcome, text)
