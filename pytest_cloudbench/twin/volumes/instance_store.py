"""The instance store: an instance's own NVMe disks. Their data outlives a reboot and goes with a stop."""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING

from pytest_cloudbench.limits.instance_store import STORE_RATES
from pytest_cloudbench.limits.service_times import STORE_SERVICE_TIME
from pytest_cloudbench.twin.hosts.hosts import Node
from pytest_cloudbench.twin.volumes.disks import KIB, Disk, Store, new_disk
from pytest_cloudbench.twin.volumes.figures import Limit, StageFigures, VolumeFigures
from pytest_cloudbench.twin.volumes.shared_pages import VolumePage, VolumeState

if TYPE_CHECKING:
    from pytest_cloudbench.limits.ceilings import MachineLimits
    from pytest_cloudbench.twin.hosts.host_plan import HostPlan
    from pytest_cloudbench.twin.volumes.instance_volumes import InstanceVolumes
    from pytest_cloudbench.twin.volumes.loop_devices import LoopDevice
    from pytest_cloudbench.twin.volumes.volume_process import PacedFile
    from pytest_cloudbench.twin.workshop import Workshop

_BYTES_OF_GB = 1_000_000_000
_LARGEST_REQUEST = 256 * KIB
_LET_GO_S = 5.0
_PACED_SHARE = 0.2
"""Of the I/Os per second that a bare device serves, a paced one carries at least this share (measured)."""


class InstanceStore:
    """The local disks of one instance. The caller orders the calls.

    ``paced`` holds them to their published figures; ``modelled`` gives them a service time.
    """

    def __init__(
        self,
        plan: HostPlan,
        store: Store,
        workshop: Workshop,
        paced: InstanceVolumes,
        label: str,
        *,
        modelled: bool,
    ) -> None:
        self._plan = plan
        self._store = store
        self._workshop = workshop
        self._paced = paced
        self._label = label
        self._service = STORE_SERVICE_TIME if modelled else None
        self._disks: list[tuple[Disk, Node, PacedFile | None]] = []
        self._sizes = [disk.size_gb * _BYTES_OF_GB for disk in plan.local_disks for _ in range(disk.count)]
        first = 1 if plan.nitro else 0  # on Nitro number 0 would be the root volume
        self.names = tuple(f"nvme{number}n1" for number in range(first, first + len(self._sizes)))
        """What its disks are called, whether they are there at the moment or not."""
        self.limited: bool | None = None
        """Whether the published figures hold here; None if there is no store or it has not been made yet."""

    @property
    def nodes(self) -> list[Node]:
        """The device nodes of the disks that are there."""
        return [node for _, node, _ in self._disks]

    def make(self, machine: MachineLimits | None) -> None:
        """Make new, empty disks, unless they are there. Raises `NoRoom` when nothing could be written to them.

        ``machine`` is what this machine serves: published figures above it are not enforced.
        """
        if self._disks or not self._sizes:
            return
        rates = STORE_RATES.get(self._plan.instance_type)
        self.limited = rates is not None and rates.within(machine, share=_PACED_SHARE)
        figures = None
        if rates is not None and self.limited:
            each = rates.share(len(self._sizes))
            figures = VolumeFigures(
                _LARGEST_REQUEST,
                merging=False,
                limits=StageFigures(Limit(each.read.per_second)),
                writes=StageFigures(Limit(each.write.per_second)),
                service=self._service,
            )
        try:
            for name, size in zip(self.names, self._sizes, strict=True):
                self._make_one(name, size, figures)
        except BaseException:
            self.lose()
            raise

    def _make_one(self, name: str, size: int, figures: VolumeFigures | None) -> None:
        serial = f"AWS{secrets.token_hex(9)[:17].upper()}"
        disk = new_disk(
            serial,
            size=size,
            io_unit=_LARGEST_REQUEST,
            store=self._store,
            workshop=self._workshop,
            label=f"{self._label}/{serial}",
        )
        file = None
        try:
            if figures is None:
                loop = disk.plug_in()
            else:
                file = self._pace(disk, figures)
                loop = disk.plug_in(file)
        except BaseException:
            disk.close()
            if file is not None:
                file.detach()
            raise
        self._disks.append((disk, store_node(name, serial, loop), file))

    def _pace(self, disk: Disk, figures: VolumeFigures) -> PacedFile:
        page, state = VolumePage.create_unseen(), VolumeState.create()
        try:
            return self._paced.attach(disk.size, figures, backing=disk.descriptor, page=page, state=state)
        finally:
            os.close(page)
            os.close(state)

    def pace(self, paced: bool) -> None:
        """Hold the published figures, or let an instance that goes down write its data quickly."""
        self._paced.pace(paced)

    def close(self) -> None:
        """Lose the data, and let go of what paced them."""
        self.lose()
        self._paced.close()

    def lose(self) -> None:
        """Let the disks go, with all that is on them."""
        disks, self._disks = self._disks, []
        for disk, _, file in disks:
            if disk.loop is not None:
                _wait_until_free(disk.loop)
            disk.close()
            if file is not None:
                file.detach()


def store_node(name: str, serial: str, loop: LoopDevice) -> Node:
    """The node of a local disk, with the links by which it says what it is."""
    link = f"disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_{serial}"
    return Node(name, loop.major, loop.minor, (link, f"{link}_1", f"{link}-ns-1"))


def _wait_until_free(loop: LoopDevice) -> None:
    """The kernel lets go of a halted instance's mounts a moment after its last process."""
    deadline = time.monotonic() + _LET_GO_S
    while loop.busy() and time.monotonic() < deadline:
        time.sleep(0.01)
