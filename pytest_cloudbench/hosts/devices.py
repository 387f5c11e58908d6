"""Block devices of a host: found by what they are, never by order; proven ours before any write.

An EBS volume carries its id as its serial, which udev also shows as a link in /dev/disk/by-id. Kernel
names (nvme1n1) change between boots. Xen types show neither serial nor link: there the name under which
the volume was attached is the only trace, so its size must fit as well.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.errors import DeviceNotFound, NotOurs
from pytest_cloudbench.promises.quantities import Size

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.connection import HostConnection

EBS_LINK = "nvme-Amazon_Elastic_Block_Store_"
INSTANCE_STORE_LINK = "nvme-Amazon_EC2_NVMe_Instance_Storage_"
INSTANCE_STORE_MODEL = "Amazon EC2 NVMe Instance Storage"

_VOLUME_ID = re.compile(r"vol-?[0-9a-f]{8,32}\Z")
_APPEARS_S = 30.0
_LOOK_AGAIN_S = 0.2

# For each argument: what it is now, by kernel number, so that no name can deceive. Plain sysfs and
# /proc, because a device node may be seen by lsblk under another name than the host gives it.
_INSPECT = r"""
# Not echo: some shells read backslashes in it.
say() { printf '%s\n' "$1"; }
for asked; do
    path=$(readlink -f -- "$asked")
    say "device=$asked"
    say "path=$path"
    if [ ! -e "$path" ]; then say "kind=missing"; continue; fi
    if [ ! -b "$path" ]; then say "kind=$(stat -L -c %F -- "$path")"; continue; fi
    say "kind=block"
    number=$((0x$(stat -L -c %t -- "$path"))):$((0x$(stat -L -c %T -- "$path")))
    say "number=$number"
    sys=/sys/dev/block/$number
    [ -r $sys/size ] && say "sectors=$(cat $sys/size)"
    [ -r $sys/ro ] && say "ro=$(cat $sys/ro)"
    [ -e $sys/partition ] && say "partition=1"
    for each in $sys/device/serial $sys/serial; do
        [ -r $each ] && say "serial=$(cat $each)" && break
    done
    [ -r $sys/device/model ] && say "model=$(cat $sys/device/model)"
    for each in $sys/holders/*; do [ -e "$each" ] && say "holder=${each##*/}"; done
    for each in $sys/*/partition; do [ -e "$each" ] && say "part=$(cat "${each%/partition}/dev")"; done
    for each in /sys/fs/btrfs/*/devices/*; do
        [ -r "$each/dev" ] && [ "$(cat "$each/dev")" = "$number" ] && say "holder=btrfs"
    done
    for each in /dev/disk/by-id/*; do
        [ "$(readlink -f -- "$each")" = "$path" ] && say "link=${each##*/}"
    done
    say "end="
done
sed "s/^/mount=/" /proc/self/mountinfo
while read -r file rest; do [ -b "$file" ] && say "swap=$(readlink -f -- "$file")"; done < /proc/swaps
exit 0
"""

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
    """A block device that was found to be ours, and what it was meant to be.

    `volume_id` is None for an instance store. `attached_as` is the device name of the attachment.
    """

    path: str
    size: Size
    volume_id: str | None = None
    attached_as: str | None = None

    @property
    def meant(self) -> str:
        """For messages: "volume vol-0abc"."""
        return f"volume {self.volume_id}" if self.volume_id else "an instance store"


@dataclass(frozen=True)
class DeviceFacts:
    """A block device as the host shows it at one moment.

    `number` is the kernel's major:minor. `mounts` lists where it or a partition of it is mounted,
    `used_by` what else holds it (device mapper, RAID, swap). `links` are its names in /dev/disk/by-id.
    """

    path: str
    number: str
    size_bytes: int
    serial: str | None = None
    model: str | None = None
    links: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    used_by: tuple[str, ...] = ()
    is_partition: bool = False
    has_partitions: bool = False
    read_only: bool = False

    def is_volume(self, volume_id: str) -> bool:
        """Does the device itself say that it is this EBS volume?"""
        serial = volume_serial(volume_id)
        return self.serial == serial or any(_link_names(link, EBS_LINK + serial) for link in self.links)

    @property
    def is_instance_store(self) -> bool:
        """Does the device itself say that it is a local disk of the instance?"""
        return self.model == INSTANCE_STORE_MODEL or any(
            link.startswith(INSTANCE_STORE_LINK) for link in self.links
        )

    @property
    def says_what_it_is(self) -> bool:
        """Has it a serial or a by-id link of EC2 at all?"""
        return bool(self.serial) or any(
            link.startswith((EBS_LINK, INSTANCE_STORE_LINK)) for link in self.links
        )


def volume_serial(volume_id: str) -> str:
    """The serial of a volume's device: its id without the dash. ValueError for what is no volume id."""
    if not _VOLUME_ID.match(volume_id):
        raise ValueError(f"{volume_id!r} is no volume id: vol- and hexadecimal digits")
    return volume_id.replace("-", "")


