"""The network's governor: counts each instance's traffic, accounts for its credits and changes its rate.

It is one thread. Ten times a second it reads the counters of all ports of the switch at once. If a port's line has
changed, it reads from the two shaped ends how much they sent and how often a packet had to wait. It wakes up earlier
if a bucket will be empty before the next tick. The law is in credits_law.py.
"""

from __future__ import annotations

import contextlib
import logging
import math
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pytest_cloudbench.limits.network_credits import NetworkCredits, ShapedRates
from pytest_cloudbench.limits.quantities import Bandwidth
from pytest_cloudbench.twin.linux import run_before_ordinary_threads
from pytest_cloudbench.twin.network.credits_law import Bucket
from pytest_cloudbench.twin.network.traffic_control import ClassFigures, ShapedEnds

TICK_S = 0.1
_LEAST_RATE_S = 0.02  # a rate over less time does not predict the next moment
_EMPTY_WITHIN_S = 0.001  # a bucket empty this soon counts as empty: the thread does not wake more exactly
_WINDOW_S = 1.0  # averaging window for the machine's rate
_WRAP = 2**32
PAGE_BYTES = 4096
_BANDWIDTH = struct.Struct("=2Q")
_log = logging.getLogger(__name__)


class AllowancePage:
    """The allowance counters of one instance in a file that it can read, all zero at first.

    They count packets that were queued or dropped because an allowance was exceeded, as ENA does: bandwidth in,
    bandwidth out, packets per second, connections, link-local packets; 8 bytes each in the machine's byte order. A
    packet is one unit of the kernel, up to 64 KiB. The region limits only bandwidth; the other counters stay zero. The
    file is mapped into memory, so the instance sees an update at once.
    """

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            os.fchmod(descriptor, 0o644)  # whatever the umask: every user of the instance may read it
            os.ftruncate(descriptor, PAGE_BYTES)
            self._memory = mmap.mmap(descriptor, PAGE_BYTES)
        finally:
            os.close(descriptor)

    def show(self, bw_in: int, bw_out: int) -> None:
        _BANDWIDTH.pack_into(self._memory, 0, bw_in, bw_out)

    def close(self) -> None:
        self._memory.close()


@dataclass
class _Governed:
    """One instance. ``ends`` are None while it has no cable."""

    rates: ShapedRates
    bucket: Bucket | None
    page: AllowancePage
    waited_in: int = 0
    waited_out: int = 0
    ends: ShapedEnds | None = None
    shaped_to: Bandwidth | None = None
    line: bytes = b""
    sent: ClassFigures = field(default_factory=ClassFigures)
    received: ClassFigures = field(default_factory=ClassFigures)
    accounted_at: float = 0.0
    pace_at: float = 0.0
    pace_moved: int = 0
    moved_per_s: float = 0.0
    empty_at: float = math.inf
    slowed_at: float | None = None
    window_at: float = 0.0
    window_bytes: int = 0

    @property
    def rate(self) -> Bandwidth:
        bursting = self.bucket is None or self.bucket.bursting
        return self.rates.peak if bursting else self.rates.baseline


