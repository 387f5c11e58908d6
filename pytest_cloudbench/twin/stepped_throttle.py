"""Limits lowered in steps, for the kernels that otherwise let everything through when a limit is lowered.

The kernel's throttle lets through what a limit allows in a slice of 0.1 s at the slice's start. When a limit changes
while requests wait, it begins a new slice and carries over what was let through too early. Linux 6.1 to 6.5 compare
that, where it is more than the new limit allows in a slice, as a huge unsigned number: everything passes, and what
passed is withheld afterwards (mended in 6.6: "fix wrong comparation while 'carryover_ios/bytes' is negative").

A limit may therefore sink only so far as the running slice has been earned: ``old * (1 - age of the slice / 0.1 s)``
must stay below the new limit. When a slice began is known for the 0.1 s after a limit was written, and only then;
a write at any other time must raise every limit a little, for what the kernel rounds off.
"""

from __future__ import annotations

import logging
import math
import operator
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pytest_cloudbench.twin.linux import kernel_version, run_before_ordinary_threads
from pytest_cloudbench.twin.throttle import Limits, Throttle

SLICE_S = 0.1
_TICKS_S = (
    0.012  # three ticks of a kernel that counts 250 a second: by so much a slice may be younger than thought
)
_OLDEST_S = SLICE_S - 0.009  # and by so much older: the next one may have begun
_LAST_STEP_S = 0.075  # leaves some time to be late in
_LARGEST_STEP = 0.5  # of the limit; leaves a third of the slice to write in
_ROUNDING_PER_S = 2 / SLICE_S  # two I/Os, or bytes, a slice
_LEAST_IOPS = 32.0  # below, rounding is all there is, and nothing could be lowered safely
_log = logging.getLogger(__name__)

Key = tuple[str, str]  # instance, device


def holding_lowered_limits(throttle: Throttle) -> Throttle:
    """The throttle, or one that lowers its limits in steps where this machine's kernel needs that."""
    return SteppedThrottle(throttle) if (6, 1) <= kernel_version() < (6, 6) else throttle


def lowest_at(now: Limits, age_s: float) -> Limits:
    """What may be written ``age_s`` after the limits that hold now were written, or at any time when that is 0."""
    left = 1.0 - max(0.0, age_s - _TICKS_S) / SLICE_S
    # Where there is no limit, nothing is let through too early.
    return Limits(*(each * left + _ROUNDING_PER_S if math.isfinite(each) else 0.0 for each in now.values))


def next_step(now: Limits, wanted: Limits) -> Limits:
    """The limits to write next on the way from what holds now to lower ones."""
    reachable = lowest_at(now, _LAST_STEP_S)
    return Limits(
        *(
            max(want, _LARGEST_STEP * each, lowest) if want < each < math.inf else want
            for want, each, lowest in zip(wanted.values, now.values, reachable.values, strict=True)
        )
    )


def due_after_s(now: Limits, lower: Limits) -> float:
    """How long after the limits that hold now were written these may be."""
    worst = max(
        (
            (each + _ROUNDING_PER_S - value) / each
            for each, value in zip(now.values, lower.values, strict=True)
            if math.isfinite(each)
        ),
        default=0.0,
    )
    return _TICKS_S + SLICE_S * worst if worst > 0 else 0.0


def _at_least(limits: Limits, lowest: Limits) -> Limits:
    return Limits(*map(max, limits.values, lowest.values))


_LEAST = Limits(_LEAST_IOPS, _LEAST_IOPS, _LEAST_IOPS, _LEAST_IOPS)


@dataclass
class _Device:
    holds: Limits
    wanted: Limits
    written_at: float

    @property
    def settled(self) -> bool:
        return self.holds == self.wanted


class Steps:
    """What holds on every device, what is wanted, and when the next step is due. Not for several threads."""

    def __init__(self, write: Callable[[Key, Limits], None], clock: Callable[[], float]) -> None:
        self._write = write
        self._clock = clock
        self._devices: dict[Key, _Device] = {}

    def want(self, key: Key, limits: Limits) -> None:
        """Hold these limits on a device; one that rises does so at once."""
        limits = _at_least(limits, _LEAST)
        device = self._devices.get(key)
        if device is None:
            self._write(key, limits)
            self._devices[key] = _Device(limits, limits, self._clock())
        else:
            device.wanted = limits
            self._go_on(key, device)

    def forget(self, belongs: Callable[[Key], bool]) -> None:
        """Leave the devices alone for which ``belongs`` is true."""
        self._devices = {key: device for key, device in self._devices.items() if not belongs(key)}

    def due_at(self) -> float:
        """When `go_on` has something to do; infinity when everything holds."""
        return min((self._due_at(device) for device in self._devices.values()), default=math.inf)

    def go_on(self) -> None:
        """Take the steps that are due."""
        for key, device in list(self._devices.items()):
            if self._due_at(device) > self._clock():
                continue
            try:
                self._go_on(key, device)
            except OSError as error:
                _log.error("the limit of device %s could not be lowered: %s", key[1], error)
                del self._devices[key]

    @staticmethod
    def _due_at(device: _Device) -> float:
        if device.settled:
            return math.inf
        return device.written_at + due_after_s(device.holds, next_step(device.holds, device.wanted))

    def _go_on(self, key: Key, device: _Device) -> None:
        if device.settled:
            return
        now = self._clock()
        age = now - device.written_at
        known = age < _OLDEST_S
        if known and self._due_at(device) <= now:
            self._put(key, device, next_step(device.holds, device.wanted))
        elif not known or any(map(operator.gt, device.wanted.values, device.holds.values)):
            lowest = lowest_at(device.holds, age if known else 0.0)
            self._put(key, device, _at_least(device.wanted, lowest))

    def _put(self, key: Key, device: _Device, limits: Limits) -> None:
        device.written_at = self._clock()
        self._write(key, limits)
        device.holds = limits


class SteppedThrottle:
    """A throttle that lowers the limits of another in steps, by a thread of its own."""

    def __init__(self, throttle: Throttle) -> None:
        self.version = throttle.version
        self._throttle = throttle
        self._steps = Steps(lambda key, limits: throttle.set(*key, limits), time.monotonic)
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="cloudbench-limits", daemon=True)
        self._thread.start()

    def open_group(self, instance_id: str) -> list[str]:
        """Make an instance's group; the files that a process enters it by."""
        return self._throttle.open_group(instance_id)

    def close_group(self, instance_id: str) -> None:
        """Remove an instance's group once nothing runs in it."""
        with self._changed:
            self._steps.forget(lambda key: key[0] == instance_id)
        self._throttle.close_group(instance_id)

    def set(self, instance_id: str, device: str, limits: Limits) -> None:
        """Limit device "MAJOR:MINOR" for the instance, lower limits within about 0.1 s for each halving."""
        with self._changed:
            self._steps.want((instance_id, device), limits)
            self._changed.notify()

    def lift(self, instance_id: str, device: str) -> None:
        """Let the device run free."""
        with self._changed:
            self._steps.forget(lambda key: key == (instance_id, device))
            self._throttle.lift(instance_id, device)

    def close(self) -> None:
        """Remove every group and limit."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()
        self._throttle.close()

    def _run(self) -> None:
        run_before_ordinary_threads()
        with self._changed:
            while not self._ended:
                left = self._steps.due_at() - time.monotonic()
                if left > 0:
                    self._changed.wait(None if math.isinf(left) else left)
                else:
                    self._steps.go_on()