def inspect_device(host: HostConnection, path: str) -> DeviceFacts:
    """What `path` is on the host now. DeviceNotFound when it is missing or no block device."""
    said = host.run(["sh", "-c", _INSPECT, "sh", path], idempotent=True).stdout
    facts: dict[str, list[str]] = {}
    for line in said.splitlines():
        key, _, value = line.partition("=")
        facts.setdefault(key, []).append(value.strip())
    kind = _first(facts, "kind")
    if kind == "missing":
        raise DeviceNotFound(f"{path} does not exist on {host.label}")
    if kind != "block":
        raise DeviceNotFound(
            f"{path} on {host.label} is a {kind or 'thing of unknown kind'}, not a block device"
        )
    return _device_facts(facts)


def find_device(
    host: HostConnection,
    volume_id: str,
    *,
    size: Size,
    attached_as: str | None = None,
    timeout_s: float = _APPEARS_S,
) -> BlockDevice:
    """The device of an attached volume, waited for until it appears.

    attached_as: the device name of the attachment ("/dev/sdf"), used only where no device says that it
    is the volume (Xen); the size must fit then. Raises DeviceNotFound.
    """
    serial = volume_serial(volume_id)
    deadline = time.monotonic() + timeout_s
    while True:
        for path in _candidates(host, serial, attached_as):
            try:
                facts = inspect_device(host, path)
            except DeviceNotFound:
                continue
            fits = not facts.says_what_it_is and facts.size_bytes == size.bytes
            if facts.is_volume(volume_id) or fits:
                return BlockDevice(facts.path, size, volume_id, attached_as)
        if time.monotonic() >= deadline:
            raise DeviceNotFound(
                f"volume {volume_id} does not show up as a block device on {host.label} within {timeout_s:g} s: "
                f"no link {EBS_LINK}{serial} in /dev/disk/by-id, no device with serial {serial}"
            )
        time.sleep(_LOOK_AGAIN_S)


def instance_store_devices(host: HostConnection) -> list[BlockDevice]:
    """The instance's own NVMe disks, by path; empty where it has none."""
    script = _LIST.format(prefix=INSTANCE_STORE_LINK, model=INSTANCE_STORE_MODEL)
    said = host.run(["sh", "-c", script], idempotent=True).stdout
    found = [inspect_device(host, path) for path in sorted(set(said.split()))]
    return [BlockDevice(facts.path, Size(facts.size_bytes)) for facts in found]


def prove_ours(host: HostConnection, device: BlockDevice, *, mounted_at: str | None = None) -> DeviceFacts:
    """What the device is now, looked at afresh, when it is proven to be ours and free to overwrite.

    That is: a whole, writable block device of the right size, that says it is the volume (on Xen: says
    nothing and has the attachment's name) or an instance store, not mounted, no swap, held by nobody,
    not under the root file system. mounted_at: the one directory where it may be mounted (by us).
    Raises NotOurs with what does not fit, DeviceNotFound.
    """
    facts = inspect_device(host, device.path)
    problems = _in_use(facts, mounted_at)
    if facts.path != device.path:
        problems.append(f"leads to {facts.path}")
    if facts.size_bytes != device.size.bytes:
        problems.append(f"has {facts.size_bytes:,} bytes, not {device.size.bytes:,}")
    problems += _mistaken(facts, device)
    if problems:
        raise NotOurs(
            f"{device.path} on {host.label} is not proven to be {device.meant}, nothing is written to it: "
            f"it {', and it '.join(problems)}"
        )
    return facts


