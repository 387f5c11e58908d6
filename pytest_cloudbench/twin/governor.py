"""The governor: reads what every attached volume serves and moves the kernel's limits, ten times a second.

One thread. A tick reads /sys/block/loopN/stat of every attached volume through a descriptor that stays
open; a volume whose line has not changed costs that read and nothing else. The law is in control.py.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_cloudbench.twin.control import Shares
from pytest_cloudbench.twin.counters import Counters, CountersPage
from pytest_cloudbench.twin.loop_devices import LoopDevice
from pytest_cloudbench.twin.throttle import Limits, Throttle

TICK_S = 0.1
_WORTH_WRITING = 0.002  # a limit that moves by less stays as it is
_SECTOR = 512
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RateLimit:
    """A limit of IOPS and bytes per second; infinity where there is none."""

    iops: float = math.inf
    bytes_per_s: float = math.inf


@dataclass
class _Stat:
    """What /sys/block/loopN/stat counts, as far as it is of use."""

    read_ops: int = 0
    read_bytes: int = 0
    read_ms: int = 0
    write_ops: int = 0
    write_bytes: int = 0
    write_ms: int = 0
    in_flight: int = 0

    @classmethod
    def parse(cls, line: bytes) -> _Stat:
        fields = line.split()
        return cls(
            int(fields[0]), int(fields[2]) * _SECTOR, int(fields[3]),
            int(fields[4]), int(fields[6]) * _SECTOR, int(fields[7]), int(fields[8]),
        )  # fmt: skip


@dataclass
class _Governed:
    """One attached volume."""

    volume_id: str
    device: str
    page: CountersPage
    stat_file: int
    line: bytes
    start: _Stat
    before: _Stat
    counters: Counters = field(default_factory=Counters)
    limits: Limits | None = None
    quiet: bool = True


@dataclass
class _Instance:
    """One instance: what its volumes share, and those that are attached."""

    instance_id: str
    iops: Shares
    bytes_per_s: Shares
    volumes: dict[str, _Governed] = field(default_factory=dict)


class Governor:
    """Holds the limits of all volumes and instances of a region. Methods may be called from any thread."""

    def __init__(self, throttle: Throttle, on_served: Callable[[float, float], None] | None = None) -> None:
        self._throttle = throttle
        self._on_served = on_served
        self._instances: dict[str, _Instance] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._second = [0.0, 0.0, 0.0]  # seconds, I/Os and bytes since the last figure given to on_served
        self._complained: set[str] = set()
        self.cpu_s = 0.0
        self._thread = threading.Thread(target=self._run, name="cloudbench-governor", daemon=True)
        self._thread.start()

    def add_instance(self, instance_id: str, limit: RateLimit) -> None:
        """Begin to govern an instance."""
        with self._lock:
            self._instances[instance_id] = _Instance(
                instance_id, Shares(limit.iops), Shares(limit.bytes_per_s)
            )

    def remove_instance(self, instance_id: str) -> None:
        """Stop governing an instance; its volumes must have been removed."""
        with self._lock:
            self._instances.pop(instance_id, None)

    def add_volume(
        self, instance_id: str, volume_id: str, limit: RateLimit, loop: LoopDevice, page: CountersPage
    ) -> None:
        """Begin to govern an attached volume; its limits hold when this returns."""
        stat_file = os.open(loop.sysfs / "stat", os.O_RDONLY | os.O_CLOEXEC)
        line = os.pread(stat_file, 512, 0)
        stat = _Stat.parse(line)
        volume = _Governed(volume_id, loop.device_number, page, stat_file, line, stat, stat)
        page.show(volume.counters)
        with self._lock:
            instance = self._instances.get(instance_id)
            if instance is None:
                os.close(stat_file)
                raise KeyError(f"{instance_id} is not governed")
            instance.iops.add(volume_id, limit.iops)
            instance.bytes_per_s.add(volume_id, limit.bytes_per_s)
            instance.volumes[volume_id] = volume
            self._apply(instance, volume)

    def remove_volume(self, instance_id: str, volume_id: str) -> None:
        """Stop governing a volume and lift its limits. Unknown ones are ignored."""
        with self._lock:
            instance = self._instances.get(instance_id)
            volume = instance.volumes.pop(volume_id, None) if instance else None
            if instance is None or volume is None:
                return
            instance.iops.remove(volume_id)
            instance.bytes_per_s.remove(volume_id)
            os.close(volume.stat_file)
            self._throttle.lift(instance_id, volume.device)

    def set_limit(self, instance_id: str, volume_id: str, limit: RateLimit) -> None:
        """Give an attached volume other limits."""
        with self._lock:
            instance = self._instances[instance_id]
            for shares, value in ((instance.iops, limit.iops), (instance.bytes_per_s, limit.bytes_per_s)):
                shares.remove(volume_id)
                shares.add(volume_id, value)
            self._apply(instance, instance.volumes[volume_id])

    def suspend(self, instance_id: str) -> None:
        """Lift the limits of an instance that is going down, so that it can write its data quickly."""
        with self._lock:
            instance = self._instances.get(instance_id)
            for volume in instance.volumes.values() if instance else ():
                self._throttle.lift(instance_id, volume.device)
                volume.limits = None

    def resume(self, instance_id: str) -> None:
        """Put the limits of an instance back in force."""
        with self._lock:
            instance = self._instances.get(instance_id)
            for volume in instance.volumes.values() if instance else ():
                self._apply(instance, volume)  # type: ignore[arg-type]

    def close(self) -> None:
        """End the thread. Limits stay until volumes are removed."""
        self._end.set()
        self._thread.join()

    # --- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        before = time.monotonic()
        due = before + TICK_S
        while not self._end.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            try:
                with self._lock:
                    self._tick(now - before)
            except Exception as error:
                self._complain(f"the governor missed a tick: {error!r}")
            before = now
            due = max(due + TICK_S, now)
            self.cpu_s = time.thread_time()

    def _complain(self, sentence: str) -> None:
        if sentence not in self._complained:
            self._complained.add(sentence)
            _log.error("%s", sentence)

    def _tick(self, elapsed_s: float) -> None:
        ios = size = 0.0
        for instance in self._instances.values():
            try:
                served_ios, served_bytes = self._tick_instance(instance, elapsed_s)
            except Exception as error:  # the others must still be governed
                self._complain(f"the governor missed a tick of an instance: {error!r}")
                continue
            ios += served_ios
            size += served_bytes
        if self._on_served is not None:
            self._second[0] += elapsed_s
            self._second[1] += ios
            self._second[2] += size
            if self._second[0] >= 1.0:
                seconds, total_ios, total_bytes = self._second
                self._second = [0.0, 0.0, 0.0]
                if total_ios:
                    self._on_served(total_ios / seconds, total_bytes / seconds)

    def _tick_instance(self, instance: _Instance, elapsed_s: float) -> tuple[float, float]:
        ops: dict[str, tuple[float, float]] = {}
        moved: dict[str, tuple[float, float]] = {}
        active = False
        total_ops = total_bytes = 0
        for volume in instance.volumes.values():
            line = os.pread(volume.stat_file, 512, 0)
            if line == volume.line:
                active = active or not volume.quiet
                continue
            active = True
            volume.line = line
            stat, old = _Stat.parse(line), volume.before
            volume.before = stat
            reads, writes = stat.read_ops - old.read_ops, stat.write_ops - old.write_ops
            bytes_read, bytes_written = stat.read_bytes - old.read_bytes, stat.write_bytes - old.write_bytes
            ops[volume.volume_id] = reads / elapsed_s, writes / elapsed_s
            moved[volume.volume_id] = bytes_read / elapsed_s, bytes_written / elapsed_s
            total_ops += reads + writes
            total_bytes += bytes_read + bytes_written
        if not active:
            return 0, 0
        instance.iops.tick(ops, elapsed_s)
        instance.bytes_per_s.tick(moved, elapsed_s)
        for volume in instance.volumes.values():
            resting = instance.iops.volumes[volume.volume_id].idle
            if resting and volume.quiet:
                continue
            volume.quiet = resting
            self._count(instance, volume, elapsed_s)
            if volume.limits is not None:
                self._apply(instance, volume)
        return total_ops, total_bytes

    def _count(self, instance: _Instance, volume: _Governed, elapsed_s: float) -> None:
        counters, stat, start = volume.counters, volume.before, volume.start
        counters.read_ops = stat.read_ops - start.read_ops
        counters.write_ops = stat.write_ops - start.write_ops
        counters.read_bytes = stat.read_bytes - start.read_bytes
        counters.write_bytes = stat.write_bytes - start.write_bytes
        counters.read_time_s = (stat.read_ms - start.read_ms) / 1e3
        counters.write_time_s = (stat.write_ms - start.write_ms) / 1e3
        counters.queue_length = stat.in_flight
        if instance.iops.volumes[volume.volume_id].budget.binding:
            counters.volume_iops_exceeded_s += elapsed_s
        if instance.bytes_per_s.volumes[volume.volume_id].budget.binding:
            counters.volume_throughput_exceeded_s += elapsed_s
        if instance.iops.budget.binding:
            counters.instance_iops_exceeded_s += elapsed_s
        if instance.bytes_per_s.budget.binding:
            counters.instance_throughput_exceeded_s += elapsed_s
        volume.page.show(counters)

    def _apply(self, instance: _Instance, volume: _Governed) -> None:
        ops = instance.iops.volumes[volume.volume_id]
        moved = instance.bytes_per_s.volumes[volume.volume_id]
        new = Limits(ops.reads.granted, ops.writes.granted, moved.reads.granted, moved.writes.granted)
        old = volume.limits
        if old is not None:
            kept = Limits(
                *(
                    before if abs(after - before) <= _WORTH_WRITING * before else after
                    for before, after in zip(_values(old), _values(new), strict=True)
                )
            )
            if kept == old:
                return
            new = kept
        self._throttle.set(instance.instance_id, volume.device, new)
        volume.limits = new


def _values(limits: Limits) -> tuple[float, float, float, float]:
    return limits.read_iops, limits.write_iops, limits.read_bytes, limits.write_bytes
