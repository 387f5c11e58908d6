"""A directory that exists on a host, as a target: the load gets a folder of its own in it."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Literal

from pytest_cloudbench.hosts.device_facts import disks_below
from pytest_cloudbench.hosts.directory import HostDirectory
from pytest_cloudbench.hosts.errors import HostError
from pytest_cloudbench.hosts.folders import claim_folder, remove_folder
from pytest_cloudbench.limits.ceilings import Ceiling
from pytest_cloudbench.limits.envelope import Envelope
from pytest_cloudbench.limits.quantities import Size
from pytest_cloudbench.resources.disks import Disk
from pytest_cloudbench.resources.errors import ExistingHardware, NotOffered
from pytest_cloudbench.resources.instance import Instance, NoPromise
from pytest_cloudbench.resources.mounted import PrefilledFile, lay_out
from pytest_cloudbench.resources.storage_target import Layer, StorageTarget
from pytest_cloudbench.resources.volumes import Volume

_MEMORY = ("tmpfs", "ramfs")


class LeftOnHost(UserWarning):
    """Something of a run is still on a host; the message says how to remove it."""


class StatedStorage(StorageTarget):
    """Storage of an instance's host; its only known limits are those that the test states."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    @property
    def label(self) -> str:
        return f"the storage of {self.instance.launched}"

    @property
    def iops(self) -> Ceiling:
        """The IOPS that the test states for the host's storage. Raises NoPromise."""
        return self._stated("IOPS", of_iops=True)

    @property
    def throughput(self) -> Ceiling:
        """The throughput that the test states for the host's storage. Raises NoPromise."""
        return self._stated("throughput", of_iops=False)

    def envelope(self, block_size: Size, *, sequential: bool) -> Envelope:
        """Return the stated ceilings, for which each I/O counts as one, whatever its size."""
        stated = self.instance.storage_ceilings
        return Envelope(stated, block_size, sequential, io_unit=block_size, merging=False)

    def counters(self) -> None:
        """Return None: its driver is unknown."""

    def _stated(self, quantity: str, *, of_iops: bool) -> Ceiling:
        for ceiling in self.instance.storage_ceilings:
            if ceiling.of_iops == of_iops:
                return ceiling
        raise NoPromise(
            f"no {quantity} of {self.label} is stated: compare with a figure of your own, or state one for a host by "
            "limits=recorded_limits(...) in the marker"
        )


class Directory(Layer):
    """A directory of an instance's host, with a separate folder for the load in it.

    The folder is removed when the test ends. Other content of the directory is not changed. ``below`` is the EBS volume
    or the local disk of an EC2 instance that its file system lies on; otherwise only the limits that the test states
    are known.
    """

    kind: Literal["directory"] = "directory"

    def __init__(self, instance: Instance, asked: str) -> None:
        super().__init__(storage_below(instance, asked) or StatedStorage(instance))
        self.asked = asked
        with instance.preparation.step(f"make a folder in {asked} on {instance.launched}"):
            self.claimed = claim_folder(instance.host, asked)
        for left in self.claimed.left:
            warnings.warn(left, LeftOnHost, stacklevel=2)

    @property
    def path(self) -> str:
        """The folder of the load."""
        return self.claimed.path

    @property
    def label(self) -> str:
        """The name in messages and evidence: "/data on host db1"."""
        return f"{self.asked} on {self.instance.launched}"

    @property
    def device_names(self) -> tuple[str, ...]:
        """The volume or disk below it; the directory itself if only the limits that the test states are known."""
        return (self.asked,) if isinstance(self.below, StatedStorage) else self.below.device_names

    @property
    def size(self) -> Size:
        """The size of the file system that the directory is in."""
        return self._folder.size

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions of the storage below, and whether the data is in memory."""
        kind = self.claimed.filesystem
        return (
            *super().conditions,
            *([f"data in memory ({kind}), not on a disk"] if kind in _MEMORY else []),
        )

    def prefilled(self, size: str | int | Size) -> PrefilledFile:
        """Lay out one file of real data, and return it as a target; see `Mounted.prefilled`. A sweep needs one."""
        return lay_out(self, size)

    def prove_writable(self) -> None:
        """Raise NotOurs unless the folder is still there."""
        self._folder.prove_writable()

    def remove(self) -> None:
        """Remove the folder with all that is in it; warn if that is not possible."""
        try:
            remove_folder(self.instance.host, self.path)
        except HostError as error:
            warnings.warn(f"{self.path} may still be there: {error}", LeftOnHost, stacklevel=2)

    @property
    def _folder(self) -> HostDirectory:
        return HostDirectory(self.instance.host, self.path)


def storage_below(instance: Instance, directory: str) -> Disk | None:
    """Return the EBS volume or the local disk of an EC2 instance that a directory lies on.

    None if it lies on several disks, whose limits may not add up, or on a disk without limits from EC2.
    """
    known = [each.volume_id for each in instance.launched.attachments]
    if not known and not instance.limits.instance_store:
        return None
    found = disks_below(instance.host, directory)
    if len(found) != 1:
        return None
    [device] = found
    if device.is_instance_store:
        return next((each for each in instance.instance_store if each.device.path == device.path), None)
    volume_id = next((each for each in known if device.is_volume(each)), None)
    if volume_id is None:
        return None
    with suppress(ExistingHardware, NotOffered):
        return next((each for each in instance.volumes if each.id == volume_id), None) or Volume(
            instance, instance.described_volume(volume_id)
        )
    return None
