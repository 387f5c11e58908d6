"""What the throttle counters say about a run: which limit acted, and for how long."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_cloudbench.limits.ceilings import INSTANCE, VOLUME, Ceiling

# A saturating load is throttled nearly all the time; a ceiling that hardly ever acted held nothing back.
ACTED_SHARE = 0.5
IDLE_SHARE = 0.1


@dataclass(frozen=True)
class ThrottleDelta:
    """Seconds for which demand exceeded each limit during ``elapsed_s`` seconds of a run.

    With several volumes the volume figures are those of the one that was throttled longest. The
    instance figures are 0 where the device reports none. NaN is what is not known of a part of a run.
    """

    elapsed_s: float
    volume_iops_exceeded_s: float = 0.0
    volume_throughput_exceeded_s: float = 0.0
    instance_iops_exceeded_s: float = 0.0
    instance_throughput_exceeded_s: float = 0.0

    def seconds_of(self, ceiling: Ceiling) -> float | None:
        """For how long this ceiling was exceeded; None when these counters do not watch it, or do not tell."""
        if self.elapsed_s <= 0:
            return None
        seconds = math.nan
        if ceiling.scope == VOLUME:
            seconds = self.volume_iops_exceeded_s if ceiling.of_iops else self.volume_throughput_exceeded_s
        elif ceiling.scope == INSTANCE:
            seconds = (
                self.instance_iops_exceeded_s if ceiling.of_iops else self.instance_throughput_exceeded_s
            )
        return None if math.isnan(seconds) else seconds

    def during(self, length_s: float) -> ThrottleDelta:
        """What is certain of a part of the run that lasted ``length_s`` by the counters' own clock.

        All that was counted may lie in the rest of the run. So it is what more was counted than the rest lasted,
        where that is at least half of the part, and all of it where even that is less than a tenth of the part.
        Anything between tells nothing: NaN.
        """
        length_s = min(length_s, self.elapsed_s)
        if length_s <= 0:
            return ThrottleDelta(0.0)
        rest_s = self.elapsed_s - length_s

        def certain_s(counted_s: float) -> float:
            least_s = counted_s - rest_s
            if least_s >= ACTED_SHARE * length_s:
                return least_s
            return counted_s if counted_s < IDLE_SHARE * length_s else math.nan

        return ThrottleDelta(
            length_s,
            certain_s(self.volume_iops_exceeded_s),
            certain_s(self.volume_throughput_exceeded_s),
            certain_s(self.instance_iops_exceeded_s),
            certain_s(self.instance_throughput_exceeded_s),
        )


def acted(counters: ThrottleDelta | None, ceiling: Ceiling) -> bool | None:
    """Whether the ceiling acted most of the run (True), hardly ever (False), or it is not known (None)."""
    seconds = counters.seconds_of(ceiling) if counters else None
    if counters is None or seconds is None:
        return None
    share = seconds / counters.elapsed_s
    if share >= ACTED_SHARE:
        return True
    return False if share < IDLE_SHARE else None