def _mistaken(facts: DeviceFacts, device: BlockDevice) -> list[str]:
    if device.volume_id is None:
        if facts.is_instance_store:
            return []
        return [f"says it is {facts.model or 'of no model'}, not {INSTANCE_STORE_MODEL}"]
    if facts.is_volume(device.volume_id):
        return []
    if facts.says_what_it_is:
        return [f"says it is {facts.serial or ', '.join(facts.links)}"]
    if facts.path not in _attachment_names(device.attached_as):
        return ["has no serial and no by-id link that names the volume"]
    return []


def _in_use(device: DeviceFacts, mounted_at: str | None) -> list[str]:
    problems = []
    elsewhere = [mount for mount in device.mounts if mount != mounted_at]
    if "/" in elsewhere:
        problems.append("holds the root file system")
    elif elsewhere:
        problems.append(f"is mounted on {', '.join(elsewhere)}")
    holders = [holder for holder in device.used_by if not (holder == "btrfs" and mounted_at in device.mounts)]
    if holders:
        problems.append(f"is in use by {', '.join(holders)}")
    if device.is_partition:
        problems.append("is a partition, not a whole device")
    if device.has_partitions:
        problems.append("has partitions")
    if device.read_only:
        problems.append("is read-only")
    return problems


def _candidates(host: HostConnection, serial: str, attached_as: str | None) -> list[str]:
    links = [f"/dev/disk/by-id/{EBS_LINK}{serial}{ending}" for ending in ("", "_1", "-ns-1")]
    script = (
        'serial=$1; shift; for each; do [ -b "$each" ] && echo "$each"; done; '
        "for each in /sys/class/block/*; do "
        '[ -e "$each/partition" ] && continue; '
        'read -r found 2> /dev/null < "$each/device/serial" || read -r found 2> /dev/null < "$each/serial" '
        '|| continue; [ "$found" = "$serial" ] && echo "/dev/${each##*/}"; done; exit 0'
    )
    said = host.run(
        ["sh", "-c", script, "sh", serial, *links, *_attachment_names(attached_as)], idempotent=True
    )
    return list(dict.fromkeys(said.stdout.split()))


def _attachment_names(attached_as: str | None) -> list[str]:
    """Names under which Xen shows an attachment: /dev/sdf is /dev/xvdf there."""
    if not attached_as:
        return []
    names = [attached_as]
    if attached_as.startswith("/dev/sd"):
        names.insert(0, attached_as.replace("/dev/sd", "/dev/xvd", 1))
    return names


def _link_names(link: str, wanted: str) -> bool:
    return link in (wanted, f"{wanted}_1", f"{wanted}-ns-1")


def _device_facts(facts: dict[str, list[str]]) -> DeviceFacts:
    path = _first(facts, "path") or ""
    number = _first(facts, "number") or ""
    parts = facts.get("part", [])
    links = tuple(facts.get("link", []))
    sources = {path, *(f"/dev/disk/by-id/{link}" for link in links)}
    mounts = []
    for line in facts.get("mount", []):
        # "id parent major:minor root mount-point options... - type source super-options"
        before, _, after = line.partition(" - ")
        fields, source = before.split(), after.split()
        if len(fields) < 5 or len(source) < 2:
            continue
        if fields[2] == number or fields[2] in parts or source[1] in sources:
            mounts.append(_unescaped(fields[4]))
    used_by = [*facts.get("holder", []), *("swap" for swap in facts.get("swap", []) if swap == path)]
    return DeviceFacts(
        path=path,
        number=number,
        size_bytes=int(_first(facts, "sectors") or 0) * 512,
        serial=_first(facts, "serial") or None,
        model=_first(facts, "model") or None,
        links=links,
        mounts=tuple(dict.fromkeys(mounts)),
        used_by=tuple(dict.fromkeys(used_by)),
        is_partition=bool(facts.get("partition")),
        has_partitions=bool(parts),
        read_only=_first(facts, "ro") == "1",
    )


def _first(facts: dict[str, list[str]], key: str) -> str | None:
    values = facts.get(key)
    return values[0] if values else None


def _unescaped(text: str) -> str:
    """mountinfo writes blanks and the like as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)
