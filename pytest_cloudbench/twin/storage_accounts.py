"""What volumes and instances may do, and what they have done: limits, burst credits, totals.

A volume's account goes with the volume, attached or not; an instance's with the instance, running or not. The
governor charges them with what was served and asks them for the limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from pytest_cloudbench.promises.credits import ebs_credits, volume_credits
from pytest_cloudbench.promises.instances import EbsLimit
from pytest_cloudbench.promises.quantities import MIB
from pytest_cloudbench.promises.volume_types import VOLUME_TYPES
from pytest_cloudbench.promises.volumes import VolumeSpec
from pytest_cloudbench.twin.burst_limit import BurstLimit
from pytest_cloudbench.twin.counters import Counters


@dataclass(frozen=True)
class RateLimit:
    """A limit of I/Os (as EBS counts them) and bytes per second; infinity where there is none."""

    iops: float = math.inf
    bytes_per_s: float = math.inf


@dataclass
class UntilRead:
    """A lower limit that holds until ``bytes_left`` were read: a volume that was made from a snapshot."""

    limit: RateLimit
    bytes_left: float


@dataclass
class UntilTouched:
    """A share of the rate that holds until ``bytes_left`` were read or written: a volume that was not initialised."""

    share: float
    bytes_left: float


@dataclass(frozen=True)
class VolumeActivity:
    """What a volume did since it was made, and its balance of credits in percent, None without credits.

    ``instance_id`` is None while it is not attached.
    """

    volume_id: str
    instance_id: str | None
    done: Counters
    burst_balance: float | None


@dataclass(frozen=True)
class InstanceActivity:
    """An instance's balances of EBS credits in percent; None for what does not burst."""

    instance_id: str
    io_balance: float | None
    byte_balance: float | None


class VolumeAccount:
    """One volume. ``now`` is always the time of a monotonic clock in seconds."""

    def __init__(self, spec: VolumeSpec, now: float, time_compression: float = 1.0) -> None:
        self.spec = spec
        self.until_read: UntilRead | None = None
        self.until_touched: UntilTouched | None = None
        if spec.first_touch is not None:
            self.until_touched = UntilTouched(spec.first_touch, spec.size.bytes)
        self.done = Counters()  # before the present attachment
        self._credited = BurstLimit(self._highest, volume_credits(spec), now, time_compression)

    @property
    def is_hdd(self) -> bool:
        """Whether bytes, in whole units, drain its credits and not I/Os."""
        kind = VOLUME_TYPES.get(self.spec.type)
        return kind is not None and kind.is_hdd

    @property
    def unit_bytes(self) -> int:
        """Up to how many bytes count as one I/O."""
        return self.spec.io_unit.bytes

    @property
    def limit(self) -> RateLimit:
        """What it may do now; unknown figures do not limit."""
        if self.is_hdd:
            # Its throughput is all there is; an I/O, however small, takes one unit of it.
            bytes_per_s = self._credited.limit
            iops = bytes_per_s / self.unit_bytes
        else:
            throughput = self.spec.burst_throughput_mib
            bytes_per_s = math.inf if throughput is None else throughput * MIB
            iops = self._credited.limit
        if self.until_read is not None:
            iops = min(iops, self.until_read.limit.iops)
            bytes_per_s = min(bytes_per_s, self.until_read.limit.bytes_per_s)
        if self.until_touched is not None:
            iops *= self.until_touched.share
            bytes_per_s *= self.until_touched.share
        return RateLimit(iops, bytes_per_s)

    @property
    def varies(self) -> bool:
        """Whether what it may do changes with what it does."""
        slow_at_first = self.until_read is not None or self.until_touched is not None
        return slow_at_first or self._credited.bucket is not None

    def charge(
        self, units: float, bytes_read: float, elapsed_s: float, now: float, *, bytes_written: float = 0.0
    ) -> None:
        """Account for what was served in the ``elapsed_s`` before ``now``, in I/Os as EBS counts them."""
        self._credited.take(units * (self.unit_bytes if self.is_hdd else 1), elapsed_s, now)
        if self.until_read is not None:
            self.until_read.bytes_left -= bytes_read
            if self.until_read.bytes_left <= 0:
                self.until_read = None
        if self.until_touched is not None:
            self.until_touched.bytes_left -= bytes_read + bytes_written
            if self.until_touched.bytes_left <= 0:
                self.until_touched = None

    def become(self, spec: VolumeSpec, now: float) -> None:
        """Be a volume of another type or size from now on."""
        self.spec = spec
        self._credited.change(self._highest, volume_credits(spec), now)

    def rest_until(self, now: float) -> None:
        """Account for idle time, as while it was detached."""
        self._credited.rest_until(now)

    def burst_balance(self, now: float) -> float | None:
        """Its credits in percent of a full bucket; None where it has none."""
        return self._credited.percent(now)

    @property
    def _highest(self) -> float:
        """The limit of what credits are for, I/Os or bytes a second, while there are any."""
        if self.is_hdd:
            return (self.spec.burst_throughput_mib or 0.0) * MIB
        iops = self.spec.burst_iops
        return math.inf if iops is None else float(iops)


class InstanceAccount:
    """One instance's limits over all its volumes. ``now`` is the time of a monotonic clock in seconds."""

    def __init__(
        self,
        maximum: EbsLimit | None,
        baseline: EbsLimit | None,
        now: float,
        time_compression: float = 1.0,
    ) -> None:
        plain = RateLimit()
        if maximum is not None:
            plain = RateLimit(maximum.iops.per_second, maximum.throughput.bytes_per_second)
        rules = ebs_credits(baseline, maximum)
        self.iops = BurstLimit(plain.iops, rules.iops, now, time_compression)
        self.bytes_per_s = BurstLimit(plain.bytes_per_s, rules.throughput, now, time_compression)


def together(one: Counters, other: Counters) -> Counters:
    """Two stretches of counting as one; the queue is the later one's."""
    sums = {each.name: getattr(one, each.name) + getattr(other, each.name) for each in fields(Counters)}
    return Counters(**{**sums, "queue_length": other.queue_length})
