"""The methods by which a host can stripe devices: md, else LVM, else btrfs; and how md and LVM do it.

A host whose root may not make device nodes (a container, an instance of an embedded region) shares its kernel with
others, and an array made there would belong to the whole machine. Such a host stripes by btrfs, which needs no device
of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytest_cloudbench.hosts.device_facts import inspect_device, inspect_devices
from pytest_cloudbench.hosts.errors import CommandFailed, DeviceNotFound, HostError, StripeError, ToolMissing
from pytest_cloudbench.hosts.host import Host
from pytest_cloudbench.limits.quantities import Size

Method = Literal["md", "LVM", "btrfs"]
METHODS: tuple[Method, ...] = ("md", "LVM", "btrfs")

_TOOLS: dict[Method, tuple[str, ...]] = {
    "md": ("mdadm",),
    "LVM": ("pvcreate", "vgcreate", "lvcreate"),
    "btrfs": ("mkfs.btrfs", "btrfs"),
}

# Bit 27 of the capabilities is CAP_MKNOD. Modules are loaded only if nodes may be made: then the kernel is the
# host's own.
_LOOK = r"""
caps=0x$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
[ $((caps >> 27 & 1)) = 1 ] && echo nodes
if [ $((caps >> 27 & 1)) = 1 ]; then
    grep -qsw raid0 /proc/mdstat || modprobe -q raid0 2> /dev/null
    grep -qsw raid0 /proc/mdstat && echo md
    grep -qsw device-mapper /proc/misc || modprobe -q dm_mod 2> /dev/null
    grep -qsw device-mapper /proc/misc && echo LVM
fi
# If it may not be loaded here, mounting loads it.
grep -qsw btrfs /proc/filesystems || modprobe -q -n btrfs 2> /dev/null && echo btrfs
exit 0
"""


@dataclass(frozen=True)
class ChosenMethod:
    """The method to stripe by. `why` says why earlier methods were not chosen, "" for the first one."""

    method: Method
    why: str = ""


def _look(host: Host) -> list[str]:
    """Return the methods that the host's kernel has and its root may use; the tools may still be missing."""
    return host.run(["sh", "-c", _LOOK], sudo=True, idempotent=True).stdout.split()


def choose_method(host: Host) -> ChosenMethod:
    """Return the first of md, LVM and btrfs that works on the host; missing tools are installed.

    Raises StripeError with the reason for each method if none works.
    """
    able = _look(host)
    rejected: dict[Method, str] = {}
    for method in METHODS:
        if method not in able:
            rejected[method] = _why_not(method, able)
            continue
        try:
            for tool in _TOOLS[method]:
                host.ensure_tool(tool)
        except ToolMissing as error:
            rejected[method] = str(error)
            continue
        return ChosenMethod(method, _reasons(rejected))
    raise StripeError(f"{host.label} cannot stripe: {_reasons(rejected)}")


def _reasons(rejected: Mapping[Method, str]) -> str:
    """Return the reasons as text, such as "no md and no LVM: its root may not make device nodes"."""
    reasons: dict[str, list[Method]] = {}
    for method, reason in rejected.items():
        reasons.setdefault(reason, []).append(method)
    return "; ".join(
        f"{' and '.join(f'no {method}' for method in methods)}: {reason}"
        for reason, methods in reasons.items()
    )


def _why_not(method: Method, able: Sequence[str]) -> str:
    if method != "btrfs" and "nodes" not in able:
        return "its root may not make device nodes"
    module = {"md": "raid0", "LVM": "dm_mod", "btrfs": "btrfs"}[method]
    return f"its kernel has no {module}"


# RAID 0 by md -----------------------------------------------------------------------------------

_END_TRIES = 8

_SETTLE = "[ -S /run/udev/control ] && udevadm settle --timeout=10"

# Between stopping an array and wiping its superblocks, udev may assemble it again. So one follows the other at once,
# and the caller checks whether the members are free.
_END = f"""\
array=$1; shift
{_SETTLE}
[ -b "$array" ] && mdadm --quiet --stop "$array"
mdadm --quiet --zero-superblock "$@"
{_SETTLE}
exit 0
"""


def make_array(host: Host, name: str, paths: Sequence[str], chunk: Size) -> str:
    """Make an md array of level 0 over devices that the caller has proven; return its path, such as "/dev/md127".

    Raises StripeError with mdadm's message, after wiping the superblocks that it may have written.
    """
    command = [
        "mdadm", "--create", f"/dev/md/{name}", "--quiet", "--run", "--level=0", "--metadata=1.2",
        f"--name={name}", f"--chunk={chunk.bytes // 1024}", f"--raid-devices={len(paths)}", *paths,
    ]  # fmt: skip
    try:
        host.run(command, sudo=True, timeout_s=_MAKE_S)
        host.run(["sh", "-c", f"{_SETTLE}; exit 0"], sudo=True)
        return _array_of(host, paths)
    except (CommandFailed, StripeError) as error:
        with contextlib.suppress(HostError):
            end_array(host, f"/dev/md/{name}", paths)
        raise StripeError(f"md could not stripe {', '.join(paths)}: {error}") from error


