"""The part of the delay of a run's I/Os that the machine under an embedded region added: measured there, not guessed.

The region answers each I/O at a modelled time or, if its machine is busy, later. It counts both parts. An I/O may
also wait before it reaches the region; a load that keeps its I/Os outstanding sees that in its own latency.
"""

from __future__ import annotations

import math

from pytest_cloudbench.limits.ceilings import MACHINE_OWNER, Ceiling
from pytest_cloudbench.limits.quantities import Iops, Rate
from pytest_cloudbench.verdicts.observation import MachineDelay
from pytest_cloudbench.verdicts.run_view import Run
from pytest_cloudbench.verdicts.targets import ROUNDING, ratio
from pytest_cloudbench.verdicts.wording import duration, percent

NOT_MODELLED = "the embedded region models no latency here, so this is the latency of its machine"
TOO_MUCH = 0.10
"""The machine's share of the delay above which it may have decided a verdict: the tolerance of `reaches`."""
QUEUE = 128
"""I/Os that a loop device passes on at a time; more wait before it, where the region does not see them."""
BUNCHED = 0.02
"""A load that asks for less than a limit waits for it less than this share of the time, if its I/Os come evenly."""
_BEHIND = 0.95
_RARE = {"p999": 0.001, "max": 0.0}


def keeps_in_flight(run: Run) -> bool:
    """Return True if the load keeps all its I/Os in flight: no pauses, and no rate of its own that it reached."""
    own = run.job_limit
    if own is not None:
        return ratio(run.rate_like(own), own) < _BEHIND
    return run.keeps_outstanding is not False


def machine_share(run: Run) -> float | None:
    """Return the machine's share of the delay, 0 to 1; None if it was not measured."""
    delay = run.machine_delay
    if delay is None:
        return None
    took_s = _took_s(run, delay)
    return max(0.0, 1 - delay.modelled_s / took_s) if took_s > 0 else 0.0


def machine_disturbed(run: Run) -> bool:
    """Return True if the machine was measured to add more than `TOO_MUCH` of the delay."""
    return (machine_share(run) or 0.0) > TOO_MUCH


def machine_to_blame(run: Run) -> bool:
    """Return True if the machine under an embedded region explains what no promise explains.

    It does unless it was measured to have added little delay. If the latency of a load is unknown, only the device's
    part was measured: the load's processes may have waited for the machine too.
    """
    measured = run.machine_delay is not None and math.isfinite(run.latency_mean_s)
    return run.on_region and (machine_disturbed(run) or not measured)


def rate_on_time(run: Run) -> Iops | None:
    """Return the rate that a region would have served if its machine had always been on time; None if unknown.

    By Little's law: the I/Os in flight at the region, divided by the modelled time of each, which is known for whole
    runs only. A limit serves the pieces of a large I/O one after another, so on average half of one I/O is done
    already. If no limit acts, the number of pieces in flight is unknown.
    """
    delay, outstanding = run.machine_delay, run.outstanding_asked
    known = delay is not None and math.isfinite(run.latency_mean_s) and keeps_in_flight(run)
    if delay is None or not known or outstanding is None or delay.modelled_s <= 0:
        return None
    pieces = _pieces(run)
    if pieces > 1 and not any(run.acted(each) for each in run.envelope.promised.ceilings):
        return None
    in_flight = min(outstanding * pieces - (pieces - 1) / 2, QUEUE * delay.volumes)
    return Iops(in_flight / pieces / delay.modelled_s)


def on_time_reaches(run: Run, least: Rate) -> bool:
    """Return True if a machine that was always on time would have served ``least``."""
    on_time = rate_on_time(run)
    return on_time is not None and ratio(run.rates_of(on_time).like(least), least) >= 1 - ROUNDING


