"""Two runs side by side: their means in one quantity, the noise of both, and what else set their rates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pytest_cloudbench.limits.quantities import Iops, Rate, Throughput
from pytest_cloudbench.verdicts.attribution import NEAR
from pytest_cloudbench.verdicts.little import Unusable
from pytest_cloudbench.verdicts.network.details import conditions_of
from pytest_cloudbench.verdicts.network.observation import is_network
from pytest_cloudbench.verdicts.noise import FEWEST_SAMPLES, METHOD, Noise, noise_of
from pytest_cloudbench.verdicts.run_details import run_details, unusable
from pytest_cloudbench.verdicts.run_limits import OtherLimit, machines_part, other_limit
from pytest_cloudbench.verdicts.targets import plain, ratio
from pytest_cloudbench.verdicts.timeline import AnyObservation, as_storage, natural_rate, rate_like, timeline
from pytest_cloudbench.verdicts.wording import listed, percent

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Side:
    """One of two runs. ``noise`` is None if its series is too short to know it; ``machine`` as `machines_part`."""

    mean: Rate
    samples: int
    noise: Noise | None
    limit: OtherLimit | None
    failed: Unusable | None
    machine: str | None
    details: dict[str, Any]


def margin(one: Side, other: Side, times: float) -> float:
    """Half the 95 % interval of (``one`` - ``times`` x ``other``), as a share of ``other``."""
    assert one.noise is not None
    assert other.noise is not None
    together = one.noise.combined(other.noise.scaled(times))
    return together.margin(CONFIDENCE) / plain(other.mean)


@dataclass(frozen=True)
class Comparison:
    """Both runs, the first judged against the second."""

    first: Side
    second: Side
    remark: str

    @property
    def unfit(self) -> Unusable | None:
        """What is wrong when one of the runs gave nothing to compare."""
        for which, side in (("first", self.first), ("second", self.second)):
            if side.failed:
                return replace(side.failed, text=f"of the {which} run: {side.failed.text}")
            if side.noise is None:
                return Unusable(
                    f"{side.samples} samples of the {which} run are too few to know its noise, at least "
                    f"{FEWEST_SAMPLES} are needed: lengthen the run"
                )
        return None

    @property
    def share(self) -> float:
        """How many times the second mean the first is."""
        return ratio(self.first.mean, self.second.mean)

    @property
    def text(self) -> str:
        """Both figures: "9.93 Gbit/s against 4.97 Gbit/s (100 % more"; the bracket is to be closed."""
        more = self.share - 1
        how = f"{percent(abs(more))} {'more' if more > 0 else 'less'}" if more else "the same"
        return f"{self.first.mean} against {self.second.mean} ({how}"

    def machines_noise(self, noise: float) -> str:
        """Return whose so much noise is, if it is that of the machine under an embedded region; else ""."""
        machine = self.first.machine or self.second.machine
        return (
            f"; limits of the embedded region are steady: {machine} may be why"
            if machine and noise > NEAR
            else ""
        )

    def details(self) -> dict[str, Any]:
        """Plain values for a report."""
        found = {"first": self.first.details, "second": self.second.details}
        return {**found, "confidence": CONFIDENCE, "noise_method": METHOD}


def compared(call: str, first: AnyObservation, second: object, within: float) -> Comparison:
    """Two runs in the quantity that both have: Gbit/s of networks, IOPS of one block size, else throughput.

    Raises TypeError for what is no measurement, and for a network against storage.
    """
    if isinstance(second, (str, int, float)) or not hasattr(second, "series"):
        raise TypeError(
            f"{call}({second!r}): that is no measurement; pass another run, or ask reaches or capped_by of a rate"
        )
    other: AnyObservation = second  # type: ignore[assignment]  # it has a series, as just seen
    like = _common_quantity(call, first, other)
    return Comparison(_side(first, like, within), _side(other, like, within), _remark(first, other))


def _common_quantity(call: str, first: AnyObservation, second: AnyObservation) -> Rate:
    if is_network(first) != is_network(second):
        one, other = ("a network", "storage") if is_network(first) else ("storage", "a network")
        raise TypeError(
            f"{call}: a run over {one} cannot be compared with one on {other}: compare runs of one kind"
        )
    if is_network(first):
        return natural_rate(first)
    same = as_storage(first).block_size == as_storage(second).block_size
    return Iops(0) if same else Throughput(0)


def _side(obs: AnyObservation, like: Rate, within: float) -> Side:
    mean = rate_like(obs, like)
    line = timeline(obs, mean)
    pieces = [plateau.values for plateau in line.plateaus]
    enough = len(line.values) >= FEWEST_SAMPLES
    failed = unusable(obs, mean)
    # A mean over a fall lies at no limit; what the run began with tells what set its rate.
    first = line.rate(line.plateaus[0].mean) if len(pieces) > 1 else mean
    limit = None if failed else other_limit(obs, first)
    noise = noise_of(pieces) if enough and not failed else None
    details = run_details(obs, mean, within=within, asked=None, line=line)
    details |= {
        "noise_error": noise.error if noise else None,
        "noise_degrees": noise.degrees if noise else None,
    }
    return Side(mean, len(line.values), noise, limit, failed, machines_part(obs), details)


def _remark(first: AnyObservation, second: AnyObservation) -> str:
    """What the two runs were made under, where that differs: it does not make the comparison wrong."""
    one, other = conditions_of(first), conditions_of(second)
    words = []
    if one["time_compression"] != other["time_compression"]:
        factors = [f"{each['time_compression']:g}" for each in (one, other)]
        words.append(f"time compressed {' against '.join(factors)} times")
    for which, mine, theirs in (("first", one, other), ("second", other, one)):
        only = [text for text in mine["conditions"] if text not in theirs["conditions"]]
        if only:
            words.append(f"only the {which} run: {', '.join(only)}")
    return f"; the conditions differ ({'; '.join(words)})" if words else ""


def limits_text(*sides: tuple[str, Side]) -> str:
    """Which run was limited by what else, in words."""
    return listed(f"of the {which} run, {side.limit.text}" for which, side in sides if side.limit)
