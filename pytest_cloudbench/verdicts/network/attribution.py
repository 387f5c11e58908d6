"""Why a network's rate fell short: one flow's limit, the slower end, the machine underneath, the load itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.limits.ceilings import FLOW
from pytest_cloudbench.limits.network import NetworkEnvelope
from pytest_cloudbench.limits.quantities import Bandwidth, figure
from pytest_cloudbench.verdicts.allowances import bandwidth_acted, exceeded_text
from pytest_cloudbench.verdicts.attribution import (
    DRIFT,
    MACHINE,
    NEAR,
    SATURATED_PERCENT,
    Reason,
)
from pytest_cloudbench.verdicts.network.observation import (
    NetworkObservation,
    bitrate_asked,
    header_share,
    lost_share,
    network_ceilings,
    tool_text,
)
from pytest_cloudbench.verdicts.network.targets import NetworkLevel, levels_in
from pytest_cloudbench.verdicts.observation import GeneratorLoad
from pytest_cloudbench.verdicts.steadiness import steadiness
from pytest_cloudbench.verdicts.verdict import Outcome
from pytest_cloudbench.verdicts.wording import listed, percent

LOSS_WORTH_TELLING = 0.001
# The machine's own figure is a probe's, not a limit that anything enforces: it is only about right.
MACHINE_NEAR = 0.10


@dataclass(frozen=True)
class Stretch:
    """The part of a run that is judged: its mean, its samples, and which part it is (empty: all of it)."""

    mean: Bandwidth
    values: Sequence[float]
    where: str = ""


def at_level(measured: Bandwidth, level: Bandwidth, obs: NetworkObservation, near: float = NEAR) -> bool:
    """Whether a rate of data lies at a limit of the wire: within ``near``, and down to what headers take."""
    share = measured / level
    return (1 - near) * (1 - header_share(obs)) <= share <= 1 + near


def headers_text(obs: NetworkObservation, measured: Bandwidth, limit: Bandwidth, within: float) -> str:
    """A remark where only what headers take of the wire lies between a rate and its tolerance."""
    if measured / limit >= 1 - within:
        return ""
    return f"; headers take up to {figure(header_share(obs) * 100, 1)} % of the wire"


def bounds(
    obs: NetworkObservation, measured: Bandwidth, *, but: Sequence[NetworkLevel] = (), near: float = NEAR
) -> tuple[NetworkLevel, ...]:
    """The promised levels at which a rate lies.

    Those whose counters confirm them where there are any, else those whose counters do not deny them:
    no packet above an allowance speaks against an end only where something else lies as near, or where
    the region is embedded: its counters are exact, and a machine may happen to carry just as much.
    """
    envelope = network_ceilings(obs)
    found = [
        level
        for level in levels_in(envelope)
        if not any(level.ceiling.same_as(other.ceiling) and level.spent == other.spent for other in but)
        and at_level(measured, level.rate, obs, near)
        and not (level.ceiling.scope == FLOW and unequal_streams(obs, level))
    ]
    said = {id(level): bandwidth_acted(obs.counters, level.ceiling) for level in found}
    confirmed = [level for level in found if said[id(level)]]
    possible = [level for level in found if said[id(level)] is not False]
    return tuple(confirmed or possible or ([] if envelope.machine else found))


def confirmed(obs: NetworkObservation, found: Sequence[NetworkLevel]) -> bool:
    """Whether an allowance counter shows one of these at work."""
    return any(bandwidth_acted(obs.counters, level.ceiling) for level in found)


def unequal_streams(obs: NetworkObservation, level: NetworkLevel) -> bool:
    """Whether the streams show that it was not one flow's limit: each would have to sit at it."""
    if len(obs.streams) < 2:
        return False
    each = level.rate / len(obs.streams)
    return not all(at_level(Bandwidth.of(stream.throughput), each, obs, 2 * NEAR) for stream in obs.streams)


def machine_network(envelope: NetworkEnvelope) -> Bandwidth | None:
    """What the machine under an embedded region carries; None where there is none."""
    return envelope.bandwidth_of(envelope.machine[0]) if envelope.machine else None


def machine_is_near(obs: NetworkObservation, measured: Bandwidth) -> bool:
    """Whether the machine's own limit is so close to the rate that it may be what was measured."""
    level = machine_network(network_ceilings(obs))
    return level is not None and measured / level * (1 + MACHINE_NEAR) >= 1


def machine_carries(obs: NetworkObservation) -> str:
    """What the machine does without any shaping, in words."""
    rate = machine_network(network_ceilings(obs))
    return f"its network carries about {rate} from one process without any shaping"


