"""What a region has: its instances and its volumes, where each volume is attached, and how they are found."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pytest_cloudbench.limits.volumes import VolumeSpec
from pytest_cloudbench.twin.hosts.hosts import Host, Node
from pytest_cloudbench.twin.volumes.disks import Disk
from pytest_cloudbench.twin.volumes.instance_store import InstanceStore
from pytest_cloudbench.twin.volumes.instance_volumes import InstanceVolumes
from pytest_cloudbench.twin.volumes.shared_pages import Figures, VolumePage, VolumeState
from pytest_cloudbench.twin.volumes.volume_process import PacedFile


class PlaneError(RuntimeError):
    """A request that the data plane cannot do; the message is a sentence."""


@dataclass
class PlacedVolume:
    """A volume and where it is attached.

    ``done`` is what it did before the present attachment. ``fetches`` says that it was made from a snapshot.
    """

    disk: Disk
    spec: VolumeSpec
    page: VolumePage
    page_descriptor: int
    page_path: Path
    state: VolumeState
    state_descriptor: int
    done: Figures = field(default_factory=Figures)
    fetches: bool = False
    file: PacedFile | None = None
    instance_id: str | None = None
    node: Node | None = None

    def close(self) -> None:
        """Give up its pages and its data."""
        self.disk.close()
        self.page.close()
        self.state.close()
        os.close(self.page_descriptor)
        os.close(self.state_descriptor)


@dataclass
class PlacedInstance:
    """An instance; ``lock`` orders what is done to it."""

    host: Host
    paced: InstanceVolumes
    local: InstanceStore
    lock: threading.RLock = field(default_factory=threading.RLock)
    volumes: dict[str, PlacedVolume] = field(default_factory=dict)

    @property
    def nodes(self) -> list[Node]:
        """The nodes of its disks: of its instance store and of the volumes that are attached."""
        attached = [volume.node for volume in self.volumes.values() if volume.node is not None]
        return [*self.local.nodes, *attached]


class Inventory:
    """The instances and volumes of one region by their ids.

    ``lock`` is held while one is added or removed and while addresses are handed out. Once ``closed`` nothing is added.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.instances: dict[str, PlacedInstance] = {}
        self.volumes: dict[str, PlacedVolume] = {}
        self.closed = False

    def refuse_when_closed(self) -> None:
        """The caller holds the lock: what is made after this is seen by whoever closes the region."""
        if self.closed:
            raise PlaneError("the region is shutting down")

    def instance(self, instance_id: str) -> PlacedInstance:
        """The instance. Raises `PlaneError` where there is none."""
        instance = self.instances.get(instance_id)
        if instance is None:
            raise PlaneError(f"there is no instance {instance_id}")
        return instance

    def volume(self, volume_id: str) -> PlacedVolume:
        """The volume. Raises `PlaneError` where there is none."""
        volume = self.volumes.get(volume_id)
        if volume is None:
            raise PlaneError(f"there is no volume {volume_id}")
        return volume

    @contextlib.contextmanager
    def held(self, instance_id: str) -> Iterator[PlacedInstance]:
        """The instance, while nobody else does anything to it. Raises `PlaneError` where there is none."""
        instance = self.instance(instance_id)
        with instance.lock:
            if self.instances.get(instance_id) is not instance:  # ended while we waited for the lock
                raise PlaneError(f"there is no instance {instance_id}")
            yield instance
