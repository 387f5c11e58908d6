"""Block devices as a host shows them at one moment, identified by their kernel number: names can mislead.

Also the disks that a directory's file system lies on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cloudbench.hosts.errors import DeviceNotFound
from pytest_cloudbench.hosts.host import Host, operation

EBS_LINK = "nvme-Amazon_Elastic_Block_Store_"
INSTANCE_STORE_LINK = "nvme-Amazon_EC2_NVMe_Instance_Storage_"
INSTANCE_STORE_MODEL = "Amazon EC2 NVMe Instance Storage"

_VOLUME_ID = re.compile(r"vol-?[0-9a-f]{8,32}\Z")

# Replaces the arguments (a serial, then paths) with the paths that exist and those of all devices with that serial.
_FIND = r"""
serial=$1; shift
found=
for each; do [ -b "$each" ] && found="$found $each"; done
for each in /sys/class/block/*; do
    [ -e "$each/partition" ] && continue
    read -r its 2> /dev/null < "$each/device/serial" || read -r its 2> /dev/null < "$each/serial" || continue
    [ "$its" = "$serial" ] && found="$found /dev/${each##*/}"
done
set -- $found
"""

# Reads sysfs and /proc: lsblk may show a device node under another name. The shell itself reads files of one line,
# because starting processes would take most of the time.
_INSPECT = r"""
# Not echo: in some shells it interprets backslashes.
say() { printf '%s\n' "$1"; }
# Some drivers end the line without a newline, which read reports as an error.
line_of() { [ -r "$2" ] && { read -r line < "$2" || [ -n "$line" ]; } && say "$1=$line"; }
number_of() { set -- $(stat -L -c '%t %T' -- "$1"); echo $((0x$1)):$((0x$2)); }
newline='
'
# The target of every link, line by line, in one command: an instance with many volumes has a hundred links.
leads=$(readlink -m -- /dev/disk/by-id/*)$newline
for asked; do
    path=$(readlink -f -- "$asked")
    say "device=$asked"
    say "path=$path"
    if [ ! -e "$path" ]; then say "kind=missing"; continue; fi
    if [ ! -b "$path" ]; then say "kind=$(stat -L -c %F -- "$path")"; continue; fi
    say "kind=block"
    number=$(number_of "$path")
    say "number=$number"
    sys=/sys/dev/block/$number
    line_of sectors $sys/size
    line_of ro $sys/ro
    [ -e $sys/partition ] && say "partition=1"
    for each in $sys/device/serial $sys/serial; do
        line_of serial $each && break
    done
    line_of model $sys/device/model
    for each in $sys/holders/* $sys/*/holders/*; do [ -e "$each" ] && say "holder=${each##*/}"; done
    for each in $sys/slaves/*; do line_of member "$each/dev"; done
    for each in $sys/*/partition; do line_of part "${each%/partition}/dev"; done
    for each in /sys/fs/btrfs/*/devices/*; do
        [ -r "$each/dev" ] && read -r its < "$each/dev" && [ "$its" = "$number" ] || continue
        say "holder=btrfs"
        for other in "${each%/*}"/*; do line_of beside "$other/dev"; done
    done
    rest=$leads
    for each in /dev/disk/by-id/*; do
        [ "${rest%%"$newline"*}" = "$path" ] && say "link=${each##*/}"
        rest=${rest#*"$newline"}
    done
done
say "device="
mounts=$(sed "s/^/mount=/" /proc/self/mountinfo)
say "$mounts"
# btrfs is mounted under a number of its own, and shows one of its devices by the name used to mount it.
case $mounts in *" - btrfs "*)
    say "$mounts" | sed -n 's/.* - btrfs \([^ ]*\) .*/\1/p' | sort -u | while read -r each; do
        if [ -b "$each" ]; then say "source=$(number_of "$each") $each"
        elif [ -r "/sys/class/block/${each##*/}/dev" ]; then
            say "source=$(cat "/sys/class/block/${each##*/}/dev") $each"
        fi
    done
esac
while read -r file rest; do [ -b "$file" ] && say "swap=$(readlink -f -- "$file")"; done < /proc/swaps
exit 0
"""


@dataclass(frozen=True)
class DeviceFacts:
    """A block device as the host shows it at one moment.

    `number` is the kernel's major:minor. `mounts` lists where the device or a partition of it is mounted,
    `used_by` what else uses one of them (device mapper, RAID, swap). `links` are its names in /dev/disk/by-id.
    `members` are the numbers of an array's devices.
    """

    path: str
    number: str
    size_bytes: int
    serial: str | None = None
    model: str | None = None
    links: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    used_by: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    is_partition: bool = False
    has_partitions: bool = False
    read_only: bool = False

    def is_volume(self, volume_id: str) -> bool:
        """Return whether the serial or a by-id link of the device names this EBS volume."""
        serial = volume_serial(volume_id)
        return self.serial == serial or any(_link_names(link, EBS_LINK + serial) for link in self.links)

    @property
    def is_instance_store(self) -> bool:
        """Whether the model or a by-id link of the device says that it is a local disk of the instance."""
        return self.model == INSTANCE_STORE_MODEL or any(
            link.startswith(INSTANCE_STORE_LINK) for link in self.links
        )

    @property
    def instance_store_serial(self) -> str | None:
        """The serial of a local disk, from the device or its links; None if it has none or is not a local disk."""
        if not self.is_instance_store:
            return None
        if self.serial:
            return self.serial
        named = [link.removeprefix(INSTANCE_STORE_LINK) for link in self.links if INSTANCE_STORE_LINK in link]
        return min(named, key=len, default=None)

    @property
    def has_identity(self) -> bool:
        """Whether the device has a serial or a by-id link of EC2 at all."""
        return bool(self.serial) or any(
            link.startswith((EBS_LINK, INSTANCE_STORE_LINK)) for link in self.links
        )


def volume_serial(volume_id: str) -> str:
    """Return the serial of a volume's device: its id without the dash. Raises ValueError for an invalid id."""
    if not _VOLUME_ID.match(volume_id):
        raise ValueError(f"invalid volume id {volume_id!r}: expected vol- and hexadecimal digits")
    return volume_id.replace("-", "")


@operation("inspect_device", repeatable=True)
def inspect_device(host: Host, path: str) -> DeviceFacts:
    """Return the current facts of `path` on the host. Raises DeviceNotFound if it is missing or not a block device."""
    return inspect_devices(host, [path])[0]


def inspect_devices(host: Host, paths: Sequence[str]) -> list[DeviceFacts]:
    """Return the current facts of each of `paths` on the host, by one command. Raises DeviceNotFound."""
    found = _facts(host.run(["sh", "-c", _INSPECT, "sh", *paths], idempotent=True).stdout)
    if len(found) != len(paths):
        raise DeviceNotFound(f"{host.label} listed {len(found)} devices when asked for {len(paths)}")
    for path, (facts, _) in zip(paths, found, strict=True):
        kind = _first(facts, "kind")
        if kind == "missing":
            raise DeviceNotFound(f"{path} does not exist on {host.label}")
        if kind != "block":
            raise DeviceNotFound(
                f"{path} on {host.label} is a {kind or 'file of unknown kind'}, not a block device"
            )
    return [_device_facts(*each) for each in found]


def find_devices(host: Host, serial: str, paths: Sequence[str]) -> list[DeviceFacts]:
    """Return the block devices at those of `paths` that exist, and all with this serial, by one command."""
    found = _facts(host.run(["sh", "-c", _FIND + _INSPECT, "sh", serial, *paths], idempotent=True).stdout)
    return [_device_facts(*each) for each in found if _first(each[0], "kind") == "block"]


def _facts(output: str) -> list[tuple[dict[str, list[str]], dict[str, list[str]]]]:
    """Parse the output of `_INSPECT`: return the facts of each device, paired with the facts of mounts and swap.

    Raises DeviceNotFound if the output is incomplete: a device in use would look unused.
    """
    found: list[dict[str, list[str]]] = []
    for line in output.splitlines():
        key, _, value = line.partition("=")
        if key == "device":
            found.append({})
        if not found:
            raise DeviceNotFound(
                f"the inspection of devices began with {line[:80]!r}: see what a login prints there"
            )
        found[-1].setdefault(key, []).append(value.strip())
    if not found or found[-1].get("device") != [""] or "mount" not in found[-1]:
        raise DeviceNotFound("the inspection of devices ended before it listed what is mounted")
    *each_device, surroundings = found
    return [(facts, surroundings) for facts in each_device]


def _device_facts(facts: dict[str, list[str]], surroundings: dict[str, list[str]]) -> DeviceFacts:
    path = _first(facts, "path") or ""
    number = _first(facts, "number") or ""
    parts = facts.get("part", [])
    links = tuple(facts.get("link", []))
    numbers = {number, *parts}
    sources = {path, *(f"/dev/disk/by-id/{link}" for link in links)}
    for source in surroundings.get("source", []):
        source_number, _, name = source.partition(" ")
        if source_number in {*numbers, *facts.get("beside", [])}:
            sources.add(name)
    mounts = []
    for line in surroundings.get("mount", []):
        # "id parent major:minor root mount-point options... - type source super-options"
        before, _, after = line.partition(" - ")
        fields, mounted = before.split(), after.split()
        if len(fields) < 5 or len(mounted) < 2:
            continue
        if fields[2] in numbers or mounted[1] in sources:
            mounts.append(_unescaped(fields[4]))
    used_by = [
        *facts.get("holder", []),
        *("swap" for swap in surroundings.get("swap", []) if swap == path),
    ]
    return DeviceFacts(
        path=path,
        number=number,
        size_bytes=_sectors(facts) * 512,
        serial=_first(facts, "serial") or None,
        model=_first(facts, "model") or None,
        links=links,
        mounts=tuple(dict.fromkeys(mounts)),
        used_by=tuple(dict.fromkeys(used_by)),
        members=tuple(facts.get("member", [])),
        is_partition=bool(facts.get("partition")),
        has_partitions=bool(parts),
        read_only=_first(facts, "ro") == "1",
    )


def _sectors(facts: dict[str, list[str]]) -> int:
    text = _first(facts, "sectors") or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise DeviceNotFound(
            f"the size of {_first(facts, 'path')} is {text[:40]!r} sectors, which is not a number"
        )
    return int(text)


def _link_names(link: str, name: str) -> bool:
    return link in (name, f"{name}_1", f"{name}-ns-1")


def _first(facts: dict[str, list[str]], key: str) -> str | None:
    values = facts.get(key)
    return values[0] if values else None


def _unescaped(text: str) -> str:
    """Return a path of mountinfo, where spaces are written as \\040."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


# Goes down from the mounted device: from a partition to its disk, from an array or a mapped device to its members. A
# device that lies on no other keeps the name by which it was mounted, which may exist only on a region's host.
_BELOW = r"""
source=$(findmnt -n -v -o SOURCE -T "$1") && [ -b "$source" ] || exit 0
number_of() { set -- $(stat -L -c '%t %T' -- "$1"); echo $((0x$1)):$((0x$2)); }
below() {
    found=
    [ -e "$1/partition" ] && { below "$(readlink -f "$1/..")" "/dev/$(basename "$(readlink -f "$1/..")")"; return; }
    for each in "$1"/slaves/*; do
        [ -e "$each" ] || continue
        found=1
        (below "$(readlink -f "$each")" "/dev/${each##*/}")
    done
    [ -n "$found" ] || echo "$2"
}
number=$(number_of "$source")
for each in /sys/fs/btrfs/*/devices/*; do
    [ "$(cat "$each/dev" 2> /dev/null)" = "$number" ] || continue
    for other in "${each%/*}"/*; do
        [ "$(cat "$other/dev")" = "$number" ] || (below "$(readlink -f "$other")" "/dev/${other##*/}")
    done
done
below "$(readlink -f "/sys/dev/block/$number")" "$source"
"""


@operation("disks_below", repeatable=True)
def disks_below(host: Host, directory: str) -> list[DeviceFacts]:
    """Return the whole disks below a directory, each once; none if its file system is not on a block device."""
    result = host.run(["sh", "-c", _BELOW, "sh", directory], check=False, idempotent=True)
    paths = list(dict.fromkeys(result.stdout.splitlines()))
    try:
        return inspect_devices(host, paths) if paths else []
    except DeviceNotFound:  # a device without a node of its own
        return []
