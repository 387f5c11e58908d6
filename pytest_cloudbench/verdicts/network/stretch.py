"""Which part of a network's run a claim speaks of: the start, while credits last, or what comes after."""

from __future__ import annotations

from pytest_cloudbench.promises.quantities import Bandwidth
from pytest_cloudbench.verdicts.moments import moment
from pytest_cloudbench.verdicts.network.attribution import Stretch
from pytest_cloudbench.verdicts.network.observation import NetworkObservation, network_rate
from pytest_cloudbench.verdicts.network.targets import NetworkTarget
from pytest_cloudbench.verdicts.timeline import Timeline, timeline


def stretch_for(
    obs: NetworkObservation, target: NetworkTarget, *, whole: bool = False
) -> tuple[Stretch, Timeline]:
    """The part of the run to judge ``target`` on, and the whole series.

    A run whose rate fell for good is judged before its first fall, or after its last where the claim is
    of spent credits; a run that did not fall, or with ``whole``, as a whole.
    """
    mean = network_rate(obs)
    line = timeline(obs, mean)
    plateaus = line.plateaus
    if whole or len(plateaus) < 2:
        return Stretch(mean, line.of_real_seconds(line.values)), line
    kept = plateaus[-1] if target.spent else plateaus[0]
    if target.spent:
        before = Bandwidth(plateaus[0].mean)
        where = f" after {moment(kept.begin_s)}, when the rate had fallen from {before}"
    else:
        where = f" in the first {moment(kept.end_s)}, before the rate fell to {Bandwidth(plateaus[1].mean)}"
    return Stretch(Bandwidth(kept.mean), line.of_real_seconds(kept.values), where), line
