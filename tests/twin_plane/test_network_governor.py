"""The network's governor with simulated ends that move bytes in real time."""

from __future__ import annotations

import io
import threading
import time

import pytest

from pytest_cloudbench.limits.network_credits import NetworkCredits, ShapedRates
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.twin.network.governor import AllowancePage, NetworkGovernor
from pytest_cloudbench.twin.network.traffic_control import ClassFigures, ShapedEnds

PEAK, BASELINE = Bandwidth.from_gbit(10), Bandwidth.from_gbit(2.5)
RATES = ShapedRates(PEAK, BASELINE)


class End:
    """An end that sends at its rate while ``busy``. One packet waits for every 64 KiB sent at the rate."""

    def __init__(self, rate, demand=float("inf"), waits_at=0):
        self.rate = rate.bytes_per_second
        self.demand = demand
        self.busy = self.moved = False
        self.closed = self.fails = False
        self.refusals = 0
        self.asked = 0
        self.changes = []
        self._sent = 0.0
        self._waits = waits_at
        self._at = time.monotonic()
        self._lock = threading.Lock()

    def _advance(self):
        now = time.monotonic()
        if self.busy:
            self._sent += min(self.rate, self.demand) * (now - self._at)
            if self.demand >= self.rate:
                self._waits += 1
        self._at = now

    def set_busy(self, busy):
        with self._lock:
            self._advance()
            self.busy = busy
            self.moved = True

    def figures(self):
        with self._lock:
            self.asked += 1
            if self.fails:
                raise OSError("no such device")
            self._advance()
            return ClassFigures(bytes=int(self._sent), drops=0, waits=self._waits % 2**32)

    def set_rate(self, rate):
        with self._lock:
            if self.refusals:
                self.refusals -= 1
                raise OSError("not now")
            self._advance()
            self.rate = rate.bytes_per_second
            self.changes.append((time.time(), rate))

    def close(self):
        self.closed = True


class Ports(io.RawIOBase):
    """/proc/net/dev of a switch: a line changes when its end has moved bytes."""

    def __init__(self):
        self.ends = {}
        self._reads = 0
        self.reads_at_rest = 0
        self._last = {}

    def seekable(self):
        return True

    def seek(self, place, whence=0):
        return place

    def read(self, size=-1):
        self._reads += 1
        self.reads_at_rest += not any(end.busy for ends in self.ends.values() for end in ends)
        for port, ends in self.ends.items():
            if any(end.busy or end.moved for end in ends):
                self._last[port] = self._reads
            for end in ends:
                end.moved = False
        lines = [f"  {port}: {self._last.get(port, 0)} 0 0" for port in self.ends]
        return "\n".join(["Inter-|", " face |", *lines, ""]).encode()


class Setting:
    def __init__(self, tmp_path):
        self.ports = Ports()
        self.carried = []
        self.tmp_path = tmp_path
        self.governor = NetworkGovernor(self.ports, time_compression=1.0, on_carried=self.carried.append)

    def add(self, name, *, burst_s=None, demand=float("inf"), waits_at=0):
        capacity = (PEAK - BASELINE).bytes_per_second * burst_s if burst_s else 0
        credits = NetworkCredits(capacity, "test", "2026-11") if burst_s else None
        page = AllowancePage(self.tmp_path / name)
        self.governor.add(name, RATES if burst_s else ShapedRates(PEAK, PEAK), credits, page)
        return self.connect(name, demand=demand, waits_at=waits_at)

    def connect(self, name, *, demand=float("inf"), waits_at=0):
        rate = self.governor.rate(name)
        ends = End(rate, demand, waits_at), End(rate, demand, waits_at)
        self.ports.ends[f"p{name}"] = ends
        self.governor.connect(name, ShapedEnds(f"p{name}".encode(), *ends))
        return ends

    def allowances(self, name):
        data = (self.tmp_path / name).read_bytes()
        return int.from_bytes(data[:8], "little"), int.from_bytes(data[8:16], "little")


@pytest.fixture
def setting(tmp_path):
    setting = Setting(tmp_path)
    try:
        yield setting
    finally:
        setting.governor.close()


def wait_until(condition, what, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.002)


@pytest.mark.parametrize("way", [0, 1])
def test_the_rate_falls_when_the_bucket_is_empty_not_at_the_next_tick(setting, way):
    ends = setting.add("i-1", burst_s=0.75 + 0.037)
    started = time.time()
    ends[way].set_busy(True)
    wait_until(lambda: all(end.changes for end in ends), "both rates fall")
    assert setting.governor.slowed_at("i-1") - started == pytest.approx(0.787, abs=0.05)
    for end in ends:
        assert end.changes[0][1] == BASELINE
        assert end.changes[0][0] - started == pytest.approx(0.787, abs=0.05)
    assert setting.governor.rate("i-1") == BASELINE


def test_the_rate_stays_at_the_baseline_under_load_and_rises_after_a_rest(setting):
    egress, _ = setting.add("i-1", burst_s=0.2)
    egress.set_busy(True)
    wait_until(lambda: egress.changes, "the bucket is empty")
    wait_until(lambda: egress.asked > 40, "some ticks under load")
    assert len(egress.changes) == 1
    egress.set_busy(False)
    wait_until(lambda: len(egress.changes) == 2, "the peak is back")
    assert egress.changes[1][1] == PEAK
    assert setting.governor.slowed_at("i-1") is not None


