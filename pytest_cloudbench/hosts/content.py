"""Content of block devices, which loads and file systems destroy: signatures (found by blkid), and data without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_cloudbench.hosts.errors import CommandFailed, FilesystemError, NotOurs, WouldDestroy
from pytest_cloudbench.hosts.host import Host, operation

_NOTHING_FOUND = 2
_CONTRADICTING = 8
_DIGITS = 3
_NEXT = "next device\n"
PROBE = f"""\
for each; do
    blkid -p -o export -- "$each" 2>&1
    printf 'exit code=%s\\n{_NEXT}' "$?"
done
"""
_FIND_DATA = """\
for each; do
    size=$(blockdev --getsize64 "$each") || exit 1
    set -- 0:1048576 $((size > 1048576 ? size - 1048576 : 0)):1048576
    for part in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do set -- "$@" $((size / 15 * part / 4096 * 4096)):65536; done
    for piece; do
        cmp -s -n "${piece#*:}" -i "${piece%:*}:0" -- "$each" /dev/zero
        code=$?
        [ "$code" -eq 0 ] && continue
        [ "$code" -eq 1 ] || exit "$code"
        printf '%s\\n' "$each"
        break
    done
done
"""
_WORDS = {
    "linux_raid_member": "a member of an md array",
    "LVM2_member": "an LVM physical volume",
    "swap": "swap space",
    "crypto_LUKS": "a LUKS container",
}

_written_by_us: set[str] = set()
"""Names of devices that existed before this process and that it may have written to."""
_made_by_us: set[str] = set()
"""UUIDs of the file systems made by this process, on any host: a volume may have moved since."""


@dataclass(frozen=True)
class Signature:
    """What a device carries: `kind` as blkid names it ("xfs", "LVM2_member"), or the kind of partition table."""

    kind: str
    uuid: str | None = None
    is_partition_table: bool = False

    @property
    def made_here(self) -> bool:
        """Whether this run made the file system."""
        return self.uuid is not None and self.uuid in _made_by_us

    def __str__(self) -> str:
        if self.is_partition_table:
            return f"a {self.kind} partition table"
        return _WORDS.get(self.kind, f"{self.kind}, made in this run" if self.made_here else self.kind)


def read_signatures(host: Host, paths: Sequence[str]) -> list[Signature | None]:
    """Return what each device carries, read by one command from the devices and not from udev's cache; None if nothing.

    Raises FilesystemError if that cannot be read.
    """
    said = host.run(["sh", "-c", PROBE, "sh", *paths], sudo=True, idempotent=True).stdout
    found = [_signature(host, path, text) for path, text in zip(paths, said.split(_NEXT), strict=False)]
    if len(found) != len(paths):
        raise FilesystemError(f"cannot read what {', '.join(paths)} on {host.label} carry: {said.strip()}")
    return found


def read_signature(host: Host, path: str) -> Signature | None:
    """Return what one device carries; see `read_signatures`."""
    return read_signatures(host, [path])[0]


def _signature(host: Host, path: str, text: str) -> Signature | None:
    pairs = {key: value for key, _, value in (line.partition("=") for line in text.splitlines())}
    said = pairs.get("exit code", "")
    code = int(said) if said.isascii() and said.isdigit() and len(said) <= _DIGITS else -1
    if code == _NOTHING_FOUND and not pairs.keys() & {"TYPE", "PTTYPE"}:
        return None
    if code == _CONTRADICTING:
        return Signature("signatures of several kinds")
    if code != 0:
        raise FilesystemError(f"cannot read what {path} on {host.label} carries: {text.strip()}")
    if "TYPE" in pairs:
        return Signature(pairs["TYPE"], pairs.get("UUID"))
    return Signature(pairs.get("PTTYPE", "unknown"), pairs.get("PTUUID"), is_partition_table=True)


@operation("refuse_overwriting", repeatable=True)
def refuse_overwriting(host: Host, paths: Sequence[str], what_for: str) -> None:
    """Raise WouldDestroy if a device of `paths` carries a signature, listing all that do."""
    if carries := _carried(host, paths):
        raise WouldDestroy(
            f"on {host.label}, {carries}: {what_for} would destroy it, which needs overwrite=True"
        )


@operation("refuse_content", repeatable=True)
def refuse_content(host: Host, paths: Sequence[str]) -> None:
    """Raise NotOurs if a device of `paths`, none created by the run, carries a signature, listing all that do."""
    if carries := _carried(host, paths):
        raise NotOurs(
            f"on {host.label}, {carries}: nothing is written to it; if that is no longer needed, remove it by wipefs "
            "--all yourself"
        )


def refuse_data(host: Host, devices: Mapping[str, str], *, overwrite: bool) -> None:
    """Raise WouldDestroy if devices that the run did not create have data, listing these, unless `overwrite`.

    `devices` has a permanent name for each path. A device has data if the first MiB, the last MiB, or one of 14 pieces
    of 64 KiB between them is not zero: blocks of an EBS volume that were never written read as zeros. After this call
    the devices may be written to; later calls skip them, because their data may be this process's own. Raises
    FilesystemError if a device cannot be compared, for example because the host has no `cmp`.
    """
    paths = [path for path, name in devices.items() if name not in _written_by_us]
    if paths and not overwrite:
        _refuse_data(host, paths)
    _written_by_us.update(devices.values())


@operation("refuse_data", repeatable=True)
def _refuse_data(host: Host, paths: Sequence[str]) -> None:
    try:
        said = host.run(["sh", "-c", _FIND_DATA, "sh", *paths], sudo=True, idempotent=True).stdout
    except CommandFailed as error:
        why = error.stderr.strip() or f"the comparison ended with exit code {error.exit_code}"
        raise FilesystemError(
            f"cannot read whether {', '.join(paths)} on {host.label} have data: {why}"
        ) from error
    if found := said.splitlines():
        raise WouldDestroy(
            f"on {host.label}, {', '.join(found)} has data without a signature that names it, such as that of a "
            "database on a raw device or of an earlier run: the load would destroy it, which needs overwrite=True"
        )


def _carried(host: Host, paths: Sequence[str]) -> str:
    found = zip(paths, read_signatures(host, paths), strict=True)
    return ", ".join(f"{path} carries {signature}" for path, signature in found if signature is not None)


def wipe(host: Host, paths: Sequence[str]) -> None:
    """Remove every signature from devices that the caller has proven ours. Raises FilesystemError."""
    try:
        host.run(["wipefs", "--all", "--quiet", "--", *paths], sudo=True)
    except CommandFailed as error:
        raise FilesystemError(f"{', '.join(paths)} could not be wiped: {error}") from error


def remember_made(host: Host, path: str, kind: str) -> Signature:
    """Remember the file system that was just made on `path`. Raises FilesystemError if it is not there."""
    signature = read_signature(host, path)
    if signature is None or signature.kind != kind or signature.uuid is None:
        raise FilesystemError(f"{kind} was made on {path} of {host.label}, but was not found there")
    _made_by_us.add(signature.uuid)
    return signature
