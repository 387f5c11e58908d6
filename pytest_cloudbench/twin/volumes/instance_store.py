"""The instance store: an instance's own NVMe disks. Their data survive a reboot and are lost with a stop."""

from __future__ import annotations

import secrets
from contextlib import closing
from typing import TYPE_CHECKING

from pytest_cloudbench.limits.instance_store import STORE_RATES, STORE_SERVICE_TIME
from pytest_cloudbench.twin.hosts.hosts import HostPlan, Node
from pytest_cloudbench.twin.volumes.disks import KIB, Disk, new_disk, nvme_node
from pytest_cloudbench.twin.volumes.figures import Limit, StageFigures, VolumeFigures
from pytest_cloudbench.twin.volumes.instance_volumes import InstanceVolumes
from pytest_cloudbench.twin.volumes.loop_devices import RELEASE_S
from pytest_cloudbench.twin.volumes.shared_pages import VolumePage, VolumeState

if TYPE_CHECKING:
    from pytest_cloudbench.limits.ceilings import MachineLimits
    from pytest_cloudbench.twin.region_parts import RegionParts
    from pytest_cloudbench.twin.volumes.volume_process import PacedFile

_BYTES_OF_GB = 1_000_000_000
_LARGEST_REQUEST = 256 * KIB
_PACED_SHARE = 0.2
"""A paced disk serves at least this share of the I/Os per second that a bare device serves (measured)."""


class InstanceStore:
    """The local disks of one instance. Its methods must be called one at a time."""

    def __init__(self, plan: HostPlan, parts: RegionParts) -> None:
        self._plan = plan
        self._parts = parts
        # Not paced with the volumes: the instance's limits apply to its EBS volumes only.
        self._paced = InstanceVolumes(f"{plan.instance_id}.store", StageFigures(), parts)
        self._disks: list[tuple[Disk, Node]] = []
        self._sizes = [disk.size_gb * _BYTES_OF_GB for disk in plan.local_disks for _ in range(disk.count)]
        first = 1 if plan.nitro else 0  # on Nitro number 0 is the root volume
        self.names = tuple(f"nvme{number}n1" for number in range(first, first + len(self._sizes)))
        """The names of its disks, also while the instance is stopped."""
        self.limited: bool | None = None
        """True if the published figures are enforced; None without a store or before it is made."""

    @property
    def nodes(self) -> list[Node]:
        """The device nodes of the disks; none while the instance is stopped."""
        return [node for _, node in self._disks]

    def make(self, machine: MachineLimits | None) -> None:
        """Make new, empty disks if there are none. Raises `NoRoom` if nothing could be written to them.

        ``machine`` is what this machine serves. Published figures that it cannot serve are not enforced.
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
                service=STORE_SERVICE_TIME if self._parts.models_latency else None,
            )
        try:
            for name, size in zip(self.names, self._sizes, strict=True):
                self._make_one(name, size, figures)
        except BaseException:
            self.remove_disks()
            raise

    def _make_one(self, name: str, size: int, figures: VolumeFigures | None) -> None:
        serial = f"AWS{secrets.token_hex(9)[:17].upper()}"
        disk = new_disk(serial, size, _LARGEST_REQUEST, self._parts, owner=self._plan.instance_id)
        try:
            loop = disk.plug_in(None if figures is None else self._pace(disk, figures))
        except BaseException:
            disk.close()
            raise
        self._disks.append((disk, nvme_node(name, f"Amazon_EC2_NVMe_Instance_Storage_{serial}", loop)))

    def _pace(self, disk: Disk, figures: VolumeFigures) -> PacedFile:
        with closing(VolumePage.create()) as page, closing(VolumeState.create()) as state:
            return self._paced.attach(disk.size, figures, disk.descriptor, page, state)

    def pace(self, paced: bool) -> None:
        """Apply the published figures, or suspend them. See `InstanceVolumes.pace`."""
        self._paced.pace(paced)

    def close(self) -> None:
        """Remove the disks and end the process that paces them."""
        self.remove_disks()
        self._paced.close()

    def remove_disks(self) -> None:
        """Remove the disks and their data."""
        disks, self._disks = self._disks, []
        for disk, _ in disks:
            if disk.loop is not None:
                disk.loop.wait_until_free(RELEASE_S)
            disk.close()
