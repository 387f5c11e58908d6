"""The region: moto's state, the plane that makes it real, and the rule by which both are touched.

One plain lock guards moto's state. Every request holds it; work on hosts and disks, which takes time, is done
beside it, either within `Region.aside` or in an instance's queue.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .client_tokens import ClientTokens
from .operation_queues import OperationQueues

if TYPE_CHECKING:
    from pytest_cloudbench.twin.plane import Plane

    from .backend import RegionBackend

log = logging.getLogger(__name__)

MACHINE_IOPS_TAG = "aws:cloudbench:machine-iops"
MACHINE_THROUGHPUT_TAG = "aws:cloudbench:machine-bytes-per-second"
MACHINE_ROOM_TAG = "aws:cloudbench:machine-free-bytes"


class Region:
    """What every action of the API works on."""

    def __init__(self, backend: RegionBackend, plane: Plane) -> None:
        self.backend = backend
        self.plane = plane
        self.lock = threading.Lock()
        self.tokens = ClientTokens()
        self.queues = OperationQueues()
        self.on_plane: set[str] = set()  # instances that have a host, running or stopped
        self.last_words: dict[str, str] = {}  # console output of instances that are gone
        self.started_at = time.monotonic()
        self.closing = threading.Event()
        self._machine_is_measured = False

    def measure_machine(self) -> None:
        """Have the plane find out, beside everything else, what this machine's disks serve."""

        def measure() -> None:
            try:
                if self.plane.machine_limits() is not None:
                    self._machine_is_measured = True
            except Exception:
                log.exception("measuring what this machine's disks serve")

        threading.Thread(target=measure, name="measure the machine", daemon=True).start()

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

    def tag_machine_limits(self) -> None:
        """Publish what this machine's disks serve on every instance. The caller holds the lock."""
        # Asked anew each time: the plane raises the figures when it sees more being served.
        limits = self.plane.machine_limits() if self._machine_is_measured else None
        if limits is None:
            return
        told = {
            MACHINE_IOPS_TAG: f"{limits.iops.per_second:.0f}",
            MACHINE_THROUGHPUT_TAG: f"{limits.throughput.bytes_per_second:.0f}",
            MACHINE_ROOM_TAG: f"{self.plane.room()}",
        }
        for instance in self.instances():
            self.backend.tags[instance.id].update(told)

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
        self.queues.close()
