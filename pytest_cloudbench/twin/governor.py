"""The governor: reads what every attached volume serves and moves the kernel's limits, ten times a second.

One thread. A tick looks at the counters of every attached volume; one whose line has not changed costs a read and
nothing else. What was served is charged to the accounts of the volume and the instance, which say what they may do
next; the law by which that is shared is in control.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from pytest_cloudbench.twin.counters import CountersPage
from pytest_cloudbench.twin.disk_counts import DiskCounts
from pytest_cloudbench.twin.governed_instance import GovernedInstance, GovernedVolume
from pytest_cloudbench.twin.io_units import IoUnits
from pytest_cloudbench.twin.linux import run_before_ordinary_threads
from pytest_cloudbench.twin.loop_devices import LoopDevice
from pytest_cloudbench.twin.storage_accounts import (
    InstanceAccount,
    InstanceActivity,
    VolumeAccount,
    VolumeActivity,
    together,
)
from pytest_cloudbench.twin.throttle import Throttle

TICK_S = 0.1
_log = logging.getLogger(__name__)


class Governor:
    """Holds the limits of all volumes and instances of a region. Methods may be called from any thread.

    ``io_units`` counts I/Os as EBS does; without it every request counts as one. ``on_served`` is told the
    requests and bytes per second that all volumes were served.
    """

    def __init__(
        self,
        throttle: Throttle,
        on_served: Callable[[float, float], None] | None = None,
        io_units: IoUnits | None = None,
    ) -> None:
        self._throttle = throttle
        self._on_served = on_served
        self._io_units = io_units
        self._instances: dict[str, GovernedInstance] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._second = [0.0, 0.0, 0.0]  # seconds, requests and bytes since the last figure given to on_served
        self._complained: set[str] = set()
        self.cpu_s = 0.0
        self._thread = threading.Thread(target=self._run, name="cloudbench-governor", daemon=True)
        self._thread.start()

    def add_instance(self, instance_id: str, account: InstanceAccount) -> None:
        """Begin to govern an instance."""
        with self._lock:
            self._instances[instance_id] = GovernedInstance(instance_id, account, self._throttle)

    def remove_instance(self, instance_id: str) -> None:
        """Stop governing an instance; its volumes must have been removed."""
        with self._lock:
            self._instances.pop(instance_id, None)

    def add_volume(
        self, instance_id: str, volume_id: str, account: VolumeAccount, loop: LoopDevice, page: CountersPage
    ) -> None:
        """Begin to govern an attached volume; its limits hold when this returns."""
        counts = DiskCounts(loop, self._counter_for(account, loop))
        volume = GovernedVolume(volume_id, account, loop, page, counts)
        page.show(volume.counters)
        with self._lock:
            instance = self._instances.get(instance_id)
            if instance is None:
                counts.close()
                raise KeyError(f"{instance_id} is not governed")
            account.rest_until(time.monotonic())
            instance.add(volume)

    def remove_volume(self, instance_id: str, volume_id: str) -> None:
        """Stop governing a volume and lift its limits. Unknown ones are ignored."""
        with self._lock:
            instance = self._instances.get(instance_id)
            volume = instance.volumes.get(volume_id) if instance else None
            if instance is None or volume is None:
                return
            instance.remove(volume)
            volume.account.done = together(volume.account.done, volume.counters)
            volume.counts.close()
            if self._io_units is not None:
                self._io_units.forget(volume.loop)

    def limits_changed(self, instance_id: str, volume_id: str, change: Callable[[], None]) -> None:
        """Run ``change`` on an attached volume's account, and go by what it then says at once."""
        with self._lock:
            instance = self._instances[instance_id]
            volume = instance.volumes[volume_id]
            change()
            volume.counts.count_by(self._counter_for(volume.account, volume.loop))
            instance.renew(volume)

    def _counter_for(self, account: VolumeAccount, loop: LoopDevice) -> IoUnits | None:
        counter = self._io_units
        if counter is not None and counter.watch(loop, account.unit_bytes, merging=account.spec.merging):
            return counter
        return None

    def suspend(self, instance_id: str) -> None:
        """Lift the limits of an instance that is going down, so that it can write its data quickly."""
        with self._lock:
            instance = self._instances.get(instance_id)
            if instance is not None:
                instance.suspend()

    def resume(self, instance_id: str) -> None:
        """Put the limits of an instance back in force."""
        with self._lock:
            instance = self._instances.get(instance_id)
            if instance is not None:
                instance.resume()

    def activity(self) -> tuple[list[VolumeActivity], list[InstanceActivity]]:
        """What every attached volume has done, and the balances of credits."""
        now = time.monotonic()
        with self._lock:
            volumes = [
                VolumeActivity(
                    volume.volume_id,
                    instance.instance_id,
                    together(volume.account.done, volume.counters),
                    volume.account.burst_balance(now),
                )
                for instance in self._instances.values()
                for volume in instance.volumes.values()
            ]
            instances = [
                InstanceActivity(
                    each.instance_id, each.account.iops.percent(now), each.account.bytes_per_s.percent(now)
                )
                for each in self._instances.values()
            ]
        return volumes, instances

    def close(self) -> None:
        """End the thread. Limits stay until volumes are removed."""
        self._end.set()
        self._thread.join()

    # --- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        run_before_ordinary_threads()
        before = time.monotonic()
        due = before + TICK_S
        while not self._end.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            try:
                with self._lock:
                    self._tick(now - before, now)
            except Exception as error:
                self._complain(f"the governor missed a tick: {error!r}")
            before = now
            due = max(due + TICK_S, now)
            self.cpu_s = time.thread_time()

    def _complain(self, sentence: str) -> None:
        if sentence not in self._complained:
            self._complained.add(sentence)
            _log.error("%s", sentence)

    def _tick(self, elapsed_s: float, now: float) -> None:
        ios = size = 0.0
        for instance in self._instances.values():
            try:
                served_ios, served_bytes = instance.tick(elapsed_s, now)
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