@pytest.mark.parametrize("way", [0, 1])
def test_a_rate_that_could_not_be_set_is_set_at_the_next_tick(setting, way):
    ends = setting.add("i-1", burst_s=0.2)
    ends[way].refusals = 2
    ends[0].set_busy(True)
    wait_until(lambda: all(end.changes for end in ends), "both rates fall")
    assert [end.rate for end in ends] == [BASELINE.bytes_per_second] * 2


def test_a_load_slowed_by_the_machine_does_not_get_the_peak_again(setting):
    egress, _ = setting.add("i-1", burst_s=0.05)  # of which 2 % come back in 3 ms of rest
    egress.set_busy(True)
    wait_until(lambda: egress.changes, "the bucket is empty")
    for _ in range(4):
        asked = egress.asked  # after a burst of 0.05 s alone, the end still counts as resting
        wait_until(lambda before=asked: egress.asked > before + 3, "ticks under load")
        egress.set_busy(False)
        read = setting.ports.reads_at_rest
        wait_until(lambda before=read: setting.ports.reads_at_rest > before + 1, "ticks without a byte")
        egress.set_busy(True)
    assert len(egress.changes) == 1


def test_a_load_below_the_baseline_costs_no_credits(setting):
    egress, _ = setting.add("i-1", burst_s=0.2, demand=BASELINE.bytes_per_second * 0.9)
    egress.set_busy(True)
    wait_until(lambda: egress.asked > 10, "a second under load, five times as long as the burst")
    assert not egress.changes


def test_the_ends_of_idle_instances_are_not_read(setting):
    ends = [setting.add(f"i-{number}", burst_s=10) for number in range(30)]
    busy, _ = setting.add("i-busy")
    busy.set_busy(True)
    wait_until(lambda: busy.asked > 5, "some ticks")
    asked_when_connected = 1
    first_tick = 1
    assert all(end.asked <= asked_when_connected + first_tick for pair in ends for end in pair)


def test_credits_survive_a_new_cable_and_a_stop_fills_them(setting):
    egress, ingress = setting.add("i-1", burst_s=0.2)
    egress.set_busy(True)
    wait_until(lambda: egress.changes, "the bucket is empty")
    egress.set_busy(False)
    setting.governor.disconnect("i-1")
    assert egress.closed
    assert ingress.closed
    assert setting.governor.rate("i-1") == BASELINE
    again, _ = setting.connect("i-1")
    assert again.rate == BASELINE.bytes_per_second
    setting.governor.disconnect("i-1")
    setting.governor.refill("i-1")
    assert (setting.governor.rate("i-1"), setting.governor.slowed_at("i-1")) == (PEAK, None)
    assert setting.allowances("i-1") == (0, 0)


def test_waiting_packets_are_counted_per_direction_also_when_the_kernels_count_wraps(setting):
    egress, ingress = setting.add("i-1", waits_at=2**32 - 2)
    egress.set_busy(True)
    wait_until(lambda: setting.allowances("i-1")[1] > 4, "waits of egress")
    assert setting.allowances("i-1")[0] == 0
    assert setting.allowances("i-1")[1] < 1000
    egress.set_busy(False)
    ingress.set_busy(True)
    wait_until(lambda: setting.allowances("i-1")[0] > 4, "waits of ingress")


def test_an_end_that_fails_does_not_stop_the_others(setting):
    broken, _ = setting.add("i-broken", burst_s=1)
    egress, _ = setting.add("i-1", burst_s=0.3)
    broken.fails = True
    broken.set_busy(True)
    egress.set_busy(True)
    wait_until(lambda: egress.changes, "the other's bucket is empty")
    assert broken.asked > 1


def test_the_rate_carried_over_a_second_is_reported(setting):
    egress, _ = setting.add("i-1")
    egress.set_busy(True)
    wait_until(lambda: setting.carried, "a second has passed")
    assert setting.carried[0] == pytest.approx(PEAK.bytes_per_second, rel=0.05)


def test_traffic_before_a_rest_does_not_count_in_the_next_second(setting):
    egress, _ = setting.add("i-1")
    egress.set_busy(True)
    wait_until(lambda: egress.asked > 6, "more than half a second under load")
    egress.set_busy(False)
    read = setting.ports.reads_at_rest
    wait_until(lambda: setting.ports.reads_at_rest > read + 2, "ticks at rest")
    setting.carried.clear()
    egress.set_busy(True)
    wait_until(lambda: setting.carried, "a second has passed")
    assert setting.carried[0] == pytest.approx(PEAK.bytes_per_second, rel=0.1)


@pytest.mark.parametrize("way", [0, 1])
def test_ends_that_cannot_be_read_when_connected_are_closed(setting, way):
    setting.add("i-1")
    setting.governor.disconnect("i-1")
    ends = End(PEAK), End(PEAK)
    ends[way].fails = True
    with pytest.raises(OSError, match="no such device"):
        setting.governor.connect("i-1", ShapedEnds(b"pi-1", *ends))
    assert [end.closed for end in ends] == [True, True]
    again, _ = setting.connect("i-1")
    again.set_busy(True)
    wait_until(lambda: again.asked > 3, "it is governed again")


def test_ends_of_an_unknown_instance_are_closed(setting):
    ends = End(PEAK), End(PEAK)
    with pytest.raises(KeyError):
        setting.governor.connect("i-9", ShapedEnds(b"pi-9", *ends))
    assert [end.closed for end in ends] == [True, True]


def test_unknown_instances_are_ignored(setting):
    assert setting.governor.slowed_at("i-9") is None
    assert setting.governor.rate("i-9") is None
    setting.governor.remove("i-9")
    setting.governor.disconnect("i-9")
    setting.governor.refill("i-9")
