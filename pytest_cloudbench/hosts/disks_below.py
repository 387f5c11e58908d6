"""The disks that a directory's file system lies on."""

from __future__ import annotations

from pytest_cloudbench.hosts.device_facts import DeviceFacts, inspect_devices
from pytest_cloudbench.hosts.errors import DeviceNotFound
from pytest_cloudbench.hosts.host import Host, operation

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
