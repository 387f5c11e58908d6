"""Block devices of a host: found by their identity, never by their order; proven ours before any write.

The serial of an EBS volume is its id, which udev also shows as a link in /dev/disk/by-id. Kernel names (nvme1n1) change
between boots. Xen types show neither serial nor link: there only the device name of the attachment and the size
identify a volume.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.hosts.device_facts import (
    EBS_LINK,
    INSTANCE_STORE_LINK,
    INSTANCE_STORE_MODEL,
    DeviceFacts,
    find_devices,
    inspect_device,
    inspect_devices,
    volume_serial,
)
from pytest_cloudbench.hosts.errors import DeviceNotFound, NotOurs
from pytest_cloudbench.hosts.host import Host, operation
from pytest_cloudbench.limits.quantities import Size

_APPEARS_S = 30.0
_LOOK_AGAIN_S = 0.2

_LIST = r"""
for each in /dev/disk/by-id/{prefix}*; do [ -b "$each" ] && readlink -f -- "$each"; done
for each in /sys/class/block/*; do
    [ -e "$each/partition" ] && continue
    read -r model 2> /dev/null < "$each/device/model" || continue
    [ "$model" = "{model}" ] && [ -b "/dev/${{each##*/}}" ] && echo "/dev/${{each##*/}}"
done
exit 0
"""


@dataclass(frozen=True)
class BlockDevice:
    """A block device that is ours: where it was found, and the identity that it must have.

    `volume_id` is None for an instance store, which has a `serial` ("AWS...") instead. `attached_as` is the device
    name of the attachment.
    """

    path: str
    size: Size
    volume_id: str | None = None
    attached_as: str | None = None
    serial: str | None = None

    @property
    def hardware(self) -> str:
        """The name of the hardware in messages: "volume vol-0abc"."""
        if self.volume_id:
            return f"volume {self.volume_id}"
        return f"instance store {self.serial}" if self.serial else "an instance store"

    @property
    def paths(self) -> tuple[str, ...]:
        """The one path."""
        return (self.path,)

    def prove(
        self, host: Host, *, mounted_at: str | None = None, only_read: bool = False
    ) -> tuple[DeviceFacts, ...]:
        """Return the device's current facts, once it is proven ours and free to overwrite; see `prove_all_ours`."""
        return tuple(prove_all_ours(host, [self], mounted_at=mounted_at, only_read=only_read))


@operation("find_device", repeatable=True)
def find_device(
    host: Host,
    volume_id: str,
    *,
    size: Size,
    attached_as: str | None = None,
    timeout_s: float = _APPEARS_S,
) -> BlockDevice:
    """Wait until the device of an attached volume appears, and return it.

    attached_as: the device name of the attachment ("/dev/sdf"), for Xen types, whose devices have no identity;
    then the size must match. Raises DeviceNotFound after `timeout_s`.
    """
    serial = volume_serial(volume_id)
    links = [f"/dev/disk/by-id/{EBS_LINK}{serial}{ending}" for ending in ("", "_1", "-ns-1")]
    deadline = time.monotonic() + timeout_s
    while True:
        for facts in find_devices(host, serial, [*links, *_attachment_names(attached_as)]):
            fits = not facts.has_identity and facts.size_bytes == size.bytes
            if facts.is_volume(volume_id) or fits:
                return BlockDevice(facts.path, size, volume_id, attached_as)
        if time.monotonic() >= deadline:
            raise DeviceNotFound(
                f"volume {volume_id} did not appear as a block device on {host.label} within {timeout_s:g} s: "
                f"no link {EBS_LINK}{serial} in /dev/disk/by-id, no device with serial {serial}"
            )
        time.sleep(_LOOK_AGAIN_S)


@operation("wait_for_size")
def wait_for_size(host: Host, device: BlockDevice, *, timeout_s: float = _APPEARS_S) -> None:
    """Wait until the host shows the new size of a device whose volume has grown. Raises DeviceNotFound."""
    deadline = time.monotonic() + timeout_s
    while (shown := inspect_device(host, device.path).size_bytes) != device.size.bytes:
        if time.monotonic() >= deadline:
            raise DeviceNotFound(
                f"{device.path} on {host.label} still has {shown:,} bytes after {timeout_s:g} s, "
                f"{device.hardware} has {device.size.bytes:,}"
            )
        time.sleep(_LOOK_AGAIN_S)


@operation("instance_store_devices", repeatable=True)
def instance_store_devices(host: Host) -> list[BlockDevice]:
    """Return the instance's own NVMe disks, sorted by path; an empty list if it has none."""
    script = _LIST.format(prefix=INSTANCE_STORE_LINK, model=INSTANCE_STORE_MODEL)
    output = host.run(["sh", "-c", script], idempotent=True).stdout
    found = [inspect_device(host, path) for path in sorted(set(output.split()))]
    return [
        BlockDevice(facts.path, Size(facts.size_bytes), serial=facts.instance_store_serial) for facts in found
    ]


def find_instance_store(host: Host, count: int, *, timeout_s: float = _APPEARS_S) -> list[BlockDevice]:
    """Wait until all `count` disks of the instance store appear, and return them. Raises DeviceNotFound."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = instance_store_devices(host)
        if len(found) == count:
            return found
        if len(found) > count or time.monotonic() >= deadline:
            paths = f" ({', '.join(device.path for device in found)})" if found else ""
            raise DeviceNotFound(
                f"{host.label} has {len(found)} disks of an instance store{paths}, DescribeInstanceTypes says {count}: "
                f"such a disk has the model {INSTANCE_STORE_MODEL} or a link {INSTANCE_STORE_LINK}..."
            )
        time.sleep(_LOOK_AGAIN_S)


@operation("prove_all_ours", repeatable=True)
def prove_all_ours(
    host: Host,
    devices: Sequence[BlockDevice],
    *,
    mounted_at: str | None = None,
    held_by: str | None = None,
    only_read: bool = False,
) -> list[DeviceFacts]:
    """Return the devices' current facts, once all are proven to be ours and free to overwrite.

    Each must be a whole, writable block device of the right size, with the identity of its volume or of the instance
    store (on Xen: without identity, under the name of the attachment). Nothing may use it: no mount, swap or array.
    mounted_at: the one directory where we may have mounted them.
    held_by: the kernel name of the one array ("md127") that may consist of them.
    only_read: partitions and read-only devices are accepted too.
    Raises NotOurs listing every mismatch of every device, or DeviceNotFound.
    """
    sentences = []
    looked_at = inspect_devices(host, [device.path for device in devices])
    for device, facts in zip(devices, looked_at, strict=True):
        problems = in_use(facts, mounted_at, held_by)
        if not only_read:
            problems += not_to_overwrite(facts)
        if facts.path != device.path:
            problems.append(f"leads to {facts.path}")
        if facts.size_bytes != device.size.bytes:
            problems.append(f"has {facts.size_bytes:,} bytes, not {device.size.bytes:,}")
        problems += _identity_problems(facts, device)
        if problems:
            sentences.append(
                f"{device.path} on {host.label} is not proven to be {device.hardware}, "
                f"{'it is not read' if only_read else 'nothing is written to it'}: it {', and it '.join(problems)}"
                f"{directory_instead(facts, mounted_at)}"
            )
    if sentences:
        raise NotOurs("; ".join(sentences))
    return looked_at


def _identity_problems(facts: DeviceFacts, device: BlockDevice) -> list[str]:
    if device.volume_id is None:
        return _store_identity_problems(facts, device)
    if facts.is_volume(device.volume_id):
        return []
    if facts.has_identity:
        return [f"says it is {facts.serial or ', '.join(facts.links)}"]
    if facts.path not in _attachment_names(device.attached_as):
        return ["has no serial and no by-id link that names the volume"]
    return []


def _store_identity_problems(facts: DeviceFacts, device: BlockDevice) -> list[str]:
    if not facts.is_instance_store:
        return [
            f"has {f'the model {facts.model}' if facts.model else 'no model'}, not {INSTANCE_STORE_MODEL}"
        ]
    if device.serial not in (None, facts.instance_store_serial):
        return [f"says it is {facts.instance_store_serial}: the instance has other local disks now"]
    return []


def in_use(device: DeviceFacts, mounted_at: str | None = None, held_by: str | None = None) -> list[str]:
    """Return what uses a device, except our own mount and array, as ends of a sentence."""
    problems = []
    elsewhere = [mount for mount in device.mounts if mount != mounted_at]
    if "/" in elsewhere:
        problems.append("holds the root file system")
    elif elsewhere:
        problems.append(f"is mounted on {', '.join(elsewhere)}")
    allowed = {held_by, "btrfs" if mounted_at in device.mounts else None}
    holders = [holder for holder in device.used_by if holder not in allowed]
    if holders:
        problems.append(f"is in use by {', '.join(holders)}")
    if device.is_partition:
        problems.append("is a partition, not a whole device")
    return problems


def directory_instead(device: DeviceFacts, mounted_at: str | None = None) -> str:
    """Return a hint for a device that is mounted elsewhere, as the end of a sentence; "" for any other."""
    mounts = [each for each in device.mounts if each not in (mounted_at, "/")]
    return f"; use directory({mounts[0]!r}) to load the file system" if mounts else ""


def not_to_overwrite(device: DeviceFacts) -> list[str]:
    """Return what else forbids writing to a device, as ends of a sentence."""
    problems = []
    if device.has_partitions:
        problems.append("has partitions")
    if device.read_only:
        problems.append("is read-only")
    return problems


def _attachment_names(attached_as: str | None) -> list[str]:
    """Return the names under which Xen shows an attachment: /dev/sdf is /dev/xvdf there."""
    if not attached_as:
        return []
    names = [attached_as]
    if attached_as.startswith("/dev/sd"):
        names.insert(0, attached_as.replace("/dev/sd", "/dev/xvd", 1))
    return names