def find_array(host: Host, name: str, paths: Sequence[str]) -> str:
    """Return the path of the existing array of these devices; assemble it if udev has not. Raises StripeError."""
    host.run(["sh", "-c", f"{_SETTLE}; exit 0"], sudo=True)
    if not any(facts.used_by for facts in inspect_devices(host, paths)):
        try:
            host.run(["mdadm", "--assemble", "--quiet", f"/dev/md/{name}", *paths], sudo=True)
        except CommandFailed as error:
            raise StripeError(f"md could not assemble {', '.join(paths)} again: {error}") from error
    return _array_of(host, paths)


def _array_of(host: Host, paths: Sequence[str]) -> str:
    holders = {holder for facts in inspect_devices(host, paths) for holder in facts.used_by}
    if len(holders) != 1:
        raise StripeError(
            f"{', '.join(paths)} on {host.label} are used by {', '.join(sorted(holders)) or 'nothing'}, "
            "expected one array"
        )
    return f"/dev/{holders.pop()}"


def end_array(host: Host, path: str, members: Sequence[str]) -> None:
    """Stop the array and wipe the superblocks of its members, so that nothing assembles it again.

    Raises StripeError if the members are still in use after several attempts.
    """
    holders: set[str] = set()
    for _ in range(_END_TRIES):
        host.run(["sh", "-c", _END, "sh", path, *members], sudo=True)
        holders = {holder for facts in inspect_devices(host, members) for holder in facts.used_by}
        if not holders:
            return
        # udev has assembled it again, perhaps under another number.
        path = f"/dev/{sorted(holders)[0]}"
    raise StripeError(
        f"{', '.join(members)} on {host.label} are still used by {', '.join(sorted(holders))}: "
        "unmount the file system on it, or close the programs that have it open"
    )


# A striped logical volume by LVM, in a volume group of its own ----------------------------------

_MAKE_S = 120.0
_LV = "data"


def make_logical_volume(host: Host, name: str, paths: Sequence[str], chunk: Size) -> str:
    """Make a volume group `name` of the devices and one volume striped over all of them; return its path in /dev.

    The caller has proven the devices. Raises StripeError with LVM's message, after undoing what was made.
    """
    commands = [
        ["pvcreate", "-q", "-y", *paths],
        ["vgcreate", "-q", "-y", name, *paths],
        ["lvcreate", "-q", "-y", "-i", str(len(paths)), "-I", f"{chunk.bytes // 1024}k",
         "-l", "100%FREE", "-n", _LV, name],
    ]  # fmt: skip
    try:
        for command in commands:
            host.run(command, sudo=True, timeout_s=_MAKE_S)
        return inspect_device(host, f"/dev/{name}/{_LV}").path
    except (CommandFailed, DeviceNotFound) as error:
        with contextlib.suppress(HostError):
            end_logical_volume(host, name, paths)
        raise StripeError(f"LVM could not stripe {', '.join(paths)}: {error}") from error


def find_logical_volume(host: Host, name: str) -> str:
    """Activate the existing volume group, and return the path of its volume. Raises StripeError."""
    try:
        host.run(["vgchange", "-q", "-a", "y", name], sudo=True)
        return inspect_device(host, f"/dev/{name}/{_LV}").path
    except (CommandFailed, DeviceNotFound) as error:
        raise StripeError(
            f"the volume group {name} on {host.label} cannot be activated or found: {error}"
        ) from error


def end_logical_volume(host: Host, name: str, members: Sequence[str]) -> None:
    """Remove the volume group with its volume, and LVM's labels from the members. Raises StripeError."""
    script = (
        'name=$1; shift; if vgs "$name" > /dev/null 2>&1; then vgremove -q -f -y "$name" || exit 1; fi; '
        'for each; do if pvs "$each" > /dev/null 2>&1; then pvremove -q -f -y "$each" || exit 1; fi; done'
    )
    try:
        host.run(["sh", "-c", script, "sh", name, *members], sudo=True, timeout_s=_MAKE_S)
    except CommandFailed as error:
        raise StripeError(
            f"the volume group {name} on {host.label} could not be removed: {error.stderr.strip()}"
        ) from error
