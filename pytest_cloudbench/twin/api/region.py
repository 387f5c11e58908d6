"""The region: moto's state, the plane that makes it real, and the rule by which both are touched.

One plain lock guards moto's state. Every request holds it; work on hosts and disks, which takes time, is done
beside it, either within `Region.aside` or in an instance's queue.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_cloudbench.limits.time_factor import factor_words

from .client_tokens import ClientTokens
from .operation_queues import OperationQueues
from .storage_metrics import StorageMetrics

if TYPE_CHECKING:
    from pytest_cloudbench.limits.ceilings import MachineLimits
    from pytest_cloudbench.limits.quantities import Throughput
    from pytest_cloudbench.twin.plane import Plane

    from .backend import RegionBackend

log = logging.getLogger(__name__)

T = TypeVar("T")

MACHINE_IOPS_TAG = "aws:cloudbench:machine-iops"
MACHINE_THROUGHPUT_TAG = "aws:cloudbench:machine-bytes-per-second"
MACHINE_ROOM_TAG = "aws:cloudbench:machine-free-bytes"
MACHINE_NETWORK_TAG = "aws:cloudbench:machine-network-bytes-per-second"
TIME_COMPRESSION_TAG = "aws:cloudbench:time-compression"
LATENCY_TAG = "aws:cloudbench:latency"
INSTANCE_STORE_TAG = "aws:cloudbench:instance-store"
BACKING_TAG = "aws:cloudbench:backing"


class Region:
    """What every action of the API works on."""

    def __init__(self, backend: RegionBackend, plane: Plane) -> None:
        self.backend = backend
        self.plane = plane
        self.lock = threading.Lock()
        self.tokens = ClientTokens()
        self.queues = OperationQueues()
        self.metrics = StorageMetrics(plane)
        self.on_plane: set[str] = set()  # instances that have a host, running or stopped
        self.last_words: dict[str, str] = {}  # console output of instances that are gone
        self.started_at = time.monotonic()
        self.closing = threading.Event()
        self._disks: MachineLimits | None = None
        self._network: Throughput | None = None
        self._is_measured = False

    def measure_machine(self) -> None:
        """Have the plane find out, beside everything else, what this machine's disks serve."""

        def measure() -> None:
            self._disks = self._asked("disks", self.plane.machine_limits)
            self._is_measured = True

        threading.Thread(target=measure, name="measure the machine", daemon=True).start()

    def measure_network(self) -> None:
        """Have the plane find out what this machine's network carries, once there are two ends to it.

        Takes two seconds and both processors, once per boot of the machine. The caller lets an instance wait for
        it that is still to be described as running: later it would disturb what is measured on it.
        """
        with self.lock:
            alone = sum(instance.state in ("pending", "running") for instance in self.instances()) < 2
        if not alone and self._network is None:
            self._network = self._asked("network", self.plane.machine_network)

    @staticmethod
    def _asked(what: str, ask: Callable[[], T | None]) -> T | None:
        try:
            return ask()
        except Exception:
            log.exception("measuring what this machine's %s serve", what)
            return None

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Let go of the lock for work that takes time; the caller must hold it, and holds it again afterwards.

        Others may have changed anything meanwhile: look again before writing.
        """
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()

    def publish(self) -> None:
        """Write what is known of the machine and of its time on every instance, as tags. The caller holds the lock."""
        if self._is_measured:  # before that the plane might be at it, and keep the caller waiting
            # Asked anew each time: the plane raises the network's figure when it sees more being carried.
            self._disks = self._disks and self.plane.machine_limits()
            self._network = self._network and self.plane.machine_network()
        told = {LATENCY_TAG: self.plane.latency}
        if self.plane.time_compression != 1:
            told[TIME_COMPRESSION_TAG] = factor_words(self.plane.time_compression)
        if self.plane.in_folder:
            told[BACKING_TAG] = "folder"
        if self._disks is not None:
            told[MACHINE_IOPS_TAG] = f"{self._disks.iops.per_second:.0f}"
            told[MACHINE_THROUGHPUT_TAG] = f"{self._disks.throughput.bytes_per_second:.0f}"
            told[MACHINE_ROOM_TAG] = f"{self.plane.room()}"
        if self._network is not None:
            told[MACHINE_NETWORK_TAG] = f"{self._network.bytes_per_second:.0f}"
        for instance in self.instances():
            limited = self.plane.store_is_limited(instance.id)
            store = {} if limited is None else {INSTANCE_STORE_TAG: "limited" if limited else "unlimited"}
            self.backend.tags[instance.id].update({**told, **store})

    def instances(self) -> list[Any]:
        """All instances, terminated ones too. The caller holds the lock."""
        return [
            instance
            for reservation in self.backend.reservations.values()
            for instance in reservation.instances
        ]

    def close(self) -> None:
        """Start nothing more on hosts; the plane is closed by its owner."""
        self.closing.set()
        self.metrics.close()
        self.queues.close()
