"""What a device carries already: file systems, partition tables, members of arrays. None is overwritten unasked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cloudbench.hosts.errors import CommandFailed, FilesystemError
from pytest_cloudbench.hosts.listener import operation

if TYPE_CHECKING:
    from pytest_cloudbench.hosts.connection import HostConnection

_NOTHING_FOUND = 2
_CONTRADICTING = 8
_WORDS = {
    "linux_raid_member": "a member of an md array",
    "LVM2_member": "an LVM physical volume",
    "swap": "swap space",
    "crypto_LUKS": "a LUKS container",
}

_made_here: set[str] = set()
"""UUIDs of the file systems made by this process, on whatever host: a volume may have moved since."""


@dataclass(frozen=True)
class Signature:
    """What a device carries: `kind` as blkid names it ("xfs", "LVM2_member"), or the kind of partition table."""

    kind: str
    uuid: str | None = None
    is_partition_table: bool = False

    @property
    def made_here(self) -> bool:
        """Whether it is a file system that this run made."""
        return self.uuid is not None and self.uuid in _made_here

    def __str__(self) -> str:
        if self.is_partition_table:
            return f"a {self.kind} partition table"
        return _WORDS.get(self.kind, f"{self.kind}, made in this run" if self.made_here else self.kind)


def read_signature(host: HostConnection, path: str) -> Signature | None:
    """What the device carries, read from the device itself and not from udev's memory; None for nothing.

    Raises FilesystemError when that cannot be told.
    """
    said = host.run(["blkid", "-p", "-o", "export", "--", path], sudo=True, check=False, idempotent=True)
    if said.exit_code == _NOTHING_FOUND:
        return None
    if said.exit_code == _CONTRADICTING:
        return Signature("signatures of several kinds")
    if said.exit_code != 0:
        raise FilesystemError(f"what {path} on {host.label} carries cannot be told: {said.stderr.strip()}")
    pairs = {key: value for key, _, value in (line.partition("=") for line in said.stdout.splitlines())}
    if "TYPE" in pairs:
        return Signature(pairs["TYPE"], pairs.get("UUID"))
    return Signature(pairs.get("PTTYPE", "unknown"), pairs.get("PTUUID"), is_partition_table=True)


@operation
def refuse_overwriting(host: HostConnection, paths: Sequence[str], what_for: str) -> None:
    """Raise FilesystemError, naming every device of `paths` that carries something."""
    found = [(path, signature) for path in paths if (signature := read_signature(host, path)) is not None]
    if found:
        carries = ", ".join(f"{path} carries {signature}" for path, signature in found)
        raise FilesystemError(
            f"on {host.label}, {carries}: {what_for} would destroy it and is not done without overwrite=True"
        )


def wipe(host: HostConnection, paths: Sequence[str]) -> None:
    """Take every signature off devices that the caller has proven ours. Raises FilesystemError."""
    try:
        host.run(["wipefs", "--all", "--quiet", "--", *paths], sudo=True)
    except CommandFailed as error:
        raise FilesystemError(f"what {', '.join(paths)} carried could not be wiped off: {error}") from error


def remember_made(host: HostConnection, path: str, kind: str) -> Signature:
    """Take note of the file system that was just made there. Raises FilesystemError when there is none."""
    signature = read_signature(host, path)
    if signature is None or signature.kind != kind or signature.uuid is None:
        raise FilesystemError(f"{kind} was made on {path} of {host.label}, but is not there")
    _made_here.add(signature.uuid)
    return signature
