"""The region: moto's state, the plane that makes it real, and the lock for both.

One plain lock guards moto's state, and every request holds it. Work on hosts and disks takes time, so it is done
without the lock, either within `Region.aside` or in an instance's queue.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_cloudbench.limits.region_settings import factor_words
from pytest_cloudbench.twin.measurements import BetweenMeasurements
from pytest_cloudbench.twin.regions import RECORD_NAME

from .instance_metadata import serve_metadata
from .refusal import Refusal
from .run_command import RunCommand
from .storage_metrics import StorageMetrics

if TYPE_CHECKING:
    from pytest_cloudbench.limits.ceilings import MachineLimits
    from pytest_cloudbench.limits.quantities import Throughput
    from pytest_cloudbench.twin.plane import Plane

    from .backend import RegionBackend
    from .replica import Replica
    from .weather import RegionWeather

log = logging.getLogger(__name__)

T = TypeVar("T")

# Amazon EC2 User Guide, "Terminate Amazon EC2 instances", read 2026-11: visible for a short time, usually an hour.
TERMINATED_SHOWN_S = 3600.0

MACHINE_IOPS_TAG = "aws:cloudbench:machine-iops"
MACHINE_THROUGHPUT_TAG = "aws:cloudbench:machine-bytes-per-second"
MACHINE_ROOM_TAG = "aws:cloudbench:machine-free-bytes"
MACHINE_NETWORK_TAG = "aws:cloudbench:machine-network-bytes-per-second"
TIME_COMPRESSION_TAG = "aws:cloudbench:time-compression"
LATENCY_TAG = "aws:cloudbench:latency"
INSTANCE_STORE_TAG = "aws:cloudbench:instance-store"
BACKING_TAG = "aws:cloudbench:backing"
MACHINE_VCPUS_TAG = "aws:cloudbench:machine-vcpus"
MEMORY_TAG = "aws:cloudbench:memory"


class ClientTokens:
    """The resources created with each client token: a repeated request creates nothing. Callers hold the lock."""

    def __init__(self) -> None:
        self._created: dict[tuple[str, str], tuple[str, Any]] = {}

    def recall(self, action: str, params: Mapping[str, Any]) -> Any | None:
        """Return what an earlier request with this token created, or None.

        Raises Refusal (IdempotentParameterMismatch) if the earlier request had different parameters.
        """
        known = self._created.get((action, params.get("ClientToken") or ""))
        if known is None:
            return None
        fingerprint, created = known
        if fingerprint != _fingerprint(params):
            raise Refusal(
                "IdempotentParameterMismatch",
                f"The client token '{params['ClientToken']}' was used before by a {action} request with other "
                "parameters. Use a new token for a new request.",
            )
        return created

    def remember(self, action: str, params: Mapping[str, Any], created: Any) -> None:
        """Keep ``created`` for repetitions of this request."""
        if token := params.get("ClientToken"):
            self._created[action, token] = (_fingerprint(params), created)

    def forget(self, action: str, params: Mapping[str, Any]) -> None:
        """Forget the token of a request that failed."""
        self._created.pop((action, params.get("ClientToken") or ""), None)


def _fingerprint(params: Mapping[str, Any]) -> str:
    relevant = {key: value for key, value in params.items() if key not in ("ClientToken", "DryRun")}
    return hashlib.sha256(json.dumps(relevant, sort_keys=True, default=str).encode()).hexdigest()


class OperationQueues:
    """A first-in, first-out queue per key. Each operation has its own thread, which waits for the previous one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, list[Future[Any]]] = {}
        self._closed = False

    def submit(self, key: str, operation: Callable[[], T]) -> Future[T]:
        """Run ``operation`` after everything submitted before under ``key``. Raises RuntimeError once closed."""
        future: Future[T] = Future()

        def work() -> None:
            wait(before)
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(operation())
                except BaseException as error:  # the future raises it
                    future.set_exception(error)
            with self._lock:
                queue.remove(future)
                if not queue:
                    del self._queues[key]

        with self._lock:
            if self._closed:
                raise RuntimeError("the region is shutting down")
            queue = self._queues.setdefault(key, [])
            before = queue[-1:]
            queue.append(future)
        threading.Thread(target=work, name=f"work {key}", daemon=True).start()
        return future

    def run(self, key: str, operation: Callable[[], T]) -> T:
        """Submit an operation, wait for it, and return its result or raise its error."""
        return self.submit(key, operation).result()

    def close(self) -> None:
        """Cancel waiting operations and accept no more. Running operations continue."""
        with self._lock:
            self._closed = True
            for queue in self._queues.values():
                for future in queue:
                    future.cancel()  # without effect on a running one


