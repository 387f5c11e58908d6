"""Several devices of ours as one, RAID 0: checked as a whole before anything is touched, made, proven, undone."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts import stripe_methods
from pytest_cloudbench.hosts.device_facts import DeviceFacts, inspect_device
from pytest_cloudbench.hosts.devices import BlockDevice, prove_all_ours
from pytest_cloudbench.hosts.errors import NotOurs, StripeError
from pytest_cloudbench.hosts.filesystems import refuse_overwriting, wipe
from pytest_cloudbench.hosts.host import operation
from pytest_cloudbench.hosts.stripe_methods import Method, choose_method
from pytest_cloudbench.limits.quantities import Size

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.host import Host

BTRFS_CHUNK = Size(64 * 1024)
"""The stripe length of btrfs, a constant of the kernel (BTRFS_STRIPE_LEN)."""
SMALLEST_CHUNK = Size(4 * 1024)
LARGEST_CHUNK = Size(4 * 1024**2)
"""LVM's largest stripe size: one physical extent, of 4 MiB unless told otherwise (lvcreate(8))."""


@dataclass(frozen=True)
class StripedDevices:
    """Devices striped together. By md and LVM they are one block device at `path`, of `size`.

    btrfs stripes by itself while it is mounted over them: `path` is then the first of the devices, and
    `size` that of all together. `chunk` is how many bytes lie on one device before the next one's turn.
    `why` says why the methods preferred to this one were not used.
    """

    method: Method
    name: str
    path: str
    members: tuple[BlockDevice, ...]
    chunk: Size
    size: Size
    why: str = ""

    @property
    def is_device(self) -> bool:
        """Is it a block device of its own?"""
        return self.method != "btrfs"

    @property
    def paths(self) -> tuple[str, ...]:
        """What a file system is made on: the one device, or for btrfs all of them."""
        return (self.path,) if self.is_device else tuple(member.path for member in self.members)

    @property
    def meant(self) -> str:
        """For messages: "the stripe of volume vol-0abc and volume vol-0def"."""
        return f"the stripe of {' and '.join(member.meant for member in self.members)}"

    def prove(self, host: Host, *, mounted_at: str | None = None) -> tuple[DeviceFacts, ...]:
        """Prove every member ours, held by this stripe alone, and the stripe free or mounted where told.

        Raises NotOurs, DeviceNotFound.
        """
        if not self.is_device:
            return tuple(prove_all_ours(host, self.members, mounted_at=mounted_at))
        array = inspect_device(host, self.path)
        members = prove_all_ours(host, self.members, held_by=array.path.rpartition("/")[2])
        problems = [f"is mounted on {mount}" for mount in array.mounts if mount != mounted_at]
        if array.used_by:
            problems.append(f"is in use by {', '.join(array.used_by)}")
        if sorted(array.members) != sorted(facts.number for facts in members):
            problems.append(f"consists of the devices {', '.join(array.members) or 'none'}")
        if problems:
            raise NotOurs(
                f"{self.path} on {host.label} is not proven to be {self.meant}, nothing is written to it: "
                f"it {', and it '.join(problems)}"
            )
        return (array,)


def check_chunk(chunk: Size) -> None:
    """Raise StripeError unless every method but btrfs could stripe by such a chunk."""
    in_bounds = SMALLEST_CHUNK <= chunk <= LARGEST_CHUNK
    if not in_bounds or chunk.bytes & (chunk.bytes - 1):
        raise StripeError(
            f"a chunk of {chunk} cannot be had: it is a power of two from {SMALLEST_CHUNK} to {LARGEST_CHUNK}, "
            "such as chunk='64k'"
        )


def check_members(members: Sequence[BlockDevice]) -> None:
    """Raise StripeError for devices that make no stripe: fewer than two, one given twice, unequal sizes."""
    if len(members) < 2:
        raise StripeError(f"{len(members)} device makes no stripe: give two or more")
    if len({member.path for member in members}) != len(members):
        raise StripeError(f"a device is given twice: {', '.join(member.path for member in members)}")
    if len({member.size for member in members}) != 1:
        sizes = ", ".join(f"{member.meant} {member.size}" for member in members)
        raise StripeError(
            f"devices of unequal size are not striped: beyond the smallest, fewer of them would share the load "
            f"({sizes})"
        )


@operation("stripe")
def stripe(
    host: Host, members: Sequence[BlockDevice], *, chunk: Size, overwrite: bool = False
) -> StripedDevices:
    """Stripe devices by md where the host has it, otherwise by LVM, otherwise by btrfs.

    For btrfs nothing is written yet: it comes to be with its file system. A chunk other than btrfs' own is
    not refused there; `StripedDevices.chunk` says which one it is.

    Nothing is touched before every device is proven ours and free and, without `overwrite`, found to carry
    nothing. Raises StripeError, NotOurs, DeviceNotFound, FilesystemError.
    """
    check_chunk(chunk)
    check_members(members)
    prove_all_ours(host, members)
    paths = [member.path for member in members]
    if not overwrite:
        refuse_overwriting(host, paths, "striping")
    chosen = choose_method(host)
    if overwrite:
        wipe(host, paths)
    name = f"cloudbench-{uuid.uuid4().hex[:8]}"
    size = Size(sum(member.size.bytes for member in members))
    path = paths[0]
    if chosen.method == "btrfs":
        chunk = BTRFS_CHUNK
    else:
        make = stripe_methods.make_array if chosen.method == "md" else stripe_methods.make_logical_volume
        path = make(host, name, paths, chunk)
        size = Size(inspect_device(host, path).size_bytes)
    return StripedDevices(chosen.method, name, path, tuple(members), chunk, size, chosen.why)


@operation("find_again", repeatable=True)
def find_again(host: Host, striped: StripedDevices, members: Sequence[BlockDevice]) -> StripedDevices:
    """The same stripe after a restart of its host, or on another one: devices may have other names there.

    It is assembled where the host has not done so. Raises StripeError, NotOurs when it is not proven.
    """
    paths = [member.path for member in members]
    path = paths[0]
    if striped.method == "md":
        path = stripe_methods.find_array(host, striped.name, paths)
    elif striped.method == "LVM":
        path = stripe_methods.find_logical_volume(host, striped.name)
    found = replace(striped, path=path, members=tuple(members))
    found.prove(host)
    return found


@operation("unstripe")
def unstripe(host: Host, striped: StripedDevices) -> None:
    """Make single devices of it again, which carry nothing. It must not be mounted.

    Raises NotOurs when it is, or when the devices are no longer proven ours; StripeError.
    """
    striped.prove(host)
    members = [member.path for member in striped.members]
    if striped.method == "md":
        stripe_methods.end_array(host, striped.path, members)
    elif striped.method == "LVM":
        stripe_methods.end_logical_volume(host, striped.name, members)
    else:
        # The kernel remembers devices of btrfs by number, also when they are another volume's by then.
        host.run(["btrfs", "device", "scan", "--forget", *members], sudo=True, check=False)
    wipe(host, members)
