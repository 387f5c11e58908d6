"""How a test leaves hardware that other tests use after it: without mounts, stripes, content and volumes of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pytest_cloudbench.hosts.errors import HostError
from pytest_cloudbench.hosts.filesystems import clear_devices
from pytest_cloudbench.resources.disks import Disk
from pytest_cloudbench.resources.errors import CloudError
from pytest_cloudbench.resources.facts import CreatedVolume, LaunchedInstance
from pytest_cloudbench.resources.instance import Instance
from pytest_cloudbench.resources.restarts import NotRunning
from pytest_cloudbench.resources.storage_target import StorageInUse
from pytest_cloudbench.resources.volumes import Volume


def leave_shared_hardware(instances: Sequence[Instance], volumes: Sequence[Volume]) -> None:
    """Detach the test's own ``volumes`` from instances that stay, and empty the storage of its shared ``instances``.

    An instance on which that fails is `unusable` from then on.
    """
    for volume in volumes:
        stays = volume.instance not in instances or volume.instance.launched.shared
        if stays and volume.is_attached and not volume.created.shared:
            with _usable_unless_failed(volume.instance):
                free([volume])
                volume.detach()
    for instance in instances:
        if instance.launched.shared:
            with _usable_unless_failed(instance):
                _empty(instance)


def free(disks: Iterable[Disk]) -> None:
    """Dissolve the stripes of these disks and unmount their file systems."""
    for disk in disks:
        if disk.stripe is not None:
            disk.stripe.dissolve()
        disk.unmount()


def left_instance(instance: Instance) -> LaunchedInstance:
    """Return the facts of an instance at the end of a test, with what the next test must know of it."""
    launched = instance.launched
    if not launched.shared:
        return launched
    store = instance.known_store
    done = launched.store_initialised if store is None else tuple(disk.initialisation for disk in store)
    return replace(launched, store_initialised=done, unusable=instance.unusable)


def left_volume(created: CreatedVolume, volume: Volume | None) -> CreatedVolume:
    """Return the facts of a volume at the end of a test, with its initialisation, which the next test needs."""
    if volume is None or not volume.created.shared:
        return created
    return replace(volume.created, initialisation=volume.initialisation)


def _empty(instance: Instance) -> None:
    """Free its disks, and remove the signatures of file systems from those that the test may have written to."""
    if instance.is_stopped:
        return  # every mount has ended, and no later test gets it
    instance.remove_folders()
    store = instance.known_store
    attached: list[Disk] = [*instance.volumes, *(store.disks if store is not None else ())]
    disks = [each for each in attached if not each.existing]
    free(disks)
    used = [device for disk in disks if (device := disk.known_device) is not None]
    if used:
        clear_devices(instance.host, used)


@contextlib.contextmanager
def _usable_unless_failed(instance: Instance) -> Iterator[None]:
    try:
        yield
    except (HostError, CloudError, NotRunning, StorageInUse) as error:
        instance.unusable = instance.unusable or str(error)
