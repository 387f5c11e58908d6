"""One instance and its attached volumes under the governor: a tick from what was served to the next limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from pytest_cloudbench.twin.control import Shares, exceeded
from pytest_cloudbench.twin.counters import Counters, CountersPage
from pytest_cloudbench.twin.disk_counts import DiskCounts, PiecesPerUnit, Served
from pytest_cloudbench.twin.loop_devices import LoopDevice
from pytest_cloudbench.twin.storage_accounts import InstanceAccount, VolumeAccount
from pytest_cloudbench.twin.throttle import Limits, Throttle

_WORTH_WRITING = 0.002  # a limit that moves by less stays as it is
_KIND_S = 0.35  # over which it is judged whether a load is sequential


@dataclass
class GovernedVolume:
    """One attached volume."""

    volume_id: str
    account: VolumeAccount
    loop: LoopDevice
    page: CountersPage
    counts: DiskCounts
    counters: Counters = field(default_factory=Counters)
    reads: PiecesPerUnit = field(default_factory=PiecesPerUnit)
    writes: PiecesPerUnit = field(default_factory=PiecesPerUnit)
    limits: Limits | None = None
    quiet: bool = True


class GovernedInstance:
    """What the volumes of one instance share, and those that are attached. The caller holds the governor's lock."""

    def __init__(self, instance_id: str, account: InstanceAccount, throttle: Throttle) -> None:
        self.instance_id = instance_id
        self.account = account
        self.volumes: dict[str, GovernedVolume] = {}
        self._throttle = throttle
        self._iops = Shares(account.iops.limit)
        self._bytes_per_s = Shares(account.bytes_per_s.limit)
        self._rested_s = 0.0

    def add(self, volume: GovernedVolume) -> None:
        """Take a volume in; its limits hold when this returns."""
        self.volumes[volume.volume_id] = volume
        self._begin(volume)

    def renew(self, volume: GovernedVolume) -> None:
        """Go by the limits that the volume's account has by now, at once."""
        self._iops.remove(volume.volume_id)
        self._bytes_per_s.remove(volume.volume_id)
        self._begin(volume)

    def _begin(self, volume: GovernedVolume) -> None:
        limit = volume.account.limit
        self._iops.add(volume.volume_id, limit.iops)
        self._bytes_per_s.add(volume.volume_id, limit.bytes_per_s)
        self._apply(volume)

    def remove(self, volume: GovernedVolume) -> None:
        """Let a volume go, without limits."""
        del self.volumes[volume.volume_id]
        self._iops.remove(volume.volume_id)
        self._bytes_per_s.remove(volume.volume_id)
        self._throttle.lift(self.instance_id, volume.loop.device_number)

    def suspend(self) -> None:
        """Lift the limits until `resume`."""
        for volume in self.volumes.values():
            self._throttle.lift(self.instance_id, volume.loop.device_number)
            volume.limits = None

    def resume(self) -> None:
        """Put the limits back in force."""
        for volume in self.volumes.values():
            self._apply(volume)

    def tick(self, elapsed_s: float, now: float) -> tuple[int, int]:
        """Look at what was served in the ``elapsed_s`` before ``now`` and set new limits; requests and bytes."""
        looked = {name: volume.counts.since_last_look() for name, volume in self.volumes.items()}
        served = {name: figures for name, figures in looked.items() if figures is not None}
        if not served and all(volume.quiet for volume in self.volumes.values()):
            self._rested_s += elapsed_s
            return 0, 0
        self._account(served, elapsed_s)
        self._charge(served, elapsed_s, now)
        self._iops.grant()
        self._bytes_per_s.grant()
        for volume in self.volumes.values():
            self._show_and_apply(volume)
        return sum(each.ops for each in served.values()), sum(each.size for each in served.values())

    def _account(self, served: dict[str, Served], elapsed_s: float) -> None:
        weight = 1.0 - math.exp(-elapsed_s / _KIND_S)
        units: dict[str, tuple[float, float]] = {}
        moved: dict[str, tuple[float, float]] = {}
        for name, each in served.items():
            self.volumes[name].reads.take(each.read_units, each.read_pieces, weight)
            self.volumes[name].writes.take(each.write_units, each.write_pieces, weight)
            # What was counted as one too many until a sequel proved it is taken back: never below nothing.
            units[name] = max(0, each.read_units) / elapsed_s, max(0, each.write_units) / elapsed_s
            moved[name] = each.read_bytes / elapsed_s, each.write_bytes / elapsed_s
        self._iops.account(units, elapsed_s, before_s=self._rested_s)
        self._bytes_per_s.account(moved, elapsed_s, before_s=self._rested_s)
        self._rested_s = 0.0

    def _charge(self, served: dict[str, Served], elapsed_s: float, now: float) -> None:
        """Let everybody pay for what he was served, and go by the limits that are left him."""
        for name, each in served.items():
            account = self.volumes[name].account
            if account.varies:
                account.charge(each.units, each.read_bytes, elapsed_s, now, bytes_written=each.write_bytes)
                limit = account.limit
                self._iops.change(name, limit.iops)
                self._bytes_per_s.change(name, limit.bytes_per_s)
        units = sum(each.units for each in served.values())
        moved = sum(each.size for each in served.values())
        for shares, burst, amount in (
            (self._iops, self.account.iops, units),
            (self._bytes_per_s, self.account.bytes_per_s, moved),
        ):
            burst.take(amount, elapsed_s, now, pressed=shares.budget.binding)
            shares.budget.change(burst.limit)

    def _show_and_apply(self, volume: GovernedVolume) -> None:
        name = volume.volume_id
        resting = self._iops.volumes[name].idle and self._bytes_per_s.volumes[name].idle
        if resting and volume.quiet:
            return
        volume.quiet = resting
        if resting:  # what comes next may be of another kind
            volume.reads.forget()
            volume.writes.forget()
        self._count(volume)
        if volume.limits is not None:
            self._apply(volume)

    def _count(self, volume: GovernedVolume) -> None:
        counters = volume.counters
        volume.counts.show_in(counters)
        name = volume.volume_id
        own = exceeded(self._iops.volumes[name].budget, self._bytes_per_s.volumes[name].budget)
        shared = exceeded(self._iops.budget, self._bytes_per_s.budget)
        counters.volume_iops_exceeded_s += own[0]
        counters.volume_throughput_exceeded_s += own[1]
        counters.instance_iops_exceeded_s += shared[0]
        counters.instance_throughput_exceeded_s += shared[1]
        volume.page.show(counters)

    def _apply(self, volume: GovernedVolume) -> None:
        ops = self._iops.volumes[volume.volume_id]
        moved = self._bytes_per_s.volumes[volume.volume_id]
        new = Limits(
            ops.reads.granted * volume.reads.value,
            ops.writes.granted * volume.writes.value,
            moved.reads.granted,
            moved.writes.granted,
        )
        old = volume.limits
        if old is not None:
            kept = Limits(
                *(
                    before if abs(after - before) <= _WORTH_WRITING * before else after
                    for before, after in zip(old.values, new.values, strict=True)
                )
            )
            if kept == old:
                return
            new = kept
        self._throttle.set(self.instance_id, volume.loop.device_number, new)
        volume.limits = new