class Region:
    """The state that every action of the API works on."""

    def __init__(self, backend: RegionBackend, plane: Plane) -> None:
        self.backend = backend
        self.plane = plane
        self.lock = threading.Lock()
        self.tokens = ClientTokens()
        self.queues = OperationQueues()
        self.metrics = StorageMetrics(plane)
        self.run_command = RunCommand(self)
        self.objects_lock = threading.Lock()  # guards moto's S3, which shares nothing with the rest
        self.on_plane: set[str] = set()  # instances that have a host, running or stopped
        self.boot_errors: dict[str, str] = {}  # of instances that did not start, for their console output
        self.closing = threading.Event()
        self.between_measurements = BetweenMeasurements(plane.slot.directory / RECORD_NAME)
        self.weather: RegionWeather | None = None
        self.replica: Replica | None = None  # None without weather
        plane.instances.serve_metadata = partial(serve_metadata, self)
        self._disks: MachineLimits | None = None
        self._network: Throughput | None = None
        self._is_measured = False

    def let_weather(self, weather: RegionWeather) -> None:
        """Answer calls under this weather from now on."""
        from .replica import Replica

        with self.lock:
            self.weather, self.replica = weather, Replica(self.backend, weather)

    def delay(self, effect: str, action: str) -> float:
        """Return how long the weather delays the effect of an action, in seconds; 0.0 without weather."""
        return self.weather.delay(effect, action) if self.weather is not None else 0.0

    def after(self, seconds: float, change: Callable[[], None]) -> None:
        """Call ``change`` after a delay, at once if it is 0, with the lock held. The caller holds the lock too."""
        if not seconds:
            change()
            return

        def work() -> None:
            if not self.closing.wait(seconds):
                with self.lock:
                    change()

        threading.Thread(target=work, name="delayed change", daemon=True).start()

    def measure_machine(self) -> None:
        """Measure in the background what this machine's disks serve."""

        def measure() -> None:
            self._disks = self._measured("disks", self.plane.machine.disks)
            self._is_measured = True

        threading.Thread(target=measure, name="measure the machine", daemon=True).start()

    def measure_network(self) -> None:
        """Measure what this machine's network carries, as soon as there are two instances.

        Takes two seconds and both processors, once per boot of the machine. The new instance is described as running
        only afterwards, so the probe disturbs no measurement on it.
        """
        with self.lock:
            alone = sum(instance.state in ("pending", "running") for instance in self.instances()) < 2
        if not alone and self._network is None:
            self._network = self._measured("network", self.plane.machine.network)

    @staticmethod
    def _measured(what: str, measure: Callable[[], T | None]) -> T | None:
        try:
            return measure()
        except Exception:
            log.exception("measuring this machine's %s", what)
            return None

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Release the lock for work that takes time. The caller holds it before and afterwards.

        Other requests may have changed anything meanwhile: check again before writing.
        """
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()

    def publish(self) -> None:
        """Write the machine's figures and the region's modes as tags on every instance. The caller holds the lock."""
        self.forget_ended()
        if self._is_measured:  # otherwise this would wait for the probe of the disks
            # The figure rises when the network carries more.
            self._network = self._network and self.plane.machine.network()
        tags = {LATENCY_TAG: self.plane.latency}
        if self.plane.time_compression != 1:
            tags[TIME_COMPRESSION_TAG] = factor_words(self.plane.time_compression)
        if not self.plane.store.in_memory:
            tags[BACKING_TAG] = "folder"
        if self._disks is not None:
            tags[MACHINE_IOPS_TAG] = f"{self._disks.iops.per_second:.0f}"
            tags[MACHINE_THROUGHPUT_TAG] = f"{self._disks.throughput.bytes_per_second:.0f}"
            tags[MACHINE_ROOM_TAG] = f"{self.plane.store.room()}"
        if self._network is not None:
            tags[MACHINE_NETWORK_TAG] = f"{self._network.bytes_per_second:.0f}"
        for instance in self.instances():
            limited = self.plane.instances.store_is_limited(instance.id)
            store = {} if limited is None else {INSTANCE_STORE_TAG: "limited" if limited else "unlimited"}
            self.backend.tags[instance.id].update({**tags, **store, **self._shortage(instance)})

    def _shortage(self, instance: Any) -> dict[str, str]:
        """Return tags that state what an instance lacks of its type on this machine; empty before its host exists."""
        from .backend import instance_catalogue

        found = self.plane.instances.resources(instance.id)
        if found is None:
            return {}
        cpus, memory_is_limited = found
        vcpus = instance_catalogue()[instance.instance_type]["VCpuInfo"]["DefaultVCpus"]
        return {
            **({MACHINE_VCPUS_TAG: f"{cpus}"} if cpus < vcpus else {}),
            **({} if memory_is_limited else {MEMORY_TAG: "unlimited"}),
        }

    def forget_ended(self) -> None:
        """Forget instances that terminated an hour ago, with their tags. The caller holds the lock."""
        backend, latest = self.backend, time.monotonic() - TERMINATED_SHOWN_S
        for reservation in list(backend.reservations.values()):
            ended = [one for one in reservation.instances if getattr(one, "ended_at", latest) < latest]
            for instance in ended:
                reservation.instances.remove(instance)
                backend.tags.pop(instance.id, None)
                self.boot_errors.pop(instance.id, None)
            if not reservation.instances:
                del backend.reservations[reservation.id]

    def instances(self) -> list[Any]:
        """Return all instances, including terminated ones. The caller holds the lock."""
        return [
            instance
            for reservation in self.backend.reservations.values()
            for instance in reservation.instances
        ]

    def close(self) -> None:
        """Start no more work on hosts. The plane is closed by its owner."""
        self.closing.set()
        self.metrics.close()
        self.queues.close()
