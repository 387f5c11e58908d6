"""The places for an instance's volumes: device names, unique per instance, and EBS cards, used evenly."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from string import ascii_lowercase
from typing import NamedTuple

from pytest_cloudbench.limits.instances import InstanceLimits
from pytest_cloudbench.resources.errors import AttachmentLimit
from pytest_cloudbench.resources.facts import CreatedVolume, LaunchedInstance

# Amazon EC2 User Guide, "Device names for volumes on Amazon EC2 instances" (HVM), read 2026-11: /dev/sd[a-z],
# /dev/xvd[a-d][a-x] and /dev/xvd[e-z] exist. /dev/sd[f-p] are recommended for EBS volumes. The service also accepts
# /dev/xvd[a-c][yz] (aws-ebs-csi-driver, pkg/cloud/devicemanager/device_names.go, 2025). /dev/sd[b-e] come last: some
# types before Nitro, which take at most 39 volumes, have instance stores there. 127 names and the root volume make 128
# volumes.
_A_TO_X = ascii_lowercase[:24]
DEVICE_NAMES: tuple[str, ...] = (
    *(f"/dev/sd{letter}" for letter in "fghijklmnop"),
    *(f"/dev/xvd{first}{second}" for first in "bcda" for second in _A_TO_X),
    *(f"/dev/xvd{letter}" for letter in "qrstuvwxyz"),
    *(f"/dev/xvd{first}{second}" for first in "bca" for second in "yz"),
    *(f"/dev/sd{letter}" for letter in "bcde"),
)


def check_attachments(limits: InstanceLimits, more: int, attached: int = 1) -> None:
    """Raise AttachmentLimit if an instance with `attached` volumes (including its root) cannot take `more`."""
    most, names = limits.max_ebs_attachments, 1 + len(DEVICE_NAMES)
    if most is not None and attached + more > most:
        raise AttachmentLimit(
            f"{limits.name} takes {most} EBS volumes, including its root volume: it has {attached}, and {more} more "
            f"make {attached + more}"
        )
    if attached + more > names:
        raise AttachmentLimit(
            f"EC2 has device names for {names} volumes of one instance, including its root volume: {limits.name} has "
            f"{attached}, and {more} more make {attached + more}"
        )


class _Slot(NamedTuple):
    volume_id: str
    card: int


class AttachmentSlots:
    """The device names and EBS cards in use on each instance, reserved before attachment. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Instance id -> device name -> slot.
        self._slots: dict[str, dict[str, _Slot]] = {}

    def take(self, volume: CreatedVolume, instance: LaunchedInstance, card: int) -> str:
        """Take the next free device name on an EBS card. Raises AttachmentLimit."""
        with self._lock:
            slots = self._of(instance)
            check_attachments(instance.limits, 1, len(slots))
            device = next_device_name(slots)
            slots[device] = _Slot(volume.id, card)
            return device

    def cards(self, instance: LaunchedInstance, count: int) -> list[int]:
        """Return the EBS cards for `count` more volumes, used evenly; the root volume does not count."""
        root = same_slot(instance.image.root_device)
        with self._lock:
            used = [slot.card for name, slot in self._of(instance).items() if same_slot(name) != root]
        return instance.limits.spread_over_cards(count, used)

    def free(self, volume_id: str) -> None:
        """Free the places of a volume."""
        with self._lock:
            for slots in self._slots.values():
                for device in [name for name, slot in slots.items() if slot.volume_id == volume_id]:
                    del slots[device]

    def forget(self, instance_id: str) -> None:
        """Forget an instance that ends."""
        with self._lock:
            self._slots.pop(instance_id, None)

    def count(self, instance: LaunchedInstance) -> int:
        """Return how many volumes are or will be attached to the instance, including the root volume."""
        with self._lock:
            return len(self._slots.get(instance.id, instance.attachments))

    def _of(self, instance: LaunchedInstance) -> dict[str, _Slot]:
        return self._slots.setdefault(
            instance.id, {each.device: _Slot(each.volume_id, each.card) for each in instance.attachments}
        )


def same_slot(name: str) -> str:
    """Return what the names of one device have in common: on Xen the kernel shows /dev/sdf as /dev/xvdf."""
    bare = name.removeprefix("/dev/")
    for prefix in ("xvd", "sd", "hd"):
        if bare.startswith(prefix):
            return bare.removeprefix(prefix).rstrip("0123456789")
    return bare


def next_device_name(in_use: Iterable[str]) -> str:
    """Return the first name that differs from those `in_use`. Raises AttachmentLimit if there is none."""
    slots = {same_slot(name) for name in in_use}
    for name in DEVICE_NAMES:
        if same_slot(name) not in slots:
            return name
    raise AttachmentLimit(f"all {len(DEVICE_NAMES)} device names of this instance are in use")