class NetworkGovernor:
    """Keeps the network credits of a region's instances. Methods may be called from any thread.

    ``counters`` is the /proc/.../net/dev of the switch. ``on_carried`` is called about once a second with the bytes
    per second on the wire that an instance sent.
    """

    def __init__(
        self,
        counters: BinaryIO,
        *,
        time_compression: float = 1.0,
        on_carried: Callable[[float], None] | None = None,
    ) -> None:
        self._counters = counters
        self._compression = time_compression
        self._on_carried = on_carried
        self._instances: dict[str, _Governed] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._logged: set[str] = set()
        self.cpu_s = 0.0
        self._thread = threading.Thread(target=self._run, name="cloudbench-network", daemon=True)
        self._thread.start()

    def add(
        self, instance_id: str, rates: ShapedRates, credits: NetworkCredits | None, page: AllowancePage
    ) -> None:
        """Keep an instance's credits from now on, with a full bucket. `remove` closes the page."""
        bucket = None
        if credits is not None and rates.bursts:
            bucket = Bucket(
                capacity=credits.capacity_bytes,
                peak=rates.peak.bytes_per_second,
                baseline=rates.baseline.bytes_per_second,
                compression=self._compression,
            )
        with self._lock:
            self._instances[instance_id] = _Governed(rates, bucket, page)

    def remove(self, instance_id: str) -> None:
        """Forget an instance. Unknown ones are ignored."""
        self.disconnect(instance_id)
        with self._lock:
            governed = self._instances.pop(instance_id, None)
        if governed is not None:
            governed.page.close()

    def rate(self, instance_id: str) -> Bandwidth | None:
        """Return the instance's present rate in each direction; None if its network is not shaped."""
        with self._lock:
            governed = self._instances.get(instance_id)
            return governed.rate if governed is not None else None

    def connect(self, instance_id: str, ends: ShapedEnds) -> None:
        """Govern a cable that was just shaped to `rate`. `disconnect` closes the ends.

        Raises `OSError` or ValueError if their figures cannot be read; then it closes them.
        """
        with contextlib.ExitStack() as undo, self._lock:
            undo.callback(ends.close)
            governed = self._instances[instance_id]
            governed.sent, governed.received = ends.egress.figures(), ends.ingress.figures()
            governed.ends, governed.shaped_to = ends, governed.rate
            governed.line = b""
            governed.accounted_at = governed.pace_at = governed.window_at = time.monotonic()
            governed.window_bytes = governed.sent.bytes
            undo.pop_all()

    def disconnect(self, instance_id: str) -> None:
        """Stop governing an instance's cable and keep its credits. A second call does nothing."""
        with self._lock:
            governed = self._instances.get(instance_id)
            if governed is None or governed.ends is None:
                return
            ends, governed.ends = governed.ends, None
            governed.empty_at = math.inf
        ends.close()

    def refill(self, instance_id: str) -> None:
        """Fill the bucket of an instance that was stopped, and reset its counters."""
        with self._lock:
            governed = self._instances.get(instance_id)
            if governed is None:
                return
            if governed.bucket is not None:
                governed.bucket.refill()
            governed.slowed_at = None
            governed.waited_in = governed.waited_out = 0
            governed.page.show(0, 0)

    def slowed_at(self, instance_id: str) -> float | None:
        """Return when a burst last ended, in seconds since the epoch; None if none has since the last `refill`."""
        with self._lock:
            governed = self._instances.get(instance_id)
            return governed.slowed_at if governed is not None else None

    def close(self) -> None:
        """End the thread and remove all instances. Cables keep their present rate."""
        self._end.set()
        self._thread.join()
        for instance_id in list(self._instances):
            self.remove(instance_id)
        self._counters.close()

    # --- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        run_before_ordinary_threads()
        due = time.monotonic() + TICK_S
        while True:
            with self._lock:
                soonest = min((governed.empty_at for governed in self._instances.values()), default=math.inf)
            if self._end.wait(max(0.0, min(due, soonest) - time.monotonic())):
                return
            now = time.monotonic()
            try:
                with self._lock:
                    if now >= due:
                        self._tick(now)
                    else:
                        self._account_due(now)
            except Exception as error:
                self._log_once(f"the network's governor missed a tick: {error!r}")
            if now >= due:
                due = max(due + TICK_S, now)
            self.cpu_s = time.thread_time()

    def _log_once(self, sentence: str) -> None:
        if sentence not in self._logged:
            self._logged.add(sentence)
            _log.error("%s", sentence)

    def _tick(self, now: float) -> None:
        self._counters.seek(0)
        lines = {}
        for line in self._counters.read().splitlines()[2:]:
            port, _, counts = line.partition(b":")
            lines[port.strip()] = counts
        for instance_id, governed in self._instances.items():
            if governed.ends is None:
                continue
            line = lines.get(governed.ends.port, b"")
            quiet = line == governed.line
            if quiet and (governed.bucket is None or governed.bucket.full):
                governed.accounted_at = governed.window_at = now
                # Otherwise the next second would include the end of an earlier load.
                governed.window_bytes = governed.sent.bytes
                continue
            governed.line = line
            self._account_safely(instance_id, governed, governed.ends, now, quiet=quiet)

    def _account_due(self, now: float) -> None:
        for instance_id, governed in self._instances.items():
            if governed.ends is not None and governed.empty_at <= now:
                self._account_safely(instance_id, governed, governed.ends, now)

    def _account_safely(
        self, instance_id: str, governed: _Governed, ends: ShapedEnds, now: float, *, quiet: bool = False
    ) -> None:
        try:
            self._account(governed, ends, now, quiet=quiet)
        except Exception as error:  # the others must still be governed
            governed.empty_at = math.inf
            self._log_once(f"the network's governor missed a tick of {instance_id}: {error!r}")

    def _account(self, governed: _Governed, ends: ShapedEnds, now: float, *, quiet: bool = False) -> None:
        """Update an instance's credits to ``now``. ``quiet``: its counters have not changed."""
        elapsed_s, governed.accounted_at = now - governed.accounted_at, now
        moved, waited = (0, False) if quiet else self._read(governed, ends)
        governed.pace_moved += moved
        if now - governed.pace_at >= _LEAST_RATE_S:
            governed.moved_per_s = governed.pace_moved / (now - governed.pace_at)
            governed.pace_at, governed.pace_moved = now, 0
        self._report_carried(governed, now)
        bucket = governed.bucket
        if bucket is None:
            return
        bucket.account(moved, elapsed_s, waited=waited)
        if bucket.empty_in_s(governed.moved_per_s) < _EMPTY_WITHIN_S:
            bucket.empty()
        governed.empty_at = now + bucket.empty_in_s(governed.moved_per_s)
        if governed.shaped_to != governed.rate:
            ends.egress.set_rate(governed.rate)
            ends.ingress.set_rate(governed.rate)
            governed.shaped_to = governed.rate
            if not bucket.bursting:
                governed.slowed_at = time.time()

    @staticmethod
    def _read(governed: _Governed, ends: ShapedEnds) -> tuple[int, bool]:
        """Read both ends: return the bytes moved in the busier direction, and whether a packet had to wait."""
        sent, received = ends.egress.figures(), ends.ingress.figures()
        moved = max(sent.bytes - governed.sent.bytes, received.bytes - governed.received.bytes)
        waited_out = (sent.waits - governed.sent.waits) % _WRAP
        waited_in = (received.waits - governed.received.waits) % _WRAP
        lost_in = (received.drops - governed.received.drops) % _WRAP
        waited = bool(waited_out or waited_in or lost_in)
        if waited:
            governed.waited_out += waited_out
            governed.waited_in += waited_in + lost_in
            governed.page.show(governed.waited_in, governed.waited_out)
        governed.sent, governed.received = sent, received
        return moved, waited

    def _report_carried(self, governed: _Governed, now: float) -> None:
        elapsed_s = now - governed.window_at
        if elapsed_s < _WINDOW_S:
            return
        carried = (governed.sent.bytes - governed.window_bytes) / elapsed_s
        governed.window_at, governed.window_bytes = now, governed.sent.bytes
        if self._on_carried is not None and carried > 0:
            self._on_carried(carried)
