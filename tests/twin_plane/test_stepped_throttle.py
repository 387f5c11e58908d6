"""Lowering limits in steps, against the arithmetic of the kernels that need it."""

from __future__ import annotations

import itertools
import math
import threading
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cloudbench.twin.stepped_throttle import (
    SLICE_S,
    SteppedThrottle,
    Steps,
    due_after_s,
    holding_lowered_limits,
    lowest_at,
    next_step,
)
from pytest_cloudbench.twin.throttle import Limits

HZ = 250
SLICE = round(SLICE_S * HZ)
DEVICE_IOPS = 60_000
KEY = ("i-1", "7:3")
NONE = Limits(math.inf, math.inf, math.inf, math.inf)


def reads(iops):
    return replace(NONE, read_iops=iops)


@dataclass
class KernelBefore66:
    """Reads of one group under Linux 6.1's throttle with requests always waiting, in ticks of 1/250 s.

    After tg_update_carryover, tg_within_iops_limit and throtl_trim_slice of block/blk-throttle.c.
    """

    limit: int = 3000
    now: int = 0
    slice_start: int = 0
    dispatched: int = 0
    carried: int = 0
    served: int = 0
    opened: bool = False

    def allowed(self, ticks):
        return self.limit * ticks // HZ

    def write(self, limit):
        self.carried += self.allowed(self.now - self.slice_start) - self.dispatched
        self.limit, self.slice_start, self.dispatched = limit, self.now, 0
        self.dispatch()

    def dispatch(self):
        rounded = ((self.now - self.slice_start) // SLICE + 1) * SLICE
        allowed = self.allowed(rounded) + self.carried
        if allowed < 0:
            self.opened = True
            allowed += 2**32
        passing = min(max(0, allowed - self.dispatched), DEVICE_IOPS // HZ)
        self.dispatched += passing
        self.served += passing
        if passing:
            self.trim()

    def trim(self):
        whole = (self.now - self.slice_start) // SLICE * SLICE
        trimmed = self.allowed(whole) + self.carried
        if whole and trimmed > 0:
            self.carried = 0
            self.dispatched = max(0, self.dispatched - trimmed)
            self.slice_start += whole

    def tick(self):
        self.now += 1
        self.dispatch()


class Machine:
    """A kernel, a clock that reads between its ticks, and the steps; a write reaches the kernel a moment later."""

    def __init__(self, wakes_late_s=0.0, writes_late_s=0.0, phase_s=0.0):
        self.kernel = KernelBefore66()
        self.time = phase_s
        self.wakes_late_s = wakes_late_s
        self.writes_late_s = writes_late_s
        self.steps = Steps(self.write, lambda: self.time)
        self.steps.want(KEY, reads(3000))
        self.asked = 0.0

    def write(self, key, limits):
        assert key == KEY
        self.pass_until(self.time + self.writes_late_s)
        self.kernel.write(round(limits.read_iops))

    def pass_until(self, time):
        while (self.kernel.now + 1) / HZ <= time:
            self.kernel.tick()
        self.time = max(self.time, time)

    def run_for(self, seconds):
        end = self.time + seconds
        while True:
            due = max(self.steps.due_at(), self.time) + self.wakes_late_s
            if due > end:
                break
            self.pass_until(due)
            self.steps.go_on()
        self.pass_until(end)


def test_such_a_kernel_lets_everything_through_when_a_limit_is_lowered_at_once():
    kernel = KernelBefore66()
    for _ in range(HZ):
        kernel.tick()
    before = kernel.served
    assert 3000 < before <= 3300  # up to a slice ahead
    kernel.write(300)
    for _ in range(SLICE - 1):
        kernel.tick()
    assert kernel.opened
    assert kernel.served - before > 5000  # the device's own rate


def test_in_steps_it_holds():
    machine = Machine()
    machine.run_for(1.0)
    machine.steps.want(KEY, reads(300))
    before = machine.kernel.served
    machine.run_for(0.4)
    assert machine.kernel.limit == 300
    assert not machine.kernel.opened
    assert machine.kernel.served - before < 900
    before = machine.kernel.served
    machine.run_for(5.0)
    assert machine.kernel.served - before == pytest.approx(1500, abs=60)


@given(
    changes=st.lists(st.tuples(st.integers(32, 40_000), st.floats(0.0, 0.35)), min_size=1, max_size=25),
    wakes_late_s=st.sampled_from([0.0, 0.001, 0.007, 0.014]),
    writes_late_s=st.sampled_from([0.0, 0.0005, 0.003]),
    phase_s=st.floats(0, 0.0039),
)
def test_whatever_is_wanted_and_whenever_the_device_is_never_opened(
    changes, wakes_late_s, writes_late_s, phase_s
):
    machine = Machine(wakes_late_s, writes_late_s, phase_s)
    highest, start = 3000, machine.kernel.served
    for limit, seconds in changes:
        highest = max(highest, limit)
        machine.steps.want(KEY, reads(limit))
        machine.run_for(seconds)
        assert not machine.kernel.opened
        assert machine.kernel.limit >= limit
    machine.run_for(1.5)
    assert machine.kernel.limit == changes[-1][0]
    assert machine.steps.due_at() == math.inf
    assert machine.kernel.served - start <= highest * (machine.time + SLICE_S) + 1


@given(st.integers(100, 40_000), st.integers(100, 40_000))
def test_a_limit_rises_at_once(first, second):
    machine = Machine()
    low, high = sorted((first, second))
    machine.steps.want(KEY, reads(low))
    machine.run_for(1.5)
    machine.steps.want(KEY, reads(high))
    assert high <= machine.kernel.limit <= high + 20


def test_one_limit_rises_at_once_while_another_sinks():
    written = []
    time = [5.0]
    steps = Steps(lambda key, limits: written.append(limits), lambda: time[0])
    steps.want(KEY, Limits(3000, 3000, 1e6, 1e6))
    time[0] = 7.0
    steps.want(KEY, Limits(300, 6000, 1e6, 1e6))
    assert written[-1] == Limits(3020, 6000, 1e6 + 20, 1e6 + 20)
    while math.isfinite(steps.due_at()):
        assert steps.due_at() > time[0]
        time[0] = steps.due_at()
        steps.go_on()
    assert [each.read_iops for each in written[1:]] == [3020, 1510, 755, 377.5, 300]
    assert written[-1] == Limits(300, 6000, 1e6, 1e6)
    assert 7.2 < time[0] < 7.3


def test_a_small_change_does_not_wait_for_long_and_one_from_no_limit_not_at_all():
    assert due_after_s(reads(3000), reads(2900)) < 0.02
    assert due_after_s(reads(3000), reads(1500)) == pytest.approx(0.0627, abs=1e-4)
    assert due_after_s(NONE, reads(10)) == 0
    assert next_step(NONE, reads(10)) == reads(10)
    assert next_step(reads(3000), NONE) == NONE


@given(st.floats(33, 1e6), st.floats(32, 1e6))
def test_every_step_is_one_that_may_be_written_before_its_slice_ends(now, wanted):
    step = next_step(reads(now), reads(wanted))
    due = due_after_s(reads(now), step)
    assert due <= 0.0751
    assert step.read_iops >= lowest_at(reads(now), due).read_iops - 1e-6
    assert step.read_iops == wanted if wanted >= now else wanted <= step.read_iops < now


def test_what_is_written_late_in_a_slice_is_written_in_the_next():
    machine = Machine()
    machine.run_for(1.0)
    machine.steps.want(KEY, reads(1500))
    machine.time += 0.093
    machine.pass_until(machine.time)
    machine.steps.go_on()
    assert machine.kernel.limit == 3040
    machine.run_for(0.07)
    assert machine.kernel.limit == 1520
    assert not machine.kernel.opened


@pytest.mark.parametrize(
    ("release", "loses"),
    [
        ("6.1.0-56-cloud-amd64", True), ("6.5.13", True), ("6.0.19", False), ("6.6.0-rc1", False), ("6.18.5", False),
        ("6.8.0-31-generic", False), ("5.15.0-100-generic", False), ("7.0.1+", False),
    ],
)  # fmt: skip
def test_kernels_that_need_it(release, loses, monkeypatch):
    monkeypatch.setattr("platform.release", lambda: release)
    inner = Recorder()
    found = holding_lowered_limits(inner)
    assert isinstance(found, SteppedThrottle) is loses
    found.close()


class Recorder:
    """A throttle that notes what is asked of it."""

    version = 2

    def __init__(self):
        self.calls = []
        self.reached = threading.Event()
        self.error = None

    def open_group(self, instance_id):
        return [instance_id]

    def close_group(self, instance_id):
        self.calls.append(("close_group", instance_id))

    def set(self, instance_id, device, limits):
        self.calls.append((instance_id, device, limits))
        if limits.read_iops == 300:
            self.reached.set()
        if self.error is not None and limits.read_iops < 3000:
            self.reached.set()
            raise self.error

    def lift(self, instance_id, device):
        self.calls.append(("lift", instance_id, device))

    def close(self):
        self.calls.append(("close",))


def test_its_thread_goes_down_step_by_step():
    inner = Recorder()
    stepped = SteppedThrottle(inner)
    assert stepped.version == 2
    assert stepped.open_group("i-1") == ["i-1"]
    stepped.set("i-1", "7:3", reads(3000))
    stepped.set("i-1", "7:3", reads(300))
    assert inner.reached.wait(10)
    stepped.close()
    values = [call[2].read_iops for call in inner.calls if len(call) == 3]
    assert values[-1] == 300
    assert all(after >= before / 2 for before, after in itertools.pairwise(values))
    assert inner.calls[-1] == ("close",)


@pytest.mark.parametrize("end", ["lift", "close_group"])
def test_a_device_that_goes_is_not_written_again(end):
    inner = Recorder()
    stepped = SteppedThrottle(inner)
    stepped.set("i-1", "7:3", reads(3000))
    stepped.set("i-1", "7:3", reads(300))
    stepped.lift("i-1", "7:3") if end == "lift" else stepped.close_group("i-1")
    stepped.set("i-2", "7:4", reads(3000))
    stepped.set("i-2", "7:4", reads(300))
    assert inner.reached.wait(10)
    stepped.close()
    gone = next(index for index, call in enumerate(inner.calls) if call[0] == end)
    assert all(call[0] == "i-2" for call in inner.calls[gone + 1 : -1])


def test_a_device_that_cannot_be_written_is_left_alone_and_the_others_go_on(caplog):
    inner = Recorder()
    stepped = SteppedThrottle(inner)
    stepped.set("i-1", "7:3", reads(3000))
    inner.error = OSError(19, "No such device")
    stepped.set("i-1", "7:3", reads(2000))
    assert inner.reached.wait(10)
    inner.error = None
    inner.reached.clear()
    stepped.set("i-2", "7:4", reads(3000))
    stepped.set("i-2", "7:4", reads(300))
    assert inner.reached.wait(10)
    stepped.close()
    assert "the limit of device 7:3 could not be lowered" in caplog.text
