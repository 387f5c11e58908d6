"""The instance store: an instance's own NVMe disks. Their data outlives a reboot and goes with a stop."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from pytest_cloudbench.promises.instance_store import STORE_RATES
from pytest_cloudbench.twin.disks import KIB, Disk, Store, new_disk
from pytest_cloudbench.twin.hosts import Node
from pytest_cloudbench.twin.throttle import Limits, Throttle

if TYPE_CHECKING:
    from pytest_cloudbench.promises.ceilings import MachineLimits
    from pytest_cloudbench.twin.host_plan import HostPlan
    from pytest_cloudbench.twin.loop_devices import LoopDevice
    from pytest_cloudbench.twin.workshop import Workshop

_BYTES_OF_GB = 1_000_000_000
_LARGEST_REQUEST = 256 * KIB
_LET_GO_S = 5.0
_NO_LIMIT = float("inf")


class InstanceStore:
    """The local disks of one instance. The caller orders the calls."""

    def __init__(
        self, plan: HostPlan, store: Store, workshop: Workshop, throttle: Throttle, label: str
    ) -> None:
        self._plan = plan
        self._store = store
        self._workshop = workshop
        self._throttle = throttle
        self._label = label
        self._disks: list[tuple[Disk, Node]] = []
        self._sizes = [disk.size_gb * _BYTES_OF_GB for disk in plan.local_disks for _ in range(disk.count)]
        first = 1 if plan.nitro else 0  # on Nitro number 0 would be the root volume
        self.names = tuple(f"nvme{number}n1" for number in range(first, first + len(self._sizes)))
        """What its disks are called, whether they are there at the moment or not."""
        self.limited: bool | None = None
        """Whether the published figures hold here; None where there is no store or it has not been made yet."""

    @property
    def nodes(self) -> list[Node]:
        """The device nodes of the disks that are there."""
        return [node for _, node in self._disks]

    def make(self, machine: MachineLimits | None) -> None:
        """Make new, empty disks, unless they are there. Raises `NoRoom` when nothing could be written to them.

        ``machine`` is what this machine serves: published figures above it are not enforced.
        """
        if self._disks or not self._sizes:
            return
        rates = STORE_RATES.get(self._plan.instance_type)
        self.limited = rates is not None and rates.within(machine)
        limits = None
        if rates is not None and self.limited:
            each = rates.share(len(self._sizes))
            limits = Limits(each.read.per_second, each.write.per_second, _NO_LIMIT, _NO_LIMIT)
        try:
            for name, size in zip(self.names, self._sizes, strict=True):
                self._make_one(name, size, limits)
        except BaseException:
            self.lose()
            raise

    def _make_one(self, name: str, size: int, limits: Limits | None) -> None:
        serial = f"AWS{secrets.token_hex(9)[:17].upper()}"
        disk = new_disk(
            serial,
            size=size,
            io_unit=_LARGEST_REQUEST,
            store=self._store,
            workshop=self._workshop,
            label=f"{self._label}/{serial}",
        )
        try:
            loop = disk.plug_in()
            if limits is not None:
                self._throttle.set(self._plan.instance_id, loop.device_number, limits)
        except BaseException:
            disk.close()
            raise
        self._disks.append((disk, store_node(name, serial, loop)))

    def lose(self) -> None:
        """Let the disks go, with all that is on them."""
        disks, self._disks = self._disks, []
        for disk, _ in disks:
            loop = disk.loop
            if loop is not None:
                self._throttle.lift(self._plan.instance_id, loop.device_number)
                _wait_until_free(loop)
            disk.close()


def store_node(name: str, serial: str, loop: LoopDevice) -> Node:
    """The node of a local disk, with the links by which it says what it is."""
    link = f"disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_{serial}"
    return Node(name, loop.major, loop.minor, (link, f"{link}_1", f"{link}-ns-1"))


def _wait_until_free(loop: LoopDevice) -> None:
    """The kernel lets go of a halted instance's mounts a moment after its last process."""
    deadline = time.monotonic() + _LET_GO_S
    while loop.busy() and time.monotonic() < deadline:
        time.sleep(0.01)
