"""RAID 0 by md: made, found by its members, ended without udev bringing it back."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.device_facts import inspect_devices
from pytest_cloudbench.hosts.errors import CommandFailed, HostError, StripeError
from pytest_cloudbench.limits.quantities import Size

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.connection import HostConnection

_MAKE_S = 120.0
_TRIES = 8

_SETTLE = "[ -S /run/udev/control ] && udevadm settle --timeout=10"

# Between stopping an array and wiping its superblocks udev may assemble it again from them: the two follow
# each other at once, and whoever calls looks whether the members are free.
_END = f"""\
array=$1; shift
{_SETTLE}
[ -b "$array" ] && mdadm --quiet --stop "$array"
mdadm --quiet --zero-superblock "$@"
{_SETTLE}
exit 0
"""


def make_array(host: HostConnection, name: str, paths: Sequence[str], chunk: Size) -> str:
    """Make an md array of level 0 over devices that the caller has proven; its path, such as "/dev/md127".

    Raises StripeError with mdadm's words; the superblocks it may have written are wiped again.
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


def find_array(host: HostConnection, name: str, paths: Sequence[str]) -> str:
    """The path of the array that the devices already are, assembled where udev has not done so. StripeError."""
    host.run(["sh", "-c", f"{_SETTLE}; exit 0"], sudo=True)
    if not any(facts.used_by for facts in inspect_devices(host, paths)):
        try:
            host.run(["mdadm", "--assemble", "--quiet", f"/dev/md/{name}", *paths], sudo=True)
        except CommandFailed as error:
            raise StripeError(f"md could not assemble {', '.join(paths)} again: {error}") from error
    return _array_of(host, paths)


def _array_of(host: HostConnection, paths: Sequence[str]) -> str:
    holders = {holder for facts in inspect_devices(host, paths) for holder in facts.used_by}
    if len(holders) != 1:
        raise StripeError(
            f"{', '.join(paths)} on {host.label} are held by {', '.join(sorted(holders)) or 'nobody'}, "
            "not by one array"
        )
    return f"/dev/{holders.pop()}"


def end_array(host: HostConnection, path: str, members: Sequence[str]) -> None:
    """Stop the array and wipe the superblocks of its members, so that nothing assembles it again.

    Raises StripeError when the members are still held after several tries.
    """
    holders: set[str] = set()
    for _ in range(_TRIES):
        host.run(["sh", "-c", _END, "sh", path, *members], sudo=True)
        holders = {holder for facts in inspect_devices(host, members) for holder in facts.used_by}
        if not holders:
            return
        # Assembled again, it may have another number.
        path = f"/dev/{sorted(holders)[0]}"
    raise StripeError(
        f"{', '.join(members)} on {host.label} are still held by {', '.join(sorted(holders))}: "
        "unmount what lies on it, or close what has it open"
    )
