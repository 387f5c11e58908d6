"""What the throttle counters say about a run: which limit acted, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cloudbench.promises.ceilings import INSTANCE, VOLUME, Ceiling

# A saturating load is throttled nearly all the time; a ceiling that hardly ever acted held nothing back.
ACTED_SHARE = 0.5
IDLE_SHARE = 0.1


@dataclass(frozen=True)
class ThrottleDelta:
    """Seconds for which demand exceeded each limit during ``elapsed_s`` seconds of a run.

    With several volumes the volume figures are those of the one that was throttled longest. The
    instance figures are 0 where the device reports none.
    """

    elapsed_s: float
    volume_iops_exceeded_s: float = 0.0
    volume_throughput_exceeded_s: float = 0.0
    instance_iops_exceeded_s: float = 0.0
    instance_throughput_exceeded_s: float = 0.0

    def seconds_of(self, ceiling: Ceiling) -> float | None:
        """For how long this ceiling was exceeded; None when these counters do not watch it."""
        if self.elapsed_s <= 0:
            return None
        if ceiling.scope == VOLUME:
            return self.volume_iops_exceeded_s if ceiling.of_iops else self.volume_throughput_exceeded_s
        if ceiling.scope == INSTANCE:
            return self.instance_iops_exceeded_s if ceiling.of_iops else self.instance_throughput_exceeded_s
        return None


def acted(counters: ThrottleDelta | None, ceiling: Ceiling) -> bool | None:
    """Whether the ceiling acted most of the run (True), hardly ever (False), or it is not known (None)."""
    seconds = counters.seconds_of(ceiling) if counters else None
    if counters is None or seconds is None:
        return None
    share = seconds / counters.elapsed_s
    if share >= ACTED_SHARE:
        return True
    return False if share < IDLE_SHARE else None