def machine_explains(run: Run, name: str, measured_s: float, limit_s: float, mean_s: float) -> bool:
    """Return True if ``measured_s`` may be above ``limit_s`` only because of the machine under an embedded region.

    ``name`` is "mean", "p50" ... "max", ``mean_s`` the mean of the same I/Os; both times are in seconds. The machine's
    share of a percentile is taken to be that of the mean. But a machine that is late for a few I/Os raises only p99.9
    and the maximum; it explains these unless all the time it added, put on the slowest I/Os, could not raise them that
    far.
    """
    delay, share = run.machine_delay, machine_share(run)
    if delay is None or share is None:
        return run.on_region
    if waited_without_need(run) is not None:
        return True
    if mean_s * (1 - share) > limit_s:
        return False
    if name in _RARE:
        return _took_s(run, delay) - delay.modelled_s >= _RARE[name] * (measured_s - limit_s)
    return name == "mean" or share > TOO_MUCH or measured_s * (1 - share) <= limit_s


def waited_without_need(run: Run) -> Ceiling | None:
    """Return a ceiling that I/Os of a region waited for although their load requested less than each; else None.

    A load that limits its own rate sends a burst of I/Os after its machine did not let it run. The modelled time
    includes the time that these then wait for each other.
    """
    own, counters, envelope = run.job_limit, run.counters, run.envelope
    if own is None or counters is None or run.machine_delay is None:
        return None
    ceilings = envelope.promised.ordered
    if not all(
        ratio(own, envelope.iops_of(each) if isinstance(own, Iops) else envelope.throughput_of(each))
        < _BEHIND
        for each in ceilings
    ):
        return None
    waited = [each for each in ceilings if (counters.seconds_of(each) or 0.0) > BUNCHED * counters.elapsed_s]
    return waited[0] if waited else None


def machine_text(run: Run) -> str:
    """Return the machine's name with figures: "... (mean latency 1.4 ms, 0.6 ms of it modelled: it added 57 %)".

    Without them if only the device's part was measured, and was on time: they would speak against the machine's blame.
    """
    delay, share = run.machine_delay, machine_share(run)
    if delay is None or share is None:
        return MACHINE_OWNER
    if not (math.isfinite(run.latency_mean_s) or machine_disturbed(run)):
        return MACHINE_OWNER
    ceiling = waited_without_need(run)
    if ceiling is not None and run.counters is not None:
        waited = percent((run.counters.seconds_of(ceiling) or 0.0) / run.counters.elapsed_s)
        return f"{MACHINE_OWNER} (I/Os came in bursts: they waited for {ceiling.label} {waited} of the time)"
    took, modelled = duration(_took_s(run, delay)), duration(delay.modelled_s)
    added = percent(share, TOO_MUCH)
    return f"{MACHINE_OWNER} (mean latency {took}, {modelled} of it modelled: it added {added})"


def as_modelled(run: Run) -> str:
    """Return " (modelled)" for a run whose latency a region modelled, so that nobody mistakes it for AWS's; else ""."""
    known = run.machine_delay is not None and run.modelled_latency != "none"
    return " (modelled)" if known else ""


def not_modelled(run: Run) -> bool:
    """Return True if an embedded region models no latency, or none for this device.

    Below all limits the latency of a run there is that of the machine underneath.
    """
    return run.on_region and (run.machine_delay is None or run.modelled_latency == "none")


def _took_s(run: Run, delay: MachineDelay) -> float:
    """Return the mean time from when an I/O left the queue before its volume until it was answered, in seconds.

    The load's own latency shows it, if that is the latency of single I/Os. If more are outstanding than the volumes'
    queues hold, the time follows from the size of the queues by Little's law.
    """
    seen_s = delay.modelled_s + delay.late_s
    latency_s, iops = run.latency_mean_s, run.rates.iops.per_second
    timed = math.isfinite(latency_s) and math.isfinite(iops) and iops > 0
    if not timed or (run.job_limit is None and not keeps_in_flight(run)):
        return seen_s
    pieces = _pieces(run)
    if pieces > 1:
        # An I/O takes as long as the last of its pieces; the mean time of a piece is at least half of that.
        latency_s /= 2
    return max(seen_s, min(latency_s, QUEUE * delay.volumes / (iops * pieces)))


def _pieces(run: Run) -> int:
    """Return the number of volume I/Os into which one I/O of the load is split."""
    unit = run.envelope.io_unit if run.envelope.ceilings else run.block_size
    return -(-run.block_size.bytes // unit.bytes)
