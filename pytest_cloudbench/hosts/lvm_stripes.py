"""A striped logical volume by LVM, in a volume group of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.device_facts import inspect_device
from pytest_cloudbench.hosts.errors import CommandFailed, DeviceNotFound, HostError, StripeError
from pytest_cloudbench.limits.quantities import Size

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.connection import HostConnection

_LV = "data"
_MAKE_S = 120.0


def make_logical_volume(host: HostConnection, name: str, paths: Sequence[str], chunk: Size) -> str:
    """Make a volume group `name` of the devices and one volume striped over all of them; its path in /dev.

    The caller has proven the devices. Raises StripeError with LVM's words; what was made until then is undone.
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


def find_logical_volume(host: HostConnection, name: str) -> str:
    """The path of the volume that the devices already are, activated where that was not done. StripeError."""
    try:
        host.run(["vgchange", "-q", "-a", "y", name], sudo=True)
        return inspect_device(host, f"/dev/{name}/{_LV}").path
    except (CommandFailed, DeviceNotFound) as error:
        raise StripeError(f"the volume group {name} on {host.label} is not there again: {error}") from error


def end_logical_volume(host: HostConnection, name: str, members: Sequence[str]) -> None:
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
