"""Stripes (RAID 0) over devices that are ours. All devices are checked before anything is written to one of them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_cloudbench.hosts import stripe_methods
from pytest_cloudbench.hosts.content import refuse_overwriting, wipe
from pytest_cloudbench.hosts.device_facts import DeviceFacts, inspect_device
from pytest_cloudbench.hosts.devices import BlockDevice, prove_all_ours
from pytest_cloudbench.hosts.errors import NotOurs, StripeError
from pytest_cloudbench.hosts.host import Host, operation
from pytest_cloudbench.hosts.stripe_methods import Method, choose_method
from pytest_cloudbench.limits.quantities import Size

BTRFS_CHUNK = Size(64 * 1024)
"""The stripe length of btrfs, a constant of the kernel (BTRFS_STRIPE_LEN)."""
SMALLEST_CHUNK = Size(4 * 1024)
LARGEST_CHUNK = Size(4 * 1024**2)
"""LVM's largest stripe size: one physical extent, by default 4 MiB (lvcreate(8))."""


@dataclass(frozen=True)
class StripedDevices:
    """Devices striped together. With md and LVM they are one block device at `path`, of `size`.

    btrfs stripes while it is mounted over them: `path` is then the first device, and `size` the sum of all. `chunk` is
    how many consecutive bytes lie on one device. `why` says why earlier methods were not chosen.
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
        """Whether the stripe is a block device of its own."""
        return self.method != "btrfs"

    @property
    def paths(self) -> tuple[str, ...]:
        """The devices to make a file system on: the one device, or for btrfs all of them."""
        return (self.path,) if self.is_device else tuple(member.path for member in self.members)

    @property
    def hardware(self) -> str:
        """The name of the hardware in messages: "the stripe of volume vol-0abc and volume vol-0def"."""
        return f"the stripe of {' and '.join(member.hardware for member in self.members)}"

    def prove(self, host: Host, *, mounted_at: str | None = None) -> tuple[DeviceFacts, ...]:
        """Prove that every member is ours and used only by this stripe, which is free or mounted on `mounted_at`.

        Raises NotOurs or DeviceNotFound.
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
                f"{self.path} on {host.label} is not proven to be {self.hardware}, nothing is written to it: "
                f"it {', and it '.join(problems)}"
            )
        return (array,)


def check_chunk(chunk: Size) -> None:
    """Raise StripeError unless md and LVM can stripe with this chunk size."""
    in_bounds = SMALLEST_CHUNK <= chunk <= LARGEST_CHUNK
    if not in_bounds or chunk.bytes & (chunk.bytes - 1):
        raise StripeError(
            f"invalid chunk {chunk}: use a power of two from {SMALLEST_CHUNK} to {LARGEST_CHUNK}, such as chunk='64k'"
        )


def check_members(members: Sequence[BlockDevice]) -> None:
    """Raise StripeError for fewer than two devices, for one that is given twice, or for unequal sizes."""
    if len(members) < 2:
        raise StripeError(f"{len(members)} device cannot be striped: give two or more")
    if len({member.path for member in members}) != len(members):
        raise StripeError(f"a device was given twice: {', '.join(member.path for member in members)}")
    if len({member.size for member in members}) != 1:
        sizes = ", ".join(f"{member.hardware} {member.size}" for member in members)
        raise StripeError(
            "devices of unequal size are not striped, because the largest would carry a part of the load alone: "
            f"{sizes}"
        )


@operation("stripe")
def stripe(
    host: Host, members: Sequence[BlockDevice], *, chunk: Size, overwrite: bool = False
) -> StripedDevices:
    """Stripe devices by md if the host has it, otherwise by LVM, otherwise by btrfs.

    Nothing is written before every device is proven ours, free and, without `overwrite`, empty. btrfs writes a
    stripe only with its file system, and always with its own chunk size; see `StripedDevices.chunk`.
    Raises StripeError, NotOurs, DeviceNotFound or FilesystemError.
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
    """Return the stripe after a restart of its host, or on another host, where its devices may have other names.

    It is assembled unless the host has already done so. Raises StripeError, or NotOurs if it is not proven ours.
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
    """Turn the stripe into single, empty devices again. It must not be mounted.

    Raises NotOurs if it is mounted or its devices are no longer proven ours, or StripeError.
    """
    striped.prove(host)
    members = [member.path for member in striped.members]
    if striped.method == "md":
        stripe_methods.end_array(host, striped.path, members)
    elif striped.method == "LVM":
        stripe_methods.end_logical_volume(host, striped.name, members)
    else:
        # The kernel remembers the devices of btrfs by number, even if another volume has that number later.
        host.run(["btrfs", "device", "scan", "--forget", *members], sudo=True, check=False)
    wipe(host, members)