def saturated(obs: NetworkObservation) -> str | None:
    """A sentence when the load generator had no CPU left, at whichever end."""
    load = getattr(obs, "generator", None)
    if not isinstance(load, GeneratorLoad):
        return None
    total, cpus = load.cpu_percent_total, load.cpus
    if load.cpu_percent_busiest >= SATURATED_PERCENT:
        text = f"its busiest process used {load.cpu_percent_busiest:.0f} % of a CPU"
    elif total is not None and cpus and total >= SATURATED_PERCENT * cpus:
        text = f"its processes used {total / cpus:.0f} % of all {cpus} CPUs"
    else:
        return None
    tool = tool_text(obs)
    return f"{text} ({tool})" if tool else text


def drift(stretch: Stretch, within: float) -> str | None:
    """A sentence when the rate moved during the stretch."""
    found = steadiness(list(stretch.values), within)
    if found.steady is not False:
        return None
    first, second = Bandwidth(found.first_half), Bandwidth(found.second_half)
    return f"the rate was not steady: {first} in the first half, {second} in the second"


def self_limited(obs: NetworkObservation, measured: Bandwidth, asked: Bandwidth) -> str | None:
    """A sentence when the job asked for less than what is judged, or got what it asked for."""
    own = bitrate_asked(obs)
    if own is None or (own / asked >= 1 and measured / own < 1 - NEAR):
        return None
    return f"the job limited its own load to {own} ({percent(own / asked)} of what was asked)"


def why_short(
    obs: NetworkObservation, stretch: Stretch, asked: Bandwidth, *, but: Sequence[NetworkLevel] = ()
) -> Reason:
    """Why a stretch stayed below ``asked``. ``but`` are levels that are out of the question."""
    measured = stretch.mean
    found = bounds(obs, measured, but=but)
    seen = confirmed(obs, found)
    if not seen and (text := self_limited(obs, measured, asked)):
        return Reason(Outcome.INCONCLUSIVE, text)
    busy = saturated(obs)
    if found and (seen or not (busy or machine_is_near(obs, measured))):
        return Reason(Outcome.VIOLATED, bound_text(obs, found), tuple(level.ceiling for level in found))
    return _why_unbound(obs, stretch, found, busy)


def bound_text(obs: NetworkObservation, found: Sequence[NetworkLevel]) -> str:
    """ "bound by ...", with what the counters say of it."""
    streams = network_ceilings(obs).streams
    text = f"bound by {listed(level.named(streams) for level in found)}"
    if any(level.ceiling.scope == FLOW for level in found) and streams > 1:
        text += ", each stream at its own"
    counted = exceeded_text(obs.counters) if confirmed(obs, found) else ""
    return f"{text}; {counted}" if counted else text


def _why_unbound(
    obs: NetworkObservation, stretch: Stretch, suspects: Sequence[NetworkLevel], busy: str | None
) -> Reason:
    """Why a rate stayed low that no promised level is shown to have held; suspects only lie near it."""
    measured = stretch.mean
    names = listed((level.label for level in suspects), "or")
    embedded = machine_network(network_ceilings(obs)) is not None
    if busy:
        who = f"{names} or the load generator held it back" if names else "the load generator was the limit"
        # The generator's processors are those of that machine.
        return Reason(Outcome.INCONCLUSIVE, f"{who}: {busy}", (), embedded)
    if embedded:
        who = f"{names} or {MACHINE} held it back" if names else _machine_alone(obs, measured)
        return Reason(Outcome.INCONCLUSIVE, f"{who} ({machine_carries(obs)})", (), True)
    if text := drift(stretch, DRIFT):
        return Reason(Outcome.INCONCLUSIVE, text)
    return Reason(Outcome.VIOLATED, _unexplained(obs))


def _machine_alone(obs: NetworkObservation, measured: Bandwidth) -> str:
    text = f"no promised limit held it back: {MACHINE} was the limit"
    level = machine_network(network_ceilings(obs))
    if level is not None and measured / level < 0.5:
        text += ", busy with other work or with the load itself"
    return text


def _unexplained(obs: NetworkObservation) -> str:
    lost = lost_share(obs)
    dropped = f"; {percent(lost)} of the datagrams were lost" if lost and lost >= LOSS_WORTH_TELLING else ""
    if not network_ceilings(obs).promised.ceilings:
        return f"its limits are not known, so none explains it{dropped}"
    if counted := exceeded_text(obs.counters):
        return f"no known limit explains it, but the instances counted {counted}{dropped}"
    if obs.counters is None:
        return f"no known limit explains it, and there were no allowance counters to ask{dropped}"
    return f"no known limit explains it, and the allowance counters name none{dropped}"
