"""Which part of a network's run a claim speaks of: the start, while credits last, or what comes after."""

from __future__ import annotations

from pytest_cloudbench.limits.quantities import Bandwidth, Rate, Throughput
from pytest_cloudbench.verdicts.moments import moment
from pytest_cloudbench.verdicts.network.attribution import Stretch, at_level
from pytest_cloudbench.verdicts.network.observation import NetworkObservation, network_ceilings, network_rate
from pytest_cloudbench.verdicts.network.targets import NetworkTarget, levels_in
from pytest_cloudbench.verdicts.timeline import Timeline, timeline


def stretch_for(
    obs: NetworkObservation, target: NetworkTarget, *, whole: bool = False
) -> tuple[Stretch, Timeline]:
    """The part of the run to judge ``target`` on, and the whole series.

    A run whose rate fell for good to the baseline of an end, which is how a burst ends, is judged before that fall.
    Where the claim is of spent credits it is judged after its last lasting fall. Any other run, one of ends whose
    baselines are not known, and one with ``whole`` is judged as a whole.
    """
    mean = network_rate(obs)
    line = timeline(obs, mean)
    falls = line.falls.lasting
    if not whole and falls and target.spent:
        kept, before = line.after(falls[-1]), Bandwidth(line.plateaus[0].mean)
        where = f" after {moment(kept.begin_s)}, when the rate had fallen from {before}"
        return Stretch(Bandwidth(kept.mean), line.of_real_seconds(kept.values), where), line
    baselines = _baselines(obs, target)
    end = None if whole else line.end_of_burst(lambda rate: _at_one_of(obs, rate, baselines))
    if end is None:
        return Stretch(mean, line.of_real_seconds(line.values)), line
    kept = line.before(end)
    where = f" in the first {moment(kept.end_s)}, before the rate fell to {Bandwidth(end.after)}"
    return Stretch(Bandwidth(kept.mean), line.of_real_seconds(kept.values), where), line


def _baselines(obs: NetworkObservation, target: NetworkTarget) -> list[Bandwidth]:
    """What remains at each end once its network credits are spent: the envelope's, and those of the claim."""
    levels = [level.rate for level in levels_in(network_ceilings(obs)) if level.spent]
    claimed = [level.ceiling.base for level in target.levels]
    return levels + [Bandwidth.of(base) for base in claimed if isinstance(base, Throughput)]


def _at_one_of(obs: NetworkObservation, rate: Rate, levels: list[Bandwidth]) -> bool:
    assert isinstance(rate, Throughput)
    return any(at_level(Bandwidth.of(rate), level, obs) for level in levels)
