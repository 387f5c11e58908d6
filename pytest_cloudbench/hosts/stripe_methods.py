"""By what a host can stripe: md, else LVM, else btrfs, found by looking at what its root and its kernel may do.

A host whose root may make no device nodes (a container, an instance of an embedded region) shares its
kernel with others: an array made there would be the whole machine's. Such a host stripes by btrfs alone,
which needs no device of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_cloudbench.hosts.errors import StripeError, ToolMissing

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.connection import HostConnection

Method = Literal["md", "LVM", "btrfs"]
METHODS: tuple[Method, ...] = ("md", "LVM", "btrfs")

_TOOLS: dict[Method, tuple[str, ...]] = {
    "md": ("mdadm",),
    "LVM": ("pvcreate", "vgcreate", "lvcreate"),
    "btrfs": ("mkfs.btrfs", "btrfs"),
}

# Bit 27 of the capabilities is CAP_MKNOD. Modules are loaded only where nodes may be made: there the kernel
# is the host's own.
_LOOK = r"""
caps=0x$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
[ $((caps >> 27 & 1)) = 1 ] && echo nodes
if [ $((caps >> 27 & 1)) = 1 ]; then
    grep -qsw raid0 /proc/mdstat || modprobe -q raid0 2> /dev/null
    grep -qsw raid0 /proc/mdstat && echo md
    grep -qsw device-mapper /proc/misc || modprobe -q dm_mod 2> /dev/null
    grep -qsw device-mapper /proc/misc && echo LVM
fi
# Where it may not be loaded by hand, mounting loads it.
grep -qsw btrfs /proc/filesystems || modprobe -q -n btrfs 2> /dev/null && echo btrfs
exit 0
"""


@dataclass(frozen=True)
class ChosenMethod:
    """The method to stripe by; `why` says why those preferred to it cannot be had, "" for the first."""

    method: Method
    why: str = ""


def able_methods(host: HostConnection) -> tuple[Method, ...]:
    """What the host's kernel can stripe by, and its root may; whether the tools are there is not looked at."""
    said = _look(host)
    return tuple(method for method in METHODS if method in said)


def _look(host: HostConnection) -> list[str]:
    return host.run(["sh", "-c", _LOOK], sudo=True, idempotent=True).stdout.split()


def choose_method(host: HostConnection) -> ChosenMethod:
    """The first of md, LVM and btrfs that the host has; a tool that is missing is installed.

    Raises StripeError, with the reason for each, where the host has none.
    """
    able = _look(host)
    not_by: dict[Method, str] = {}
    for method in METHODS:
        if method not in able:
            not_by[method] = _why_not(method, able)
            continue
        try:
            for tool in _TOOLS[method]:
                host.ensure_tool(tool)
        except ToolMissing as error:
            not_by[method] = str(error)
            continue
        return ChosenMethod(method, _in_words(not_by))
    raise StripeError(f"{host.label} cannot stripe: {_in_words(not_by)}")


def _in_words(not_by: Mapping[Method, str]) -> str:
    """ "no md and no LVM: its root may make no device nodes"."""
    reasons: dict[str, list[Method]] = {}
    for method, reason in not_by.items():
        reasons.setdefault(reason, []).append(method)
    return "; ".join(
        f"{' and '.join(f'no {method}' for method in methods)}: {reason}"
        for reason, methods in reasons.items()
    )


def _why_not(method: Method, able: Sequence[str]) -> str:
    if method != "btrfs" and "nodes" not in able:
        return "its root may make no device nodes"
    module = {"md": "raid0", "LVM": "dm_mod", "btrfs": "btrfs"}[method]
    return f"its kernel has no {module}"
