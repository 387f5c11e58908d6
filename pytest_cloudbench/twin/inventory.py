"""The inventory of a region: its instances, its volumes, and where each volume is attached."""

from __future__ import annotations

import contextlib
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


class PlaneError(RuntimeError):
    """A request that the data plane cannot carry out; the message is a sentence."""


@dataclass
class PlacedVolume:
    """A volume and where it is attached.

    ``done`` counts its I/O before the current attachment. ``fetches`` is True if it was made from a snapshot.
    """

    disk: Disk
    spec: VolumeSpec
    page: VolumePage
    page_path: Path
    state: VolumeState
    fetches: bool = False
    done: Figures = field(default_factory=Figures)
    instance_id: str | None = None
    node: Node | None = None

    def close(self) -> None:
        """Release its pages and its data."""
        self.disk.close()
        self.page.close()
        self.state.close()


@dataclass
class PlacedInstance:
    """An instance. Its ``lock`` is held for every change to it.

    ``cards`` has, by the index of each EBS card, what paces the card's volumes by the card's own limits.
    """

    host: Host
    cards: dict[int, InstanceVolumes]
    local: InstanceStore
    lock: threading.RLock = field(default_factory=threading.RLock)
    volumes: dict[str, PlacedVolume] = field(default_factory=dict)

    @property
    def paced(self) -> InstanceVolumes:
        """The pacing of the first EBS card; most instance types have only one."""
        return next(iter(self.cards.values()))

    @property
    def nodes(self) -> list[Node]:
        """The device nodes of its instance store and of its attached volumes."""
        attached = [volume.node for volume in self.volumes.values() if volume.node is not None]
        return [*self.local.nodes, *attached]


class Inventory:
    """The instances and volumes of one region by their ids.

    ``lock`` is held to add or remove one and to assign addresses. Nothing is added once it is ``closed``.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.instances: dict[str, PlacedInstance] = {}
        self.volumes: dict[str, PlacedVolume] = {}
        self.closed = False

    def refuse_when_closed(self) -> None:
        """Raise `PlaneError` if the region is closing. The caller holds the lock, so it adds nothing afterwards."""
        if self.closed:
            raise PlaneError("the region is shutting down")

    def volume(self, volume_id: str) -> PlacedVolume:
        """Return the volume. Raises `PlaneError` if there is none."""
        volume = self.volumes.get(volume_id)
        if volume is None:
            raise PlaneError(f"there is no volume {volume_id}")
        return volume

    @contextlib.contextmanager
    def held(self, instance_id: str) -> Iterator[PlacedInstance]:
        """Yield the instance while holding its lock. Raises `PlaneError` if there is none."""
        instance = self.instances.get(instance_id)
        if instance is not None:
            with instance.lock:
                if self.instances.get(instance_id) is instance:  # else it was terminated meanwhile
                    yield instance
                    return
        raise PlaneError(f"there is no instance {instance_id}")
